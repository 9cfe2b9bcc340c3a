// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TOP_LOG_LINES_H_
#define MPSD_CLIENT_TOP_LOG_LINES_H_

#include <cstddef>
#include <deque>
#include <string>

namespace mpsd::client::top {

// The last lines of a log, at most kMostLines of at most kLongestLine bytes,
// however long the log is.
class LogLines {
 public:
  static constexpr size_t kMostLines = 5000;
  static constexpr size_t kLongestLine = 2000;  // a longer one becomes several

  // Takes the bytes that follow those before.
  void Add(const std::string& data);

  // The last line may not have ended. Lines keep whatever bytes the log has,
  // without '\n' and '\r': what is written behind a '\r' takes the place of the
  // line, as on a terminal.
  const std::deque<std::string>& lines() const { return lines_; }

 private:
  void Begin();

  std::deque<std::string> lines_;
  bool ended_ = true;   // the last line has; the next byte begins another
  bool again_ = false;  // a '\r' came last
};

}  // namespace mpsd::client::top

#endif  // MPSD_CLIENT_TOP_LOG_LINES_H_
