// SPDX-License-Identifier: Apache-2.0
#include "core/data/records.h"

#include <algorithm>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/strings.h"

namespace mpsd::data {
namespace {

constexpr std::string_view kSpace = " \t\r\n";

}  // namespace

// A row of JSON Lines is an object and begins with a brace, so that an opening
// bracket marks an array.
RecordScanner::RecordScanner(std::string_view bytes) : bytes_(bytes) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (bytes_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
  const size_t first = bytes_.find_first_not_of(kSpace, at_);
  array_ = first != std::string_view::npos && bytes_[first] == '[';
  if (array_) SkipBytes(first + 1 - at_);
}

absl::StatusOr<std::optional<Record>> RecordScanner::Next() {
  return array_ ? NextElement() : NextLine();
}

absl::StatusOr<std::optional<Record>> RecordScanner::NextLine() {
  while (at_ < bytes_.size()) {
    const size_t end = std::min(bytes_.find('\n', at_), bytes_.size() - 1) + 1;
    const Record record{bytes_.substr(at_, end - at_), line_++};
    at_ = end;
    if (record.text.find_first_not_of(kSpace) != std::string_view::npos) {
      return record;
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<Record>> RecordScanner::NextElement() {
  SkipSpace();
  if (done_) {
    if (at_ == bytes_.size()) return std::nullopt;
    return Fault(line_, "there is text after the array; expected its end");
  }
  if (at_ == bytes_.size()) {
    return Fault(line_, "the array is not closed; expected \"]\"");
  }
  if (bytes_[at_] == ']' && !begun_) {
    SkipBytes(1);
    done_ = true;
    return NextElement();
  }
  const Record record{bytes_.substr(at_, ElementLength()), line_};
  if (record.text.empty()) {
    return Fault(record.line, bytes_[at_] == ',' || bytes_[at_] == ']'
                                  ? "expected a row next to the comma"
                                  : "the row that begins here is not closed");
  }
  SkipBytes(record.text.size());
  begun_ = true;
  SkipSpace();
  if (at_ < bytes_.size() && bytes_[at_] != ',' && bytes_[at_] != ']') {
    return Fault(line_, "expected \",\" or \"]\" after a row of the array");
  }
  if (at_ < bytes_.size()) {
    done_ = bytes_[at_] == ']';
    SkipBytes(1);
  }
  return record;
}

// Finds the value's end by brackets and quotes alone; the row's parser checks
// the value. A backslash in a string skips the next byte, so that an escaped
// quote does not end the string.
size_t RecordScanner::ElementLength() const {
  int64_t depth = 0;
  for (size_t i = at_; i < bytes_.size(); ++i) {
    const char c = bytes_[i];
    if (c == '"') {
      for (++i; i < bytes_.size() && bytes_[i] != '"'; ++i) {
        if (bytes_[i] == '\\') ++i;
      }
      if (i >= bytes_.size()) return 0;
      if (depth == 0) return i + 1 - at_;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      if (depth == 0) return i - at_;  // a bare word before the bracket
      if (--depth == 0) return i + 1 - at_;
    } else if (depth == 0 &&
               (c == ',' || kSpace.find(c) != std::string_view::npos)) {
      return i - at_;
    }
  }
  return 0;
}

void RecordScanner::SkipSpace() {
  const size_t next =
      std::min(bytes_.find_first_not_of(kSpace, at_), bytes_.size());
  SkipBytes(next - at_);
}

void RecordScanner::SkipBytes(size_t count) {
  base::CheckAtMost(count, bytes_.size() - at_, "bytes passed and left");
  const auto begin = bytes_.begin() + at_;
  line_ += std::count(begin, begin + count, '\n');
  at_ += count;
}

absl::Status RecordScanner::Fault(int64_t line, std::string_view what) const {
  return absl::InvalidArgumentError(base::Cat(line, ": ", what));
}

}  // namespace mpsd::data
