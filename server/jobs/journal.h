// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOURNAL_H_
#define MPSD_SERVER_JOBS_JOURNAL_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::jobs {

// Runs work so that one run serves every thread that requested it before the
// run began. One of these threads does the work, one at a time; a thread that
// finds another at work returns at once, so that hanging work blocks only one
// thread. Thread-safe.
class Relay {
 public:
  void Ask() { asked_ = true; }

  // Runs `work` until no request is left, unless another thread does.
  template <typename Work>
  void Run(const Work& work) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // The loop's last check of asked_ sees a thread that requests while this
    // one is about to leave.
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

// Collects log lines where nothing may block; one thread at a time writes them
// later, in order. Thread-safe.
class Journal {
 public:
  // `id`: the job whose log gets the line too, or empty.
  using Sink =
      std::function<void(const std::string& id, const std::string& line)>;
  // The maximum number of lines that wait for a hanging log; Add drops further
  // lines, and Write reports their number.
  static constexpr size_t kMostWaiting = 10'000;

  explicit Journal(Sink sink) : sink_(std::move(sink)) {}

  // Never blocks.
  void Add(std::string id, std::string line);
  // Writes the waiting lines, unless another thread does so now. Call it
  // without a lock held.
  void Write();

 private:
  struct Line {
    std::string id, text;
  };
  void WriteWaiting();

  const Sink sink_;
  Relay relay_;
  absl::Mutex mutex_;
  std::deque<Line> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOURNAL_H_
