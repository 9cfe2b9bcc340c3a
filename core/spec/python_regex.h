// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_PYTHON_REGEX_H_
#define MPSD_CORE_SPEC_PYTHON_REGEX_H_

#include <regex>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// A regular expression of Python's `re` over module names (ASCII, one line),
// for the part of the language in which std::regex (ECMAScript) means the same:
// literals, ".", classes, "|", groups "(…)" and "(?:…)", look-ahead "(?=…)" and
// "(?!…)", "^", "$", \b \B \d \D \s \S \w \W, back references, and the
// quantifiers * + ? {m} {m,} {m,n}, greedy or lazy. The rest (look-behind,
// named groups, flags, possessive quantifiers, \A, \Z …) is refused.
class PythonRegex {
 public:
  // InvalidArgument: `the regular expression "…" …`, with the reason.
  static absl::StatusOr<PythonRegex> Compile(std::string_view pattern);

  // re.fullmatch(pattern, name) is not None.
  bool FullMatch(const std::string& name) const;

 private:
  explicit PythonRegex(std::regex regex) : regex_(std::move(regex)) {}
  std::regex regex_;
};

// The regular expression that PEFT matches a key of rank_pattern and
// alpha_pattern with: rf"(.*\.)?({key})$" (peft 0.21, utils/other.py,
// get_pattern_key).
std::string PatternKeyRegex(std::string_view key);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_PYTHON_REGEX_H_
