// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/spec/json_node.h"
#include "core/spec/train_spec.h"

// The visitors of an object's fields: FieldReader reads them from JSON,
// FieldWriter writes them, and the visitor of job_schema.cc describes them. All
// have the same methods, so that train_spec_fields.h lists each field only
// once.

namespace mpsd::spec {

// The target_modules word for all linear layers.
inline constexpr std::string_view kAllLinear = "all-linear";

// The allowed values of a number.
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   // excludes low itself
  bool below_high = false;  // excludes high itself

  static Range AtLeast(double low) { return {.low = low}; }
  static Range Above(double low) { return {.low = low, .above_low = true}; }
  static Range Between(double low, double high) {
    return {.low = low, .high = high};
  }
  static Range From0Below1() {
    return {.low = 0, .high = 1, .below_high = true};
  }

  bool Holds(double value) const;
  std::string Text() const;  // " >= 0 and < 1", after "a number"
};

// The words of an enumeration and their values.
template <typename E>
using Words =
    std::type_identity_t<std::span<const std::pair<std::string_view, E>>>;

// Every fault is added to `findings` and leaves the value unchanged, as does an
// absent field or, for an optional, null.
class FieldReader {
 public:
  // `object` is null for an absent section. `path` is "" at the root.
  FieldReader(const JsonNode* object, std::string path, Findings& findings);

  // Documents the next call's field; only the schema uses it.
  FieldReader& About(std::string_view) { return *this; }

  // The section's reader; the caller must also call its Finish().
  FieldReader Section(std::string_view name);

  // Accepts and discards null or a string, which must be one of `words` if
  // there are any.
  void Ignored(std::string_view name,
               std::span<const std::string_view> words = {});
  void Text(std::string_view name, std::string& value,
            std::string_view expected, bool required = false);
  void Integer(std::string_view name, int64_t& value, Range range);
  void Integer(std::string_view name, std::optional<int64_t>& value,
               Range range);
  void StepLimit(std::string_view name, int64_t& value);  // > 0, or -1
  void Number(std::string_view name, double& value, Range range);
  void Number(std::string_view name, std::optional<double>& value, Range range);
  void Bool(std::string_view name, bool& value);
  void Bool(std::string_view name, std::optional<bool>& value);
  template <typename E>
  void Word(std::string_view name, E& value, Words<E> words);
  void Word(std::string_view name, std::string& value,
            std::span<const std::string_view> words);
  // Like Word, for a field that may be absent: null in JSON, nullopt or "" in
  // C++.
  template <typename E>
  void OptionalWord(std::string_view name, std::optional<E>& value,
                    Words<E> words);
  void OptionalWord(std::string_view name, std::string& value,
                    std::span<const std::string_view> words);
  void Numbers(std::string_view name, std::vector<double>& value, Range range);
  // Accepts a string as a list of one.
  void Texts(std::string_view name, std::vector<std::string>& value,
             std::string_view expected, bool required = false);
  // Accepts an integer as a list of one, as in PEFT.
  void Integers(std::string_view name,
                std::optional<std::vector<int64_t>>& value, Range range);
  void Patterns(std::string_view name, PatternMap<int64_t>& value, Range range);
  void Patterns(std::string_view name, PatternMap<double>& value, Range range);
  void Targets(std::string_view name, LoraSpec::Targets& value);
  // Accepts a string as a list of one.
  void Prompts(std::string_view name, std::vector<Prompt>& value);

  // Reports the fields that no method read.
  void Finish();

  // The line of the field if present, else the object's line.
  int LineOf(std::string_view name) const;
  bool Has(std::string_view name) const;
  void Fault(std::string_view name, std::string_view message);

 private:
  const JsonNode* Take(std::string_view name);
  std::string PathOf(std::string_view name) const;
  void Expected(std::string_view path, const JsonNode& node,
                std::string_view expected);
  bool IntegerValue(std::string_view path, const JsonNode& node, Range range,
                    int64_t& value);
  bool NumberValue(std::string_view path, const JsonNode& node, Range range,
                   double& value);
  bool CheckWord(std::string_view name, const JsonNode& node,
                 std::span<const std::string_view> words);
  template <typename V, typename Read>
  void PatternObject(std::string_view name, PatternMap<V>& value, Read read);

  const JsonNode* object_;
  const std::string path_;
  Findings& findings_;
  std::set<std::string, std::less<>> known_;
};

// Writes every field, with absent optionals as null.
class FieldWriter {
 public:
  using Json = nlohmann::ordered_json;
  explicit FieldWriter(Json& object) : object_(object) {
    object_ = Json::object();
  }

