// SPDX-License-Identifier: Apache-2.0
#include "core/spec/json_node.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/limits.h"
#include "core/base/text.h"

namespace mpsd::spec {
namespace {

using Kind = JsonNode::Kind;
constexpr size_t kShownFault = 300;  // bytes of the parser's message

// The line that the lexer has reached and the last byte that it has read, which
// is at most one past the token.
struct Consumed {
  int line = 1;
  char last = 0;
};

class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Consumed* consumed)
      : at_(at), consumed_(consumed) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    consumed_->last = *at_;
    if (*at_ == '\n') ++consumed_->line;
    ++at_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const {
    return at_ == other.at_;
  }
  bool operator!=(const CountingIterator& other) const {
    return at_ != other.at_;
  }

 private:
  const char* at_;
  Consumed* consumed_;
};

// Builds the tree. `open_` holds the containers around the next value; their
// addresses are stable because only the innermost grows.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(const Consumed& consumed, size_t max_members)
      : consumed_(consumed), max_members_(max_members) {}

  bool null() override { return Add(Kind::kNull); }
  bool boolean(bool value) override {
    return Add(Kind::kBool, [&](JsonNode& node) { node.boolean = value; });
  }
  bool number_integer(number_integer_t value) override {
    return AddInteger(value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto kMax = std::numeric_limits<int64_t>::max();
    if (value <= static_cast<number_unsigned_t>(kMax)) {
      return AddInteger(static_cast<int64_t>(value));
    }
    return number_float(static_cast<double>(value), "");
  }
  bool number_float(number_float_t value, const string_t&) override {
    return Add(
        Kind::kNumber, [&](JsonNode& node) { node.number = value; },
        /*lookahead=*/true);
  }
  bool string(string_t& value) override {
    return Add(Kind::kString,
               [&](JsonNode& node) { node.text = std::move(value); });
  }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return Open(Kind::kObject); }
  bool start_array(std::size_t) override { return Open(Kind::kArray); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    JsonNode& object = *open_.back();
    if (object.members.size() == max_members_) {
      return Fail(base::Cat("an object of more than ", max_members_, " names"));
    }
    if (name.size() > limits::kJsonNameBytes) {
      return Fail(base::Cat("a name of ", name.size(), " bytes, at most ",
                            limits::kJsonNameBytes, " are allowed"));
    }
    if (!names_.back().insert(name).second) {
      return Fail(base::Cat("the name \"", base::Quotable(name),
                            "\" appears twice in the same object"));
    }
    if (!Count()) return false;
    JsonNode& member = object.members.emplace_back();
    member.name = std::move(name);
    member.line = consumed_.line;
    return true;
  }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& error) override {
    std::string_view what = error.what();
    const size_t from = what.find("syntax error");
    if (from != std::string_view::npos) what.remove_prefix(from);
    return Fail(base::Shortened(base::Printable(what), kShownFault));
  }

  JsonNode& root() { return root_; }
  const std::string& error() const { return error_; }

 private:
  bool AddInteger(int64_t value) {
    return Add(
        Kind::kInteger,
        [&](JsonNode& node) {
          node.integer = value;
          node.number = static_cast<double>(value);
        },
        /*lookahead=*/true);
  }
  bool Add(Kind kind) {
    return Add(kind, [](JsonNode&) {});
  }
  // The lexer ends a number by reading one byte past it.
  template <typename Set>
  bool Add(Kind kind, Set set, bool lookahead = false) {
    if (InList() && !Count()) return false;
    JsonNode& node =
        Next(consumed_.line - (lookahead && consumed_.last == '\n' ? 1 : 0));
    node.kind = kind;
    set(node);
    return true;
  }
  JsonNode& Next(int line) {
    if (open_.empty()) {
      root_.line = line;
      return root_;
    }
    JsonNode& parent = *open_.back();
    if (parent.kind == Kind::kObject) return parent.members.back();
    parent.items.emplace_back().line = line;
    return parent.items.back();
  }
  bool InList() const {
    return !open_.empty() && open_.back()->kind == Kind::kArray;
  }
  // Counts a value against the limit: a member with its name is one value.
  bool Count() {
    if (++values_ <= limits::kJsonValues) return true;
    return Fail(base::Cat("more than ", limits::kJsonValues, " values"));
  }
  bool Open(Kind kind) {
    if (open_.size() == limits::kJsonDepth) {
      return Fail(
          base::Cat("nested deeper than ", limits::kJsonDepth, " levels"));
    }
    if (InList() && !Count()) return false;
    JsonNode& node = Next(consumed_.line);
    node.kind = kind;
    open_.push_back(&node);
    names_.emplace_back();
    return true;
  }
  bool Close() {
    open_.pop_back();
    names_.pop_back();
    return true;
  }
  bool Fail(std::string message) {
    if (error_.empty()) error_ = std::move(message);
    return false;
  }

  const Consumed& consumed_;
  const size_t max_members_;
  JsonNode root_;
  std::vector<JsonNode*> open_;
  std::vector<std::set<std::string>> names_;  // member names of each of open_
  size_t values_ = 0;
  std::string error_;
};

}  // namespace

