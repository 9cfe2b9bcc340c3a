// SPDX-License-Identifier: Apache-2.0
#include "core/spec/python_regex.h"

#include <algorithm>
#include <bitset>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/strings.h"
#include "core/spec/regex_tree.h"

namespace mpsd::spec {
namespace {

using Kind = RegexNode::Kind;
using Positions = std::bitset<PythonRegex::kMaxName + 1>;

// Computes the set of positions at which a node may end when it begins at a
// given position. Sets suffice, because a yes-or-no match need not know which
// way leads to an end. Each pair of node and position is computed once, so the
// time is polynomial where a backtracking matcher's is exponential.
class Matcher {
 public:
  Matcher(std::string_view text, int nodes)
      : text_(text),
        known_(nodes * (text.size() + 1)),
        ends_(nodes * (text.size() + 1)) {}

  Positions Ends(const RegexNode& node, size_t begin) {
    ++steps_;
    const size_t key = node.id * (text_.size() + 1) + begin;
    if (!known_[key]) {
      ends_[key] = Compute(node, begin);
      known_[key] = true;
    }
    return ends_[key];
  }

  int64_t steps() const { return steps_; }

 private:
  Positions Compute(const RegexNode& node, size_t begin) {
    switch (node.kind) {
      case Kind::kSet:
        return begin < text_.size() && node.set[Byte(begin)] ? At(begin + 1)
                                                             : Positions();
      case Kind::kSequence:
        return Sequence(node, begin);
      case Kind::kChoice:
        return Choice(node, begin);
      case Kind::kRepeat:
        return Repeat(node, begin);
      case Kind::kBegin:
        return If(begin == 0, begin);
      case Kind::kEnd:
        return If(begin == text_.size(), begin);
      case Kind::kWordBoundary:
        return If(IsBoundary(begin), begin);
      case Kind::kNoWordBoundary:
        return If(!IsBoundary(begin), begin);
      case Kind::kAhead:
        return If(Ends(node.children[0], begin).any(), begin);
      case Kind::kNotAhead:
        return If(Ends(node.children[0], begin).none(), begin);
    }
    return Positions();
  }

  Positions Sequence(const RegexNode& node, size_t begin) {
    Positions ends = At(begin);
    for (const RegexNode& child : node.children) ends = FromAll(child, ends);
    return ends;
  }

  Positions Choice(const RegexNode& node, size_t begin) {
    Positions ends;
    for (const RegexNode& child : node.children) ends |= Ends(child, begin);
    return ends;
  }

  // A node never ends before its beginning, so both loops reach a fixed point
  // within as many rounds as the name has positions, however large `min` and
  // `max` are.
  Positions Repeat(const RegexNode& node, size_t begin) {
    const RegexNode& child = node.children[0];
    Positions ends = At(begin);
    for (int i = 0; i < node.min; ++i) {
      const Positions next = FromAll(child, ends);
      if (next == ends) break;
      ends = next;
    }
    Positions fresh = ends;
    for (int i = node.min; i < node.max && fresh.any(); ++i) {
      fresh = FromAll(child, fresh) & ~ends;
      ends |= fresh;
    }
    return ends;
  }

  Positions FromAll(const RegexNode& node, const Positions& begins) {
    constexpr int kSteps = 8;  // the loop over all positions, in steps
    steps_ += kSteps;
    Positions ends;
    for (size_t i = 0; i <= text_.size(); ++i) {
      if (begins[i]) ends |= Ends(node, i);
    }
    return ends;
  }

  bool IsWord(size_t at) const {
    return at < text_.size() &&
           (absl::ascii_isalnum(Byte(at)) || text_[at] == '_');
  }
  bool IsBoundary(size_t at) const {
    return (at > 0 && IsWord(at - 1)) != IsWord(at);
  }
  unsigned char Byte(size_t at) const {
    return static_cast<unsigned char>(text_[at]);
  }
  static Positions At(size_t position) { return Positions().set(position); }
  static Positions If(bool holds, size_t position) {
    return holds ? At(position) : Positions();
  }

  const std::string_view text_;
  // Indexed by node and position.
  std::vector<bool> known_;
  std::vector<Positions> ends_;
  int64_t steps_ = 0;
};

// One more than the largest id.
int CountNodes(const RegexNode& node) {
  int count = node.id + 1;
  for (const RegexNode& child : node.children) {
    count = std::max(count, CountNodes(child));
  }
  return count;
}

}  // namespace

absl::StatusOr<PythonRegex> PythonRegex::Compile(std::string_view pattern) {
  auto root = ParseRegex(pattern);
  if (root.ok()) return PythonRegex(*std::move(root));
  constexpr size_t kShown = 200;
  const std::string shown =
      pattern.size() > kShown ? "" : base::Cat("\"", pattern, "\" ");
  return absl::InvalidArgumentError(base::Cat(
      "the regular expression ", shown, std::string(root.status().message())));
}

PythonRegex::PythonRegex(std::shared_ptr<const RegexNode> root)
    : root_(std::move(root)), nodes_(CountNodes(*root_)) {}

bool PythonRegex::FullMatch(std::string_view name, int64_t* steps) const {
  if (name.size() > kMaxName) return false;
  Matcher matcher(name, nodes_);
  const bool matches = matcher.Ends(*root_, 0)[name.size()];
  if (steps != nullptr) *steps += matcher.steps();
  return matches;
}

std::string PatternKeyRegex(std::string_view key) {
  return base::Cat("(.*\\.)?(", key, ")$");
}

}  // namespace mpsd::spec
