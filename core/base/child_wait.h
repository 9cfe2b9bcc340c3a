// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <optional>

#include "absl/time/time.h"

namespace mpsd::base {

// Reaps the child `pid` if it has ended and returns its waitpid status; nullopt
// while the child runs. 255 << 8 if another waitpid call reaped the child: the
// status is lost, but the child is known to have ended.
std::optional<int> ReapIfEnded(pid_t pid);

// Calls `poll` repeatedly until it returns a status. Returns nullopt once
// `timeout` has passed or `give_up`, where given, returns true.
std::optional<int> AwaitEnd(const std::function<std::optional<int>()>& poll,
                            absl::Duration timeout,
                            const std::function<bool()>& give_up = {});

}  // namespace mpsd::base
