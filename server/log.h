// SPDX-License-Identifier: Apache-2.0
// mpsd's log: a file that rotates and stderr; no caller waits for either.
#pragma once

#include <spdlog/async_logger.h>
#include <spdlog/details/thread_pool.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/sink.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config.h"

namespace mpsd {

// Writes lines to a descriptor that may be an unread pipe or a terminal after
// Ctrl-S. A line waits for at most `patience`; after that the sink drops the
// line and further ones until the descriptor accepts bytes again, and then
// first writes how many were dropped. The sink does not change the descriptor's
// flags, because other processes share them. Coloured on a terminal.
class StderrSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit StderrSink(int fd, absl::Duration patience);

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override {}

 private:
  bool Write(std::string_view text);
  bool AwaitRoom(absl::Duration patience) const;

  const int fd_;
  const bool coloured_;
  const absl::Duration patience_;
  bool stalled_ = false;
  bool torn_ = false;  // the last line was written in part
  uint64_t left_out_ = 0;
};

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

  // Writes further lines to `next` instead.
  void Replace(spdlog::sink_ptr next);

 private:
  class Writer;

  const std::shared_ptr<spdlog::details::thread_pool> pool_;
  const std::shared_ptr<Writer> writer_;
  const std::shared_ptr<spdlog::async_logger> logger_;
  std::atomic<uint64_t> queued_{0};
};

// Writes to STATE/log/mpsd.log, which rotates, and to stderr unless the
// configuration turns that off. The state folder must exist. Logging never
// waits for the file or for stderr: each has a bounded queue and a thread that
// writes the queued lines and reports how many lines were dropped. Destroying
// the logger writes the last lines, within some seconds. Thread-safe.
absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config);

// Opens STATE/log/mpsd.log again: a program that rotates logs has renamed the
// file that `log`, of OpenLog, writes. If it cannot be opened nothing changes.
absl::Status ReopenLog(const spdlog::logger& log, const Config& config);

// Waits until every earlier line is written, for at most `timeout`; false if
// some line is not.
bool FlushLog(const spdlog::logger& log, absl::Duration timeout);

// Writes lines to the log, escaped, so that a job's text never starts a new log
// line.
std::function<void(const std::string&)> LineTo(
    std::shared_ptr<spdlog::logger> log,
    spdlog::level::level_enum level = spdlog::level::info);

}  // namespace mpsd
