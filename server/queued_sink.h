// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_QUEUED_SINK_H_
#define MPSD_SERVER_QUEUED_SINK_H_

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/sinks/sink.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace mpsd {

// Queues lines, and its thread writes them to another sink, so that logging
// never waits for a disk or a terminal. A full queue drops its oldest line; the
// sink writes the number of dropped lines before the next line. Thread-safe.
class QueuedSink final : public spdlog::sinks::sink {
 public:
  // `capacity`: the maximum number of lines that wait.
  QueuedSink(spdlog::sink_ptr inner, size_t capacity);
  // Waits for the queued lines, but not for a sink that is stuck: a stuck sink
  // keeps its thread.
  ~QueuedSink() override;

  void log(const spdlog::details::log_msg& message) override;
  void flush() override {}  // the thread flushes each line that it writes
  void set_pattern(const std::string& pattern) override;
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override;

  // False if a line that was logged before this call is not written within
  // `timeout`.
  bool Drain(absl::Duration timeout) const;

 private:
  class Writer;

  const std::shared_ptr<spdlog::details::thread_pool> pool_;
  const std::shared_ptr<Writer> writer_;
  const std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<uint64_t> queued_{0};
};

}  // namespace mpsd

#endif  // MPSD_SERVER_QUEUED_SINK_H_
