// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace mpsd::base {

// Lines over a connected stream file descriptor, which the channel owns and
// closes. Send may be called from any thread; Receive from one thread at a
// time.
class LineChannel {
 public:
  static constexpr size_t kMaxLine = 16 << 20;  // bytes

  explicit LineChannel(int fd) : fd_(fd) {}
  ~LineChannel();
  LineChannel(const LineChannel&) = delete;
  LineChannel& operator=(const LineChannel&) = delete;

  // Writes `line` and a newline; concurrent senders' lines never interleave.
  // `line` must contain no newline (InvalidArgument). Unavailable once the peer
  // has closed the stream; never raises SIGPIPE.
  absl::Status Send(std::string_view line);

  // The next line without its newline. nullopt at end of stream (an
  // unterminated last line is dropped, since it was cut). DeadlineExceeded if
  // no line came within `timeout`; InvalidArgument for a line over kMaxLine.
  absl::StatusOr<std::optional<std::string>> Receive(
      absl::Duration timeout = absl::InfiniteDuration());

  int fd() const { return fd_; }

 private:
  const int fd_;
  absl::Mutex send_mutex_;
  std::string buffer_;  // received, not yet returned
  size_t scanned_ = 0;  // bytes of buffer_ known to contain no newline
};

}  // namespace mpsd::base
