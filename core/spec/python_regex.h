// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_PYTHON_REGEX_H_
#define MPSD_CORE_SPEC_PYTHON_REGEX_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::spec {

struct RegexNode;

// A regular expression in the syntax of Python's `re`, for module names (bytes,
// one line). Supports: literals, ".", classes, "|", groups "(…)", "(?:…)" and
// "(?P<name>…)", look-ahead "(?=…)" and "(?!…)", "^" "$" \A \Z \b \B, \d \D \s
// \S \w \W, \n \r \t \f \v \a \xhh, and the quantifiers * + ? {m} {m,} {,n}
// {m,n}, greedy or lazy. Rejects: look-behind, back references, flags,
// conditions, possessive quantifiers and atomic groups.
//
// The time of a match is polynomial in the lengths of pattern and name: no
// pattern hangs. Immutable; copies share the tree.
class PythonRegex {
 public:
  static constexpr size_t kMaxName = 255;  // bytes; longer names never match

  // InvalidArgument: `the regular expression "…" …`, with the reason.
  static absl::StatusOr<PythonRegex> Compile(std::string_view pattern);

  // Python's `re.fullmatch(pattern, name) is not None`. Adds the matcher's
  // steps, some ten nanoseconds each, to `steps`.
  bool FullMatch(std::string_view name, int64_t* steps = nullptr) const;

 private:
  explicit PythonRegex(std::shared_ptr<const RegexNode> root);
  std::shared_ptr<const RegexNode> root_;
  int nodes_;  // every node's id is smaller
};

// The regular expression that PEFT matches a key of rank_pattern and
// alpha_pattern with: rf"(.*\.)?({key})$" (peft 0.21, utils/other.py,
// get_pattern_key).
std::string PatternKeyRegex(std::string_view key);

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_PYTHON_REGEX_H_
