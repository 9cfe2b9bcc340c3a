// SPDX-License-Identifier: Apache-2.0
#include "server/ticker.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"

namespace mpsd {
namespace {

// The wall clock may jump while the thread waits.
constexpr absl::Duration kLongestNap = absl::Minutes(1);

}  // namespace

void Ticker::Start(std::function<absl::Time()> tick) {
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
      return poked_ || stopped_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&roused), nap);
    if (stopped_) return;
    poked_ = false;
  }
}

void Ticker::Poke() {
  absl::MutexLock lock(&mutex_);
  poked_ = true;
}

void Ticker::Await(const std::function<bool()>& done) {
  int64_t seen = -1;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      const auto ticked = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
        return ticks_ != seen || stopped_;
      };
      mutex_.Await(absl::Condition(&ticked));
      if (stopped_) return;
      seen = ticks_;
    }
    if (done()) return;
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
