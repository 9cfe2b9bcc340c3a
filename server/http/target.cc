// SPDX-License-Identifier: Apache-2.0
#include "server/http/target.h"

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace mpsd::http {
namespace {

// Appends the bytes that `text` encodes. False for an invalid code and for
// control characters.
bool Decode(const std::string& text, bool plus_is_space, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '+' && plus_is_space) c = ' ';
    if (c == '%') {
      const std::string digits = text.substr(i + 1, 2);
      int32_t byte = 0;
      if (digits.size() != 2 || !absl::ascii_isxdigit(digits[0]) ||
          !absl::SimpleHexAtoi(digits, &byte)) {
        return false;
      }
      c = static_cast<char>(byte);
      i += 2;
    }
    if (absl::ascii_iscntrl(c)) return false;
    out += c;
  }
  return true;
}

}  // namespace

absl::StatusOr<Target> ParseTarget(const std::string& text) {
  absl::Status fault = absl::InvalidArgumentError("the address is not a path");
  if (text.empty() || text[0] != '/') return fault;
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(text, absl::MaxSplits('?', 1));
  Target target;
  const std::vector<std::string> path =
      absl::StrSplit(parts.first, '/', absl::SkipEmpty());
  for (const std::string& part : path) {
    if (!Decode(part, false, target.path.emplace_back())) return fault;
  }
  const std::vector<std::string> query =
      absl::StrSplit(parts.second, '&', absl::SkipEmpty());
  for (const std::string& entry : query) {
    const std::pair<std::string, std::string> pair =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    auto& [name, value] = target.query.emplace_back();
    if (!Decode(pair.first, true, name) || !Decode(pair.second, true, value)) {
      return fault;
    }
  }
  return target;
}

}  // namespace mpsd::http
