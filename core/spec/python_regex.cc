// SPDX-License-Identifier: Apache-2.0
#include "core/spec/python_regex.h"

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "core/base/text.h"

namespace mpsd::spec {
namespace {

using Kind = RegexNode::Kind;
using Set = std::bitset<256>;

constexpr size_t kMaxPattern = 1000;  // bytes
constexpr int kMaxDepth = 50;         // nested groups
constexpr int kMaxCount = 10000;      // in {m,n}

Set Single(unsigned char c) { return Set().set(c); }

size_t FirstOf(const Set& set) {
  size_t first = 0;
  while (first < set.size() && !set[first]) ++first;
  return first;
}

template <typename Predicate>
Set CharactersWhere(Predicate predicate) {
  Set set;
  for (int c = 0; c < 256; ++c) set[c] = predicate(static_cast<char>(c));
  return set;
}

// \d, \s, \w and their negations; absent for other letters.
std::optional<Set> Category(char letter) {
  Set set;
  switch (absl::ascii_tolower(letter)) {
    case 'd':
      set = CharactersWhere([](char c) { return absl::ascii_isdigit(c); });
      break;
    case 's':
      set = CharactersWhere([](char c) { return absl::ascii_isspace(c); });
      break;
    case 'w':
      set = CharactersWhere(
          [](char c) { return absl::ascii_isalnum(c) || c == '_'; });
      break;
    default:
      return std::nullopt;
  }
  return absl::ascii_isupper(letter) ? ~set : set;
}

bool IsPlace(Kind kind) {
  return kind == Kind::kBegin || kind == Kind::kEnd ||
         kind == Kind::kWordBoundary || kind == Kind::kNoWordBoundary;
}

std::optional<char> ControlCharacter(char letter) {
  constexpr std::string_view kLetters = "nrtfva";
  constexpr std::string_view kCharacters = "\n\r\t\f\v\a";
  const size_t at = kLetters.find(letter);
  if (at == std::string_view::npos) return std::nullopt;
  return kCharacters[at];
}

// Recursive descent; stops at the first fault.
class Parser {
 public:
  explicit Parser(std::string_view pattern) : rest_(pattern) {}

  absl::StatusOr<std::shared_ptr<const RegexNode>> Parse() {
    RegexNode root = Choice(0);
    if (fault_.empty() && !rest_.empty()) Fail("has a \")\" without a \"(\"");
    if (!fault_.empty()) return absl::InvalidArgumentError(fault_);
    return std::make_shared<const RegexNode>(std::move(root));
  }

 private:
  RegexNode Make(Kind kind, std::vector<RegexNode> children = {}) {
    RegexNode node;
    node.kind = kind;
    node.children = std::move(children);
    node.id = next_id_++;
    return node;
  }
  RegexNode MakeSet(const Set& set) {
    RegexNode node = Make(Kind::kSet);
    node.set = set;
    return node;
  }

  RegexNode Fail(const std::string& fault) {
    if (fault_.empty()) fault_ = fault;
    rest_ = {};
    return RegexNode();
  }
  RegexNode NothingToRepeat() {
    return Fail("has a quantifier with nothing to repeat");
  }
  RegexNode Unsupported(std::string_view what) {
    return Fail(base::Cat("has ", what, ", which is not supported"));
  }

  bool Take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  char Next() {
    const char c = rest_.front();
    rest_.remove_prefix(1);
    return c;
  }

  RegexNode Choice(int depth) {
    if (depth > kMaxDepth) return Fail("has groups nested too deeply");
    std::vector<RegexNode> choices;
    choices.push_back(Sequence(depth));
    while (Take("|")) choices.push_back(Sequence(depth));
    if (choices.size() == 1) return std::move(choices.front());
    return Make(Kind::kChoice, std::move(choices));
  }

  RegexNode Sequence(int depth) {
    std::vector<RegexNode> parts;
    while (!rest_.empty() && rest_.front() != '|' && rest_.front() != ')') {
      RegexNode atom = Atom(depth);
      parts.push_back(Quantified(std::move(atom)));
    }
    return Make(Kind::kSequence, std::move(parts));
  }

  RegexNode Atom(int depth) {
    int min, max;
    if (rest_.front() == '{' && Braces(min, max)) return NothingToRepeat();
    const char c = Next();
    switch (c) {
      case '.':
        return MakeSet(~Single('\n'));
      case '^':
        return Make(Kind::kBegin);
      case '$':
        return Make(Kind::kEnd);
      case '[':
        return Class();
      case '(':
        return Group(depth);
      case '\\':
        return Escape();
      case '*':
      case '+':
      case '?':
        return NothingToRepeat();
      default:
        return MakeSet(Single(c));
    }
  }

  RegexNode Group(int depth) {
    Kind kind = Kind::kSequence;
    if (Take("?=")) {
      kind = Kind::kAhead;
    } else if (Take("?!")) {
      kind = Kind::kNotAhead;
    } else if (Take("?P<")) {
      const size_t end = rest_.find('>');
      if (end == std::string_view::npos)
        return Fail("has a name without \">\"");
      if (!names_.emplace(rest_.substr(0, end)).second) {
        return Fail("has two groups of one name");
      }
      rest_.remove_prefix(end + 1);
    } else if (!Take("?:") && rest_.starts_with("?")) {
      return Unsupported(base::Cat("the group \"(", rest_.substr(0, 2), "\""));
    }
    RegexNode inside = Choice(depth + 1);
    if (!fault_.empty()) return inside;
    if (!Take(")")) return Fail("has a \"(\" without a \")\"");
    if (kind == Kind::kSequence) return inside;
    std::vector<RegexNode> children;
    children.push_back(std::move(inside));
    return Make(kind, std::move(children));
  }

