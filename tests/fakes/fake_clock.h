// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace mpsd::fakes {

// Does not move until it is set; starts at 2026-01-01. Thread-safe.
class FakeClock final : public base::Clock {
 public:
  absl::Time Now() const override {
    absl::MutexLock lock(&mutex_);
    elapsed_ += flow_;
    return absl::FromUnixSeconds(1767225600) + elapsed_ - set_back_;
  }
  absl::Duration Monotonic() const override {
    absl::MutexLock lock(&mutex_);
    return elapsed_;
  }
  void Advance(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    elapsed_ += duration;
  }
  // Each reading of the time takes this long, as a real clock's does.
  void Flow(absl::Duration each) {
    absl::MutexLock lock(&mutex_);
    flow_ = each;
  }
  // The wall clock alone.
  void SetBack(absl::Duration duration) {
    absl::MutexLock lock(&mutex_);
    set_back_ += duration;
  }

 private:
  mutable absl::Mutex mutex_;
  mutable absl::Duration elapsed_ ABSL_GUARDED_BY(mutex_);
  absl::Duration flow_ ABSL_GUARDED_BY(mutex_);
  absl::Duration set_back_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::fakes
