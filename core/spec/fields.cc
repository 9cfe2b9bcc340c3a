// SPDX-License-Identifier: Apache-2.0
#include "core/spec/fields.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "core/spec/field_names.h"

namespace mpsd::spec {
namespace {

using Kind = JsonNode::Kind;
constexpr std::string_view kTargetsExpected =
    "a list of module names, a regular expression over full module names, or "
    "\"all-linear\"";

std::string ShowNumber(double value) {
  return nlohmann::json(value == static_cast<int64_t>(value)
                            ? nlohmann::json(static_cast<int64_t>(value))
                            : nlohmann::json(value))
      .dump();
}

std::vector<std::string> Strings(const std::vector<std::string_view>& views) {
  return {views.begin(), views.end()};
}

bool AllNonEmptyTexts(const JsonNode& list) {
  for (const JsonNode& item : list.items) {
    if (item.kind != Kind::kString || item.text.empty()) return false;
  }
  return true;
}

std::vector<std::string> TextsOf(const JsonNode& list) {
  std::vector<std::string> texts;
  texts.reserve(list.items.size());
  for (const JsonNode& item : list.items) texts.push_back(item.text);
  return texts;
}

}  // namespace

bool Range::Holds(double value) const {
  return (above_low ? value > low : value >= low) &&
         (below_high ? value < high : value <= high);
}

std::string Range::Text() const {
  const bool lower = low > -std::numeric_limits<double>::infinity();
  const bool upper = high < std::numeric_limits<double>::infinity();
  std::string text;
  if (lower) text += base::Cat(above_low ? " > " : " >= ", ShowNumber(low));
  if (lower && upper) text += " and";
  if (upper) {
    text += base::Cat(below_high ? " < " : " <= ", ShowNumber(high));
  }
  return text;
}

FieldReader::FieldReader(const JsonNode* object, std::string path,
                         Findings& findings)
    : object_(object), path_(std::move(path)), findings_(findings) {
  if (object_ != nullptr && object_->kind != Kind::kObject) {
    Expected(path_, *object_, "an object");
    object_ = nullptr;
  }
}

FieldReader FieldReader::Section(std::string_view name) {
  return FieldReader(Take(name), PathOf(name), findings_);
}

// Marks the field as known, even if absent: Finish reports the rest.
const JsonNode* FieldReader::Take(std::string_view name) {
  known_.emplace(name);
  return object_ == nullptr ? nullptr : object_->Find(name);
}

std::string FieldReader::PathOf(std::string_view name) const {
  return path_.empty() ? std::string(name) : base::Cat(path_, ".", name);
}

void FieldReader::Expected(std::string_view path, const JsonNode& node,
                           std::string_view expected, std::string_view hint) {
  findings_.Add(node.line, path,
                base::Cat("expected ", expected, ", found ", Describe(node),
                          hint.empty() ? "" : "; ", hint));
}

int FieldReader::LineOf(std::string_view name) const {
  if (object_ == nullptr) return 1;
  const JsonNode* node = object_->Find(name);
  return node == nullptr ? object_->line : node->line;
}

bool FieldReader::Has(std::string_view name) const {
  return object_ != nullptr && object_->Find(name) != nullptr;
}

void FieldReader::Fault(std::string_view name, std::string_view message) {
  findings_.Add(LineOf(name), PathOf(name), message);
}

void FieldReader::Ignored(std::string_view name) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kString) Expected(PathOf(name), *node, "a string");
}

void FieldReader::Text(std::string_view name, std::string& value,
                       std::string_view expected, bool required) {
  const JsonNode* node = Take(name);
  if (node == nullptr) {
    if (required) Fault(name, base::Cat("missing; expected ", expected));
    return;
  }
  if (node->kind == Kind::kNull && !required) return;
  if (node->kind != Kind::kString || node->text.empty()) {
    return Expected(PathOf(name), *node, expected);
  }
  value = node->text;
}

bool FieldReader::IntegerValue(std::string_view path, const JsonNode& node,
                               Range range, int64_t& value,
                               std::string_view hint) {
  if (node.kind == Kind::kInteger && range.Holds(node.number)) {
    value = node.integer;
    return true;
  }
  Expected(path, node, base::Cat("an integer", range.Text()), hint);
  return false;
}