  RegexNode Escape() {
    if (rest_.empty()) return Fail("ends in a backslash");
    switch (rest_.front()) {
      case 'A':
        return Next(), Make(Kind::kBegin);
      case 'Z':
        return Next(), Make(Kind::kEnd);
      case 'b':
        return Next(), Make(Kind::kWordBoundary);
      case 'B':
        return Next(), Make(Kind::kNoWordBoundary);
      default:
        return MakeSet(EscapedSet());
    }
  }

  // Parses the characters after a backslash, in a class or outside.
  Set EscapedSet() {
    if (rest_.empty()) return Fail("ends in a backslash"), Set();
    const char c = Next();
    if (auto category = Category(c)) return *category;
    if (auto control = ControlCharacter(c)) return Single(*control);
    if (c == 'x') return Hexadecimal();
    if (absl::ascii_isalnum(c)) {
      return Unsupported(base::Cat("\"\\", std::string(1, c), "\"")), Set();
    }
    return Single(c);
  }

  Set Hexadecimal() {
    int value = 0;
    for (int i = 0; i < 2; ++i) {
      if (rest_.empty() || !absl::ascii_isxdigit(rest_.front())) {
        return Fail("has \"\\x\" without two hexadecimal digits"), Set();
      }
      const char c = absl::ascii_tolower(Next());
      value = value * 16 + (absl::ascii_isdigit(c) ? c - '0' : c - 'a' + 10);
    }
    return Single(static_cast<unsigned char>(value));
  }

  // One member of a class.
  Set ClassSet() {
    if (Take("\\")) return EscapedSet();
    const char c = Next();
    if (!absl::ascii_isascii(c)) {
      return Unsupported("a letter beyond ASCII in a class"), Set();
    }
    return Single(c);
  }

  RegexNode Class() {
    const bool negated = Take("^");
    Set set;
    bool first = true;  // a leading "]" is a member
    while (fault_.empty()) {
      if (rest_.empty()) return Fail("has a \"[\" without a \"]\"");
      if (!first && Take("]")) break;
      first = false;
      const Set low = ClassSet();
      const bool range =
          rest_.size() > 1 && rest_.front() == '-' && rest_[1] != ']';
      set |= range ? RangeFrom(low) : low;
    }
    return MakeSet(negated ? ~set : set);
  }

  Set RangeFrom(const Set& low) {
    Take("-");
    const Set high = ClassSet();
    if (!fault_.empty()) return Set();
    if (low.count() != 1 || high.count() != 1) {
      return Fail("has a range between classes"), Set();
    }
    size_t from = FirstOf(low);
    const size_t to = FirstOf(high);
    if (from > to) return Fail("has a range that runs backwards"), Set();
    Set set;
    for (; from <= to; ++from) set.set(from);
    return set;
  }

  RegexNode Quantified(RegexNode atom) {
    int min, max;
    if (!fault_.empty() || !Quantifier(min, max)) return atom;
    if (IsPlace(atom.kind)) return NothingToRepeat();
    Take("?");  // lazy quantifiers match the same names
    if (rest_.starts_with("+")) return Unsupported("a possessive quantifier");
    int again_min, again_max;
    if (Quantifier(again_min, again_max)) {
      return Fail("has two quantifiers in a row");
    }
    if (min > max) return Fail("has a {m,n} with m > n");
    if (min > kMaxCount || (max > kMaxCount && max != RegexNode::kUnlimited)) {
      return Fail(base::Cat("repeats more than ", kMaxCount, " times"));
    }
    std::vector<RegexNode> children;
    children.push_back(std::move(atom));
    RegexNode repeat = Make(Kind::kRepeat, std::move(children));
    repeat.min = min;
    repeat.max = max;
    return repeat;
  }

  bool Quantifier(int& min, int& max) {
    min = 0;
    max = RegexNode::kUnlimited;
    if (Take("*")) return true;
    if (Take("+")) return min = 1, true;
    if (Take("?")) return max = 1, true;
    return Braces(min, max);
  }

  // "{m}", "{m,}", "{,n}", "{m,n}"; any other brace is a literal.
  bool Braces(int& min, int& max) {
    min = 0;
    max = RegexNode::kUnlimited;
    const size_t end = rest_.find('}');
    if (!rest_.starts_with("{") || end == std::string_view::npos) return false;
    std::string_view inside = rest_.substr(1, end - 1);
    const size_t comma = inside.find(',');
    const std::string_view low = inside.substr(0, comma);
    const std::string_view high =
        comma == std::string_view::npos ? low : inside.substr(comma + 1);
    if (inside.empty() || !Count(low, min) || !Count(high, max)) return false;
    rest_.remove_prefix(end + 1);
    return true;
  }

  // Keeps `count` if `digits` is empty; numbers too large stay too large.
  static bool Count(std::string_view digits, int& count) {
    if (digits.empty()) return true;
    int64_t value = 0;
    for (char c : digits) {
      if (!absl::ascii_isdigit(c)) return false;
      value = std::min<int64_t>(value * 10 + (c - '0'), kMaxCount + 1);
    }
    count = static_cast<int>(value);
    return true;
  }

  std::string_view rest_;
  std::string fault_;
  std::set<std::string_view> names_;  // the groups' names
  int next_id_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const RegexNode>> ParseRegex(
    std::string_view pattern) {
  if (pattern.size() > kMaxPattern) {
    return absl::InvalidArgumentError(
        base::Cat("is longer than ", kMaxPattern, " bytes"));
  }
  return Parser(pattern).Parse();
}

namespace {

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
