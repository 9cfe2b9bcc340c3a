// SPDX-License-Identifier: Apache-2.0
#include "server/stderr_sink.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <string>

#include "absl/strings/str_cat.h"

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

}  // namespace mpsd
