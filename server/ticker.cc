// SPDX-License-Identifier: Apache-2.0
#include "server/ticker.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "core/base/check.h"
#include "core/base/clock.h"

namespace mpsd {
namespace {

// The wall clock may jump while the thread waits, so it checks the time at
// least this often.
constexpr absl::Duration kLongestNap = absl::Minutes(1);

}  // namespace

void Ticker::Start(std::function<absl::Time()> tick) {
  base::Check(!thread_.joinable(), "Start is called once");
  tick_ = std::move(tick);
  thread_ = std::thread([this] { Run(); });
}

void Ticker::Run() {
  while (true) {
    const absl::Time next = tick_();
    const absl::Duration nap = std::min(next - absl::Now(), kLongestNap);
    absl::MutexLock lock(&mutex_);
    ++ticks_;
    const auto roused = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return woken_ || stopped_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&roused), nap);
    if (stopped_) return;
    woken_ = false;
  }
}

void Ticker::WakeUp() {
  absl::MutexLock lock(&mutex_);
  woken_ = true;
}

bool Ticker::Await(const std::function<bool()>& done, absl::Duration timeout) {
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + timeout;
  int64_t seen = -1;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto ticked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return ticks_ != seen || stopped_;
      };
      const bool in_time = mutex_.AwaitWithTimeout(
          absl::Condition(&ticked), deadline - clock.Monotonic());
      if (stopped_ || !in_time) return false;
      seen = ticks_;
    }
    if (done()) return true;
  }
}

void Ticker::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace mpsd
