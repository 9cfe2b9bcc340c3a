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

// Lines for the logs, collected where nothing may block and written later, in
// order, by one thread at a time. Thread-safe.
class Journal {
 public:
  // `id`: of the job whose log it is for too, or empty.
  using Sink =
      std::function<void(const std::string& id, const std::string& line)>;
  // Lines that wait for a log that hangs; what comes beyond is dropped, and
  // said.
  static constexpr size_t kMostWaiting = 10'000;

  explicit Journal(Sink sink) : sink_(std::move(sink)) {}

  // Never blocks.
  void Add(std::string id, std::string line);
  // Writes what waits, unless another thread does. Not with a lock held.
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
