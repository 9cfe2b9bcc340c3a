// SPDX-License-Identifier: Apache-2.0
#include "core/spec/python_regex.h"

#include <optional>

#include "absl/strings/ascii.h"
#include "core/spec/cat.h"

namespace mpsd::spec {
namespace {

constexpr size_t kMaxLength = 1000;
constexpr std::string_view kEscapedLetters = "bBdDsSwWnrtfv";
constexpr std::string_view kClassLetters = "dDsSwWnrtfv";

// Walks a pattern and finds what Python and ECMAScript read differently.
class Checker {
 public:
  explicit Checker(std::string_view pattern) : pattern_(pattern) {}

  std::optional<std::string> Fault() {
    while (at_ < pattern_.size() && !fault_) Step();
    return fault_;
  }

 private:
  void Step() {
    switch (pattern_[at_]) {
      case '\\':
        return Escape(kEscapedLetters);
      case '[':
        return Class();
      case '(':
        return Group();
      case '*':
      case '+':
      case '?':
        ++at_;
        return AfterQuantifier();
      case '{':
        return Braces();
      default:
        ++at_;
    }
  }

  void Refuse(std::string_view what) {
    fault_ = Cat("has ", what, ", which is not supported");
  }

  void Escape(std::string_view letters) {
    if (at_ + 1 == pattern_.size()) {
      fault_ = "ends in a backslash";
      return;
    }
    const char c = pattern_[at_ + 1];
    const bool octal = c == '0';
    if (octal ||
        (absl::ascii_isalpha(c) && letters.find(c) == std::string_view::npos)) {
      return Refuse(Cat("\"\\", std::string(1, c), "\""));
    }
    at_ += 2;
  }

  void Class() {
    ++at_;
    if (At("^")) ++at_;
    if (At("]")) return Refuse("\"]\" at the beginning of a class");
    while (at_ < pattern_.size() && pattern_[at_] != ']' && !fault_) {
      if (At("[:") || At("[.") || At("[=")) {
        return Refuse("\"[\" before \":\", \".\" or \"=\" in a class");
      }
      if (At("\\")) {
        Escape(kClassLetters);
      } else {
        ++at_;
      }
    }
    ++at_;
  }

  void Group() {
    ++at_;
    if (!At("?")) return;
    if (At("?:") || At("?=") || At("?!")) {
      at_ += 2;
    } else {
      Refuse(Cat("the group \"(", pattern_.substr(at_, 2), "\""));
    }
  }

  void Braces() {
    size_t end = at_ + 1;
    while (end < pattern_.size() &&
           (absl::ascii_isdigit(pattern_[end]) || pattern_[end] == ',')) {
      ++end;
    }
    const bool closed = end < pattern_.size() && pattern_[end] == '}';
    if (!closed || end == at_ + 1 || pattern_[at_ + 1] == ',') {
      return Refuse("\"{\" that begins no {m}, {m,} or {m,n}");
    }
    at_ = end + 1;
    AfterQuantifier();
  }

  void AfterQuantifier() {
    if (At("?")) ++at_;
    if (At("*") || At("+") || At("?") || At("{")) {
      Refuse("two quantifiers in a row");
    }
  }

  bool At(std::string_view text) const {
    return pattern_.substr(at_, text.size()) == text;
  }

  const std::string_view pattern_;
  size_t at_ = 0;
  std::optional<std::string> fault_;
};

absl::Status Invalid(std::string_view pattern, std::string_view why) {
  return absl::InvalidArgumentError(
      Cat("the regular expression \"", pattern, "\" ", why));
}

}  // namespace

absl::StatusOr<PythonRegex> PythonRegex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxLength) {
    return absl::InvalidArgumentError(
        Cat("the regular expression is longer than ", kMaxLength, " bytes"));
  }
  if (auto fault = Checker(pattern).Fault()) return Invalid(pattern, *fault);
  try {
    return PythonRegex(
        std::regex(pattern.begin(), pattern.end(), std::regex::ECMAScript));
  } catch (const std::regex_error& error) {
    return Invalid(pattern, Cat("is malformed: ", error.what()));
  }
}

bool PythonRegex::FullMatch(const std::string& name) const {
  try {
    return std::regex_match(name, regex_);
  } catch (const std::regex_error&) {
    return false;  // Too complex for the matcher (libc++).
  }
}

std::string PatternKeyRegex(std::string_view key) {
  return Cat("(.*\\.)?(", key, ")$");
}

}  // namespace mpsd::spec
