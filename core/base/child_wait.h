// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_CHILD_WAIT_H_
#define MPSD_CORE_BASE_CHILD_WAIT_H_

#include <sys/types.h>

#include <functional>
#include <optional>

#include "absl/time/time.h"

namespace mpsd::base {

// The status of the child `pid` as waitpid gives it, reaping the child; nullopt
// while the child runs. 255 << 8 where another call of waitpid reaped the
// child: the status is lost, but the end is known.
std::optional<int> ReapIfEnded(pid_t pid);

// Asks `poll` again and again until it tells a status. Nullopt once `timeout`
// has passed or `give_up` is true; an empty `give_up` never is.
std::optional<int> AwaitEnd(const std::function<std::optional<int>()>& poll,
                            absl::Duration timeout,
                            const std::function<bool()>& give_up = {});

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_CHILD_WAIT_H_
