// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_COMMAND_RUNNER_H_
#define MPSD_SERVER_COMMAND_RUNNER_H_

#include <atomic>

#include "absl/status/statusor.h"
#include "server/notify/delivery.h"

namespace mpsd {

// The notify::CommandRunner over posix_spawn: the program in a process group of
// its own, with `call.input` on its standard input and no descriptor of this
// process. Keeps the first 4 KiB of what the program writes. The group is
// killed at the time-out; what a program leaves behind when it ends by itself
// goes on. The process must ignore SIGPIPE (signals.h).
absl::StatusOr<notify::CommandEnd> RunCommand(
    const notify::CommandCall& call, const std::atomic<bool>& interrupted);

}  // namespace mpsd

#endif  // MPSD_SERVER_COMMAND_RUNNER_H_
