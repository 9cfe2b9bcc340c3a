// SPDX-License-Identifier: Apache-2.0
// Every wait with a limit, of the daemon, the worker and mpsctl.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"

namespace mpsd::base {

// A mutex whose waits end by the steady clock. Those of absl::Mutex and
// absl::Notification end at a time of the wall clock (Abseil before 2023), so
// that setting the clock back by an hour lengthens them by an hour.
class ABSL_LOCKABLE Monitor {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  // Notifies before it unlocks: after that, a waiting thread may destroy this.
  void Unlock() ABSL_UNLOCK_FUNCTION() {
    changed_.notify_all();
    mutex_.unlock();
  }

  // Waits until `holds()`, which is called with the lock after each change; for
  // at most `limit`. Returns holds().
  template <typename Holds>
  bool AwaitFor(absl::Duration limit, const Holds& holds)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(this) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // A sum with the longest duration would overflow.
    const auto end =
        std::chrono::steady_clock::now() +
        absl::ToChronoNanoseconds(std::min(limit, absl::Hours(24 * 365)));
    // This thread's own changes: the wait unlocks.
    changed_.notify_all();
    std::unique_lock<std::mutex> lock(mutex_, std::adopt_lock);
    const bool held = changed_.wait_until(lock, end, holds);
    lock.release();
    return held;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
};

class ABSL_SCOPED_LOCKABLE MonitorLock {
 public:
  explicit MonitorLock(Monitor* monitor) ABSL_EXCLUSIVE_LOCK_FUNCTION(monitor)
      : monitor_(*monitor) {
    monitor_.Lock();
  }
  ~MonitorLock() ABSL_UNLOCK_FUNCTION() { monitor_.Unlock(); }
  MonitorLock(const MonitorLock&) = delete;
  MonitorLock& operator=(const MonitorLock&) = delete;

 private:
  Monitor& monitor_;
};

// Set once, and then for good. Thread-safe.
class Event {
 public:
  void Set() {
    MonitorLock lock(&monitor_);
    set_ = true;
  }
  // Whether it is set, now or within `limit`.
  bool AwaitFor(absl::Duration limit) {
    MonitorLock lock(&monitor_);
    return monitor_.AwaitFor(
        limit, [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS { return set_; });
  }

 private:
  Monitor monitor_;
  bool set_ ABSL_GUARDED_BY(monitor_) = false;
};

// A thread that calls `tick` after each `interval` until it returns false or
// the object is destroyed, which waits for a call in progress.
class PeriodicCall {
 public:
  PeriodicCall(absl::Duration interval, std::function<bool()> tick)
      : thread_([this, interval, tick = std::move(tick)] {
          while (!stopping_.AwaitFor(interval) && tick()) {
          }
        }) {}
  ~PeriodicCall() {
    stopping_.Set();
    thread_.join();
  }

 private:
  Event stopping_;
  std::thread thread_;
};

}  // namespace mpsd::base
