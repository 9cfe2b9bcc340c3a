// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_RELAY_H_
#define MPSD_SERVER_JOBS_RELAY_H_

#include <atomic>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::jobs {

// Runs work in such a way that one run serves every thread that asked before
// the run began. One of the asking threads does the work, one at a time; a
// thread that finds another at work goes on at once, so that work that hangs
// blocks one thread alone. Thread-safe.
class Relay {
 public:
  void Ask() { asked_ = true; }

  // Runs `work` until nobody asks any more, unless another thread does.
  template <typename Work>
  void Run(const Work& work) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // The loop's last look at asked_ sees a thread that asks while this one is
    // about to leave.
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
