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

// A thread that calls a function at the time that the function returned last,
// or when WakeUp() is called. Thread-safe; the destructor joins the thread.
class Ticker {
 public:
  ~Ticker() { Stop(); }

  // At most once. `tick` returns the time until which no call is needed.
  void Start(std::function<absl::Time()> tick);
  // Makes the next call come soon, also when it is called before Start.
  void WakeUp();
  // Whether `done` holds, now or after some call within `timeout`. False once
  // Stop was called.
  bool Await(const std::function<bool()>& done,
             absl::Duration timeout = absl::InfiniteDuration());
  // Waits for a call in progress.
  void Stop();

 private:
  void Run();

  std::function<absl::Time()> tick_;
  absl::Mutex mutex_;
  bool woken_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  int64_t ticks_ ABSL_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace mpsd

#endif  // MPSD_SERVER_TICKER_H_
