// SPDX-License-Identifier: Apache-2.0
#include "server/log.h"

#include <poll.h>
#include <spdlog/details/log_msg.h>
#include <spdlog/sinks/rotating_file_sink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd {
namespace {

// The bytes that a pipe has room for once poll() reports it writable (pipe(7)).
constexpr size_t kPiece = std::min<size_t>(PIPE_BUF, 512);

std::string_view ColourOf(spdlog::level::level_enum level) {
  switch (level) {
    case spdlog::level::err:
    case spdlog::level::critical:
      return "\033[31m";
    case spdlog::level::warn:
      return "\033[33m";
    case spdlog::level::info:
      return "\033[32m";
    default:
      return "\033[36m";
  }
}

}  // namespace

StderrSink::StderrSink(int fd, absl::Duration patience)
    : fd_(fd), coloured_(isatty(fd) == 1), patience_(patience) {}

void StderrSink::sink_it_(const spdlog::details::log_msg& message) {
  spdlog::memory_buf_t formatted;
  formatter_->format(message, formatted);
  std::string line(formatted.data(), formatted.size());
  if (coloured_ && message.color_range_end > message.color_range_start) {
    line.insert(message.color_range_end, "\033[m");
    line.insert(message.color_range_start, ColourOf(message.level));
  }
  stalled_ = !AwaitRoom(stalled_ ? absl::ZeroDuration() : patience_);
  if (stalled_) {
    ++left_out_;
    return;
  }
  if (left_out_ > 0) {
    line = absl::StrCat("(", left_out_,
                        " lines were dropped here: stderr was not read; "
                        "STATE/log/mpsd.log has them)\n",
                        line);
  }
  if (torn_) line = absl::StrCat("\n", line);
  const uint64_t before = left_out_;
  left_out_ = 0;
  if (!Write(line)) left_out_ = before + 1;
}

bool StderrSink::Write(std::string_view text) {
  torn_ = false;
  while (!text.empty()) {
    if (!AwaitRoom(patience_)) {
      stalled_ = true;
      return false;
    }
    const ssize_t n = write(fd_, text.data(), std::min(text.size(), kPiece));
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n < 0) return true;  // the pipe will never be read
    text.remove_prefix(n);
    torn_ = !text.empty();
  }
  return true;
}

// Also true if a write would fail at once.
bool StderrSink::AwaitRoom(absl::Duration patience) const {
  pollfd room{fd_, POLLOUT, 0};
  const int ms = static_cast<int>(absl::ToInt64Milliseconds(patience));
  return poll(&room, 1, ms) > 0;
}

namespace {

// How long the destructor waits for a slow disk.
constexpr absl::Duration kLastWords = absl::Seconds(2);

// Keeps `part` forever: destroying a pool waits for its thread, which may be
// stuck.
void Keep(std::shared_ptr<void> part) {
  static absl::Mutex* const mutex = new absl::Mutex;
  static auto* const kept = new std::vector<std::shared_ptr<void>>;
  absl::MutexLock lock(mutex);
  kept->push_back(std::move(part));
}

}  // namespace

// The sink that the thread writes to.
class QueuedSink::Writer final : public spdlog::sinks::sink {
 public:
  // `pool`: the one whose thread calls log(). The pool's destructor waits for
  // that thread, so the pool is there whenever the thread counts its lines.
  Writer(spdlog::sink_ptr inner, spdlog::details::thread_pool& pool)
      : inner_(std::move(inner)), pool_(pool) {}

  void log(const spdlog::details::log_msg& message) override {
    {
      absl::MutexLock lock(&mutex_);
      if (next_ != nullptr) inner_ = std::exchange(next_, nullptr);
    }
    const uint64_t dropped = Dropped();
    if (dropped != said_) {
      const std::string text =
          absl::StrCat(dropped - said_,
                       " lines were dropped here: they came "
                       "faster than they could be written");
      inner_->log({message.time, message.source, message.logger_name,
                   spdlog::level::warn, text});
      said_ = dropped;
    }
    inner_->log(message);
    inner_->flush();
    // Counts the line whatever `inner_` did with it. The error handler counts a
    // line whose write throws.
    ++written_;
  }
  void flush() override {}
  void set_pattern(const std::string& pattern) override {
    inner_->set_pattern(pattern);
  }
  void set_formatter(std::unique_ptr<spdlog::formatter> formatter) override {
    inner_->set_formatter(std::move(formatter));
  }