bool FieldReader::NumberValue(std::string_view path, const JsonNode& node,
                              Range range, double& value) {
  const bool number = node.kind == Kind::kNumber || node.kind == Kind::kInteger;
  if (number && range.Holds(node.number)) {
    value = node.number;
    return true;
  }
  Expected(path, node, base::Cat("a number", range.Text()));
  return false;
}

void FieldReader::Integer(std::string_view name, int64_t& value, Range range,
                          std::string_view hint) {
  const JsonNode* node = Take(name);
  if (node != nullptr) IntegerValue(PathOf(name), *node, range, value, hint);
}

void FieldReader::Integer(std::string_view name, std::optional<int64_t>& value,
                          Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  int64_t integer;
  if (IntegerValue(PathOf(name), *node, range, integer)) value = integer;
}

void FieldReader::StepLimit(std::string_view name, int64_t& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr) return;
  if (node->kind != Kind::kInteger ||
      (node->integer < 1 && node->integer != -1)) {
    return Expected(PathOf(name), *node, "an integer > 0, or -1 for no limit");
  }
  value = node->integer;
}

void FieldReader::Number(std::string_view name, double& value, Range range) {
  const JsonNode* node = Take(name);
  if (node != nullptr) NumberValue(PathOf(name), *node, range, value);
}

void FieldReader::Number(std::string_view name, std::optional<double>& value,
                         Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  double number;
  if (NumberValue(PathOf(name), *node, range, number)) value = number;
}

void FieldReader::Bool(std::string_view name, bool& value) {
  std::optional<bool> read = value;
  const JsonNode* node = Take(name);
  if (node != nullptr && node->kind == Kind::kNull) {
    return Expected(PathOf(name), *node, "true or false");
  }
  Bool(name, read);
  value = *read;
}

void FieldReader::Bool(std::string_view name, std::optional<bool>& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kBool) {
    return Expected(PathOf(name), *node, "true or false");
  }
  value = node->boolean;
}

bool FieldReader::CheckWord(std::string_view name, const JsonNode& node,
                            const std::vector<std::string_view>& words) {
  if (node.kind == Kind::kString) {
    for (std::string_view word : words) {
      if (word == node.text) return true;
    }
  }
  std::string message = base::Cat(
      "expected ", words.size() == 1 ? "\"" : "one of \"",
      absl::StrJoin(Strings(words), "\", \""), "\", found ", Describe(node));
  if (node.kind == Kind::kString) {
    if (auto nearest = NearestName(node.text, words)) {
      message += base::Cat("; did you mean \"", *nearest, "\"?");
    }
  }
  findings_.Add(node.line, PathOf(name), message);
  return false;
}

void FieldReader::Word(std::string_view name, std::string& value,
                       const std::vector<std::string_view>& words) {
  const JsonNode* node = Take(name);
  if (node != nullptr && CheckWord(name, *node, words)) value = node->text;
}

void FieldReader::OptionalWord(std::string_view name, std::string& value,
                               const std::vector<std::string_view>& words) {
  const JsonNode* node = Take(name);
  if (node != nullptr && node->kind != Kind::kNull) Word(name, value, words);
}

void FieldReader::Numbers(std::string_view name, std::vector<double>& value,
                          Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kArray) {
    return Expected(PathOf(name), *node,
                    base::Cat("a list of numbers", range.Text()));
  }
  std::vector<double> read(node->items.size());
  for (size_t i = 0; i < read.size(); ++i) {
    if (!NumberValue(base::Cat(PathOf(name), "[", i, "]"), node->items[i],
                     range, read[i])) {
      return;
    }
  }
  value = std::move(read);
}

void FieldReader::Texts(std::string_view name, std::vector<std::string>& value,
                        std::string_view expected, bool required) {
  const JsonNode* node = Take(name);
  if (node == nullptr) {
    if (required) Fault(name, base::Cat("missing; expected ", expected));
    return;
  }
  if (node->kind == Kind::kNull && !required) return;
  if (node->kind == Kind::kString && !node->text.empty()) {
    value = {node->text};
    return;
  }
  if (node->kind != Kind::kArray || (required && node->items.empty())) {
    return Expected(
        PathOf(name), *node,
        base::Cat(expected,
                  node->kind == Kind::kArray ? ", at least one" : ""));
  }
  if (!AllNonEmptyTexts(*node)) {
    for (size_t i = 0; i < node->items.size(); ++i) {
      const JsonNode& item = node->items[i];
      if (item.kind == Kind::kString && !item.text.empty()) continue;
      Expected(base::Cat(PathOf(name), "[", i, "]"), item,
               "a non-empty string");
    }
    return;
  }
  value = TextsOf(*node);
}

