// SPDX-License-Identifier: Apache-2.0
#include "client/top/log_lines.h"

namespace mpsd::client::top {

void LogLines::Begin() {
  lines_.emplace_back();
  if (lines_.size() > kMostLines) lines_.pop_front();
  ended_ = false;
}

void LogLines::Add(const std::string& data) {
  for (const char c : data) {
    if (c == '\n') {
      if (ended_) Begin();  // an empty line
      ended_ = true;
      again_ = false;
      continue;
    }
    if (c == '\r') {
      again_ = true;
      continue;
    }
    if (ended_ || lines_.back().size() >= kLongestLine) Begin();
    if (again_) lines_.back().clear();
    again_ = false;
    if (c == '\t') {
      lines_.back() += "    ";
    } else {
      lines_.back() += c;
    }
  }
}

}  // namespace mpsd::client::top
