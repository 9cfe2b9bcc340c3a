// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RELAY_H_
#define MPSD_SERVER_JOBS_RELAY_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::jobs {

// Work of which one run serves everybody who asked before it began, done by one
// of the threads that ask, one at a time. A thread that finds another at it
// goes on at once: work that hangs hangs one thread. Thread-safe.
class Relay {
 public:
  void Ask() { asked_ = true; }

  // Runs `work` until nobody asks any more, unless another thread does.
  template <typename Work>
  void Run(const Work& work) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // Who asks while the other thread is about to leave is seen by its last
    // look.
    while (asked_) {
      if (!mutex_.TryLock()) return;
      while (asked_.exchange(false)) work();
      mutex_.Unlock();
    }
  }

 private:
  std::atomic<bool> asked_ = false;
  absl::Mutex mutex_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_RELAY_H_
