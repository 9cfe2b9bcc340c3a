// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_STDERR_SINK_H_
#define MPSD_SERVER_STDERR_SINK_H_

#include <spdlog/sinks/base_sink.h>

#include <cstdint>
#include <mutex>
#include <string_view>

#include "absl/time/time.h"

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

}  // namespace mpsd

#endif  // MPSD_SERVER_STDERR_SINK_H_
