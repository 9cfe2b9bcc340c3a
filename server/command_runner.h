// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_COMMAND_RUNNER_H_
#define MPSD_SERVER_COMMAND_RUNNER_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "server/notify/delivery.h"

namespace mpsd {

// The notify::CommandRunner over posix_spawn: the program in its own process
// group, with `call.input` on its standard input and no descriptor of this
// process. Keeps the first 4 KiB of its output. The group is killed at the
// time-out; children that outlive a program which exits normally keep running.
// The process must ignore SIGPIPE (signals.h).
absl::StatusOr<notify::CommandEnd> RunCommand(
    const notify::CommandCall& call, const std::atomic<bool>& interrupted);

}  // namespace mpsd

#endif  // MPSD_SERVER_COMMAND_RUNNER_H_