void FieldReader::Integers(std::string_view name,
                           std::optional<std::vector<int64_t>>& value,
                           Range range) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  std::vector<int64_t> read(1);
  if (node->kind == Kind::kInteger) {
    if (IntegerValue(PathOf(name), *node, range, read[0])) value = read;
    return;
  }
  if (node->kind != Kind::kArray) {
    return Expected(PathOf(name), *node,
                    base::Cat("a list of integers", range.Text()));
  }
  read.resize(node->items.size());
  for (size_t i = 0; i < node->items.size(); ++i) {
    if (!IntegerValue(base::Cat(PathOf(name), "[", i, "]"), node->items[i],
                      range, read[i])) {
      return;
    }
  }
  value = read;
}

template <typename V, typename Read>
void FieldReader::PatternObject(std::string_view name, PatternMap<V>& value,
                                Read read) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind != Kind::kObject) {
    return Expected(PathOf(name), *node,
                    "an object of module patterns and numbers");
  }
  for (const JsonNode& number : node->members) {
    V read_value = V();
    if (read(base::Cat(PathOf(name), "[\"", number.name, "\"]"), number,
             read_value)) {
      value[number.name] = read_value;
    }
  }
}

void FieldReader::Patterns(std::string_view name, PatternMap<int64_t>& value,
                           Range range) {
  PatternObject(
      name, value,
      [&](const std::string& path, const JsonNode& node, int64_t& out) {
        return IntegerValue(path, node, range, out);
      });
}

void FieldReader::Patterns(std::string_view name, PatternMap<double>& value,
                           Range range) {
  PatternObject(
      name, value,
      [&](const std::string& path, const JsonNode& node, double& out) {
        return NumberValue(path, node, range, out);
      });
}

void FieldReader::Targets(std::string_view name, LoraSpec::Targets& value) {
  const JsonNode* node = Take(name);
  if (node == nullptr || node->kind == Kind::kNull) return;
  if (node->kind == Kind::kString && !node->text.empty()) {
    if (absl::AsciiStrToLower(node->text) == kAllLinear) {
      value = LoraSpec::AllLinear();
    } else {
      value = node->text;
    }
    return;
  }
  if (node->kind != Kind::kArray || node->items.empty() ||
      !AllNonEmptyTexts(*node)) {
    std::string expected(kTargetsExpected);
    if (node->kind == Kind::kArray)
      expected = "a list of one or more non-empty module names";
    return Expected(PathOf(name), *node, expected);
  }
  value = TextsOf(*node);
}

void FieldReader::Finish() {
  if (object_ == nullptr) return;
  for (const JsonNode& member : object_->members) {
    if (known_.count(member.name) > 0) continue;
    findings_.Add(member.line, PathOf(member.name),
                  UnknownField(path_, member.name, known_));
  }
}

FieldWriter FieldWriter::Section(std::string_view name) {
  return FieldWriter(object_[std::string(name)]);
}

void FieldWriter::Text(std::string_view name, const std::string& value,
                       std::string_view, bool required) {
  if (value.empty() && !required) {
    object_[std::string(name)] = nullptr;
  } else {
    Put(name, value);
  }
}

void FieldWriter::Targets(std::string_view name,
                          const LoraSpec::Targets& value) {
  Json& out = object_[std::string(name)];
  if (const auto* list = std::get_if<std::vector<std::string>>(&value)) {
    out = *list;
  } else if (const auto* regex = std::get_if<std::string>(&value)) {
    out = *regex;
  } else if (std::holds_alternative<LoraSpec::AllLinear>(value)) {
    out = std::string(kAllLinear);
  } else {
    out = nullptr;
  }
}

}  // namespace mpsd::spec