const JsonNode* JsonNode::Find(std::string_view name) const {
  for (const JsonNode& member : members) {
    if (member.name == name) return &member;
  }
  return nullptr;
}

absl::StatusOr<JsonNode> ParseJson(std::string_view json,
                                   std::string_view origin,
                                   size_t max_members) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  if (json.starts_with(kByteOrderMark)) {
    json.remove_prefix(kByteOrderMark.size());
  }
  if (json.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    return absl::InvalidArgumentError(
        base::Cat(origin, ":1: not valid JSON: it is empty"));
  }
  Consumed consumed;
  TreeBuilder builder(consumed, max_members);
  const char* const begin = json.data();
  const char* const end = begin + json.size();
  if (!nlohmann::json::sax_parse(CountingIterator(begin, &consumed),
                                 CountingIterator(end, &consumed), &builder)) {
    const int line = consumed.line - (consumed.last == '\n' ? 1 : 0);
    return absl::InvalidArgumentError(
        base::Cat(origin, ":", line, ": not valid JSON: ", builder.error()));
  }
  return std::move(builder.root());
}

std::string Describe(const JsonNode& node) {
  switch (node.kind) {
    case Kind::kNull:
      return "null";
    case Kind::kBool:
      return node.boolean ? "true" : "false";
    case Kind::kInteger:
      return base::Cat(node.integer);
    case Kind::kNumber:
      return nlohmann::json(node.number).dump();
    case Kind::kString:
      return base::Cat("the string \"", base::Quotable(node.text), "\"");
    case Kind::kArray:
      return "a list";
    case Kind::kObject:
      return "an object";
  }
  return "nothing";
}

void Findings::Add(int line, std::string_view path, std::string_view message) {
  const std::string_view colon = path.empty() ? "" : ": ";
  list_.push_back({line, base::Cat(path, colon, message)});
}

absl::Status Findings::ToStatus(std::string_view origin) const {
  if (list_.empty()) return absl::OkStatus();
  std::vector<Finding> sorted = list_;
  std::stable_sort(
      sorted.begin(), sorted.end(),
      [](const Finding& a, const Finding& b) { return a.line < b.line; });
  constexpr size_t kMaxShown = 20;
  std::string message;
  for (size_t i = 0; i < std::min(sorted.size(), kMaxShown); ++i) {
    message += i == 0 ? "" : "\n";
    // Without an origin, nobody sees the text that has the lines.
    if (!origin.empty())
      message += base::Cat(origin, ":", sorted[i].line, ": ");
    message += base::Printable(sorted[i].text);
  }
  if (sorted.size() > kMaxShown) {
    message += base::Cat("\n… and ", sorted.size() - kMaxShown, " more");
  }
  return absl::InvalidArgumentError(message);
}

}  // namespace mpsd::spec
