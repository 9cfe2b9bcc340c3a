// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_TICKER_H_
#define MPSD_SERVER_TICKER_H_

#include <cstdint>
#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace mpsd {

// A thread that calls a function when the time it returned has come, or when it
// is poked. Thread-safe; the destructor joins.
class Ticker {
 public:
  ~Ticker() { Stop(); }

  // At most once. `tick` gives the time until which nothing need happen.
  void Start(std::function<absl::Time()> tick);
  // The next call comes soon; also before Start.
  void Poke();
  // Whether `done` holds, now or after a call within `timeout`. False after
  // Stop.
  bool Await(const std::function<bool()>& done,
             absl::Duration timeout = absl::InfiniteDuration());
  // Waits for a call that is under way.
  void Stop();

 private:
  void Run();

  std::function<absl::Time()> tick_;
  absl::Mutex mutex_;
  bool poked_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_TICKER_H_
