// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SPEC_REGEX_TREE_H_
#define MPSD_CORE_SPEC_REGEX_TREE_H_

#include <bitset>
#include <limits>
#include <memory>
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

}  // namespace mpsd::spec

#endif  // MPSD_CORE_SPEC_REGEX_TREE_H_
