// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bitset>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace mpsd::spec {

// A parsed regular expression.
struct RegexNode {
  enum class Kind {
    kSet,       // one byte of `set`
    kSequence,  // the children in sequence; none: empty
    kChoice,    // one of the children
    kRepeat,    // children[0], `min` to `max` times
    kBegin,     // the text's beginning
    kEnd,
    kWordBoundary,
    kNoWordBoundary,
    kAhead,  // children[0] matches here; consumes nothing
    kNotAhead,
  };
  static constexpr int kUnlimited = std::numeric_limits<int>::max();

  Kind kind = Kind::kSequence;
  std::bitset<256> set;
  int min = 0;
  int max = kUnlimited;
  std::vector<RegexNode> children;
  int id = 0;  // unique in the tree
};

// Parses the syntax described at PythonRegex. The error contains only the
// reason, which the caller appends to `the regular expression "…" `.
absl::StatusOr<std::shared_ptr<const RegexNode>> ParseRegex(
    std::string_view pattern);

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
