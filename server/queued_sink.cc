// SPDX-License-Identifier: Apache-2.0
#include "server/queued_sink.h"

#include <spdlog/details/log_msg.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"

namespace mpsd {
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

  void CountFailure() { ++written_; }
  uint64_t Done() const { return written_ + Dropped(); }

 private:
  uint64_t Dropped() const { return pool_.overrun_counter(); }

  const spdlog::sink_ptr inner_;
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

}  // namespace mpsd