  // Does not wait for a write in progress.
  void Replace(spdlog::sink_ptr next) {
    absl::MutexLock lock(&mutex_);
    next_ = std::move(next);
  }
  void CountFailure() { ++written_; }
  uint64_t Done() const { return written_ + Dropped(); }

 private:
  uint64_t Dropped() const { return pool_.overrun_counter(); }

  spdlog::sink_ptr inner_;  // replaced only by the thread
  absl::Mutex mutex_;
  spdlog::sink_ptr next_ ABSL_GUARDED_BY(mutex_);
  spdlog::details::thread_pool& pool_;
  std::atomic<uint64_t> written_{0};
  uint64_t said_ = 0;  // used only by the thread
};

QueuedSink::QueuedSink(spdlog::sink_ptr inner, size_t capacity)
    : pool_(std::make_shared<spdlog::details::thread_pool>(capacity, 1)),
      writer_(std::make_shared<Writer>(std::move(inner), *pool_)),
      logger_(std::make_shared<spdlog::async_logger>(
          "mpsd", writer_, pool_, spdlog::async_overflow_policy::block)) {
  logger_->set_level(spdlog::level::trace);
  // spdlog's own error handler would write to stderr and wait for it.
  logger_->set_error_handler(
      [writer = writer_.get()](const std::string&) { writer->CountFailure(); });
}

QueuedSink::~QueuedSink() {
  if (Drain(kLastWords)) return;
  Keep(pool_);
  Keep(logger_);
}

void QueuedSink::log(const spdlog::details::log_msg& message) {
  ++queued_;
  pool_->post_log(std::shared_ptr<spdlog::async_logger>(logger_), message,
                  spdlog::async_overflow_policy::overrun_oldest);
}

void QueuedSink::set_pattern(const std::string& pattern) {
  writer_->set_pattern(pattern);
}

void QueuedSink::set_formatter(std::unique_ptr<spdlog::formatter> formatter) {
  writer_->set_formatter(std::move(formatter));
}

void QueuedSink::Replace(spdlog::sink_ptr next) {
  writer_->Replace(std::move(next));
}

bool QueuedSink::Drain(absl::Duration timeout) const {
  const uint64_t wanted = queued_;
  const base::Clock& clock = base::Clock::Real();
  const absl::Duration deadline = clock.Monotonic() + timeout;
  while (writer_->Done() < wanted) {
    if (clock.Monotonic() > deadline) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

namespace {

// A line is a few hundred bytes.
constexpr size_t kQueuedLines = 4096;
constexpr absl::Duration kStderrPatience = absl::Milliseconds(200);

constexpr char kPattern[] = "%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v";

absl::StatusOr<spdlog::sink_ptr> OpenFile(const Config& config) {
  const std::string path = config.state_dir / "log" / "mpsd.log";
  try {
    return std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        path, config.log_max_bytes, config.log_files);
  } catch (const spdlog::spdlog_ex& e) {
    return absl::UnavailableError(
        absl::StrCat("cannot write the log ", path, ": ", e.what()));
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<spdlog::logger>> OpenLog(const Config& config) {
  ASSIGN_OR_RETURN(spdlog::sink_ptr file, OpenFile(config));
  auto logger = std::make_shared<spdlog::logger>(
      "mpsd", std::make_shared<QueuedSink>(std::move(file), kQueuedLines));
  if (config.log_stderr) {
    logger->sinks().push_back(std::make_shared<QueuedSink>(
        std::make_shared<StderrSink>(STDERR_FILENO, kStderrPatience),
        kQueuedLines));
  }
  logger->set_level(spdlog::level::from_str(config.log_level));
  logger->set_pattern(kPattern);
  return logger;
}

absl::Status ReopenLog(const spdlog::logger& log, const Config& config) {
  ASSIGN_OR_RETURN(spdlog::sink_ptr file, OpenFile(config));
  file->set_pattern(kPattern);
  auto& first = dynamic_cast<QueuedSink&>(*log.sinks().front());
  first.Replace(std::move(file));
  return absl::OkStatus();
}

bool FlushLog(const spdlog::logger& log, absl::Duration timeout) {
  const auto& sinks = log.sinks();
  return std::all_of(sinks.begin(), sinks.end(), [&](const auto& sink) {
    const auto* queued = dynamic_cast<const QueuedSink*>(sink.get());
    return queued == nullptr || queued->Drain(timeout);
  });
}

std::function<void(const std::string&)> LineTo(
    std::shared_ptr<spdlog::logger> log, spdlog::level::level_enum level) {
  return [log = std::move(log), level](const std::string& line) {
    log->log(level, base::Printable(line));
  };
}

}  // namespace mpsd
