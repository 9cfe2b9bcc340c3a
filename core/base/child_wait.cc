// SPDX-License-Identifier: Apache-2.0
#include "core/base/child_wait.h"

#include <sys/wait.h>

#include <algorithm>
#include <cerrno>

#include "absl/time/clock.h"
#include "core/base/clock.h"

namespace mpsd::base {

std::optional<int> ReapIfEnded(pid_t pid) {
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid, &status, WNOHANG);
  } while (reaped < 0 && errno == EINTR);
  if (reaped == pid) return status;
  if (reaped < 0) return 255 << 8;
  return std::nullopt;
}

// POSIX has no wait with a deadline: sleeps grow from 1 to 20 ms.
std::optional<int> AwaitEnd(const std::function<std::optional<int>()>& poll,
                            absl::Duration timeout,
                            const std::function<bool()>& give_up) {
  const Clock& clock = Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + timeout;
  absl::Duration nap = absl::Milliseconds(1);
  while (true) {
    if (const std::optional<int> status = poll()) return status;
    const absl::Duration left = deadline - clock.Monotonic();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    if (give_up && give_up()) return std::nullopt;
    absl::SleepFor(std::min(nap, left));
    nap = std::min(nap * 2, absl::Milliseconds(20));
  }
}

}  // namespace mpsd::base
