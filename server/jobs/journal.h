// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOURNAL_H_
#define MPSD_SERVER_JOBS_JOURNAL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/jobs/relay.h"

namespace mpsd::jobs {

// Collects log lines where nothing may block; one thread at a time writes them
// later, in order. Thread-safe.
class Journal {
 public:
  // `id`: the job whose log gets the line too, or empty.
  using Sink =
      std::function<void(const std::string& id, const std::string& line)>;
  // The most lines that wait for a log that hangs; Add drops further lines, and
  // Write reports their number.
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
