// SPDX-License-Identifier: Apache-2.0
#include "core/base/line_channel.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::base {
namespace {

#ifdef MSG_NOSIGNAL
constexpr int kSendFlags = MSG_NOSIGNAL;
#else
constexpr int kSendFlags = 0;  // macOS: SO_NOSIGPIPE, set before each send
#endif

void SuppressSigpipe([[maybe_unused]] int fd) {
#ifdef SO_NOSIGPIPE
  int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
}

// Waits until `fd` can be read. DeadlineExceeded after `timeout`.
absl::Status WaitReadable(int fd, absl::Duration timeout) {
  const absl::Duration deadline = Clock::Real().Monotonic() + timeout;
  while (true) {
    int milliseconds = -1;
    if (timeout != absl::InfiniteDuration()) {
      const absl::Duration left = deadline - Clock::Real().Monotonic();
      milliseconds = static_cast<int>(std::clamp<int64_t>(
          absl::ToInt64Milliseconds(absl::Ceil(left, absl::Milliseconds(1))), 0,
          1 << 30));
    }
    pollfd entry{fd, POLLIN, 0};
    const int n = poll(&entry, 1, milliseconds);
    if (n > 0) return absl::OkStatus();
    if (n == 0) return absl::DeadlineExceededError("timed out");
    if (errno != EINTR) return ErrnoStatus(errno, "poll");
  }
}

}  // namespace

LineChannel::~LineChannel() { close(fd_); }

absl::Status LineChannel::Send(std::string_view line) {
  if (line.find('\n') != std::string_view::npos) {
    return absl::InvalidArgumentError("a line cannot contain a newline");
  }
  const std::string text = std::string(line) + "\n";
  std::string_view rest = text;
  absl::MutexLock lock(&send_mutex_);
  SuppressSigpipe(fd_);
  while (!rest.empty()) {
    const ssize_t n = send(fd_, rest.data(), rest.size(), kSendFlags);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, "send");
    rest.remove_prefix(n);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<std::string>> LineChannel::Receive(
    absl::Duration timeout) {
  while (true) {
    const size_t end = buffer_.find('\n', scanned_);
    if (std::min(end, buffer_.size()) > kMaxLine) {
      return absl::InvalidArgumentError(
          absl::StrCat("a line of more than ", kMaxLine, " bytes"));
    }
    if (end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      scanned_ = 0;
      return line;
    }
    // The bytes searched so far contain no newline: without this mark a long
    // line that arrives in pieces would take time quadratic in its length.
    scanned_ = buffer_.size();
    RETURN_IF_ERROR(WaitReadable(fd_, timeout));
    char piece[1 << 14];
    const ssize_t n = recv(fd_, piece, sizeof piece, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == ECONNRESET) return std::nullopt;
    if (n < 0) return ErrnoStatus(errno, "recv");
    if (n == 0) return std::nullopt;
    buffer_.append(piece, n);
  }
}

}  // namespace mpsd::base