  FieldWriter& About(std::string_view) { return *this; }
  FieldWriter Section(std::string_view name);
  void Ignored(std::string_view, std::span<const std::string_view> = {}) {}
  void Text(std::string_view name, const std::string& value, std::string_view,
            bool required = false);
  template <typename T>
  void Integer(std::string_view name, const T& value, Range) {
    Put(name, value);
  }
  void StepLimit(std::string_view name, int64_t value) { Put(name, value); }
  template <typename T>
  void Number(std::string_view name, const T& value, Range) {
    Put(name, value);
  }
  template <typename T>
  void Bool(std::string_view name, const T& value) {
    Put(name, value);
  }
  template <typename E>
  void Word(std::string_view name, E value, Words<E> words);
  void Word(std::string_view name, const std::string& value,
            std::span<const std::string_view>) {
    Put(name, value);
  }
  template <typename E>
  void OptionalWord(std::string_view name, const std::optional<E>& value,
                    Words<E> words);
  void OptionalWord(std::string_view name, const std::string& value,
                    std::span<const std::string_view>) {
    Text(name, value, "");
  }
  void Numbers(std::string_view name, const std::vector<double>& value, Range) {
    Put(name, value);
  }
  void Texts(std::string_view name, const std::vector<std::string>& value,
             std::string_view, bool = false) {
    Put(name, value);
  }
  void Integers(std::string_view name,
                const std::optional<std::vector<int64_t>>& value, Range) {
    Put(name, value);
  }
  template <typename V>
  void Patterns(std::string_view name, const PatternMap<V>& value, Range);
  void Targets(std::string_view name, const LoraSpec::Targets& value);
  void Prompts(std::string_view name, const std::vector<Prompt>& value);
  void Finish() {}

 private:
  template <typename T>
  void Put(std::string_view name, const T& value) {
    object_[std::string(name)] = value;
  }
  template <typename T>
  void Put(std::string_view name, const std::optional<T>& value) {
    object_[std::string(name)] = value ? Json(*value) : Json(nullptr);
  }

  Json& object_;
};

template <typename E>
void FieldReader::Word(std::string_view name, E& value, Words<E> words) {
  const JsonNode* node = Take(name);
  if (node == nullptr) return;
  std::vector<std::string_view> texts;
  for (const auto& [word, _] : words) texts.push_back(word);
  if (!CheckWord(name, *node, texts)) return;
  for (const auto& [word, meaning] : words) {
    if (word == node->text) value = meaning;
  }
}

template <typename E>
void FieldReader::OptionalWord(std::string_view name, std::optional<E>& value,
                               Words<E> words) {
  const JsonNode* node = object_ == nullptr ? nullptr : object_->Find(name);
  if (node == nullptr || node->kind == JsonNode::Kind::kNull) {
    Take(name);
    return;
  }
  E read = value.value_or(words.front().second);
  Word(name, read, words);
  value = read;
}

template <typename E>
void FieldWriter::OptionalWord(std::string_view name,
                               const std::optional<E>& value, Words<E> words) {
  if (value) return Word(name, *value, words);
  object_[std::string(name)] = nullptr;
}

template <typename E>
void FieldWriter::Word(std::string_view name, E value, Words<E> words) {
  for (const auto& [word, meaning] : words) {
    if (meaning == value) Put(name, std::string(word));
  }
}

template <typename V>
void FieldWriter::Patterns(std::string_view name, const PatternMap<V>& value,
                           Range) {
  object_[std::string(name)] = value;
}

// --- names that are not fields -----------------------------------------------

// The number of insertions, deletions, substitutions and swaps of neighbours
// that turn `a` into `b` (optimal string alignment).
int EditDistance(std::string_view a, std::string_view b);

// The candidate that `name` was most likely meant to be: at most a third of its
// letters differ, ignoring case and "-" for "_". Absent if no candidate is
// near.
std::optional<std::string_view> NearestName(
    std::string_view name, std::span<const std::string_view> candidates);

// The error text for a field that `section` ("", "lora", "training", "dataset")
// does not have. For a field of Transformers, TRL or PEFT: why mpsd lacks it.
// Else the valid name: another tool's name for it, the same name in another
// section, or a similar name. Else the list of names.
std::string UnknownField(std::string_view section, std::string_view name,
                         const std::set<std::string, std::less<>>& known);

// --- fields by path ----------------------------------------------------------
// Changes fields of a job.json, each named by its path:
// "training.learning_rate". ParseTrainSpec, not these functions, checks whether
// job.json has such a field. Errors are InvalidArgument and do not repeat the
// field.

// The value of a field as users type it: JSON, or else plain text.
nlohmann::ordered_json FieldValue(const std::string& text);

// Sets a field, creating missing objects around it.
absl::Status SetField(nlohmann::ordered_json& spec, const std::string& field,
                      nlohmann::ordered_json value);

// Removes a field.
absl::Status UnsetField(nlohmann::ordered_json& spec, const std::string& field);

}  // namespace mpsd::spec
