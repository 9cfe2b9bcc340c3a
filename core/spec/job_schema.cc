// SPDX-License-Identifier: Apache-2.0
#include "core/spec/job_schema.h"

#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/spec/fields.h"
#include "core/spec/train_spec_fields.h"

namespace mpsd::spec {
namespace {

using Schema = nlohmann::ordered_json;

// Writes 1 instead of 1.0, because an editor would copy 1.0 into a job.
Schema Shortest(double value) {
  if (std::abs(value) < 1e15 && value == std::floor(value)) {
    return static_cast<int64_t>(value);
  }
  return value;
}

void AddBounds(Schema& schema, Range range) {
  if (std::isfinite(range.low)) {
    schema[range.above_low ? "exclusiveMinimum" : "minimum"] =
        Shortest(range.low);
  }
  if (std::isfinite(range.high)) {
    schema[range.below_high ? "exclusiveMaximum" : "maximum"] =
        Shortest(range.high);
  }
}

Schema Bounded(std::string_view type, Range range) {
  Schema schema = {{"type", type}};
  AddBounds(schema, range);
  return schema;
}

Schema NonEmptyText() { return {{"type", "string"}, {"minLength", 1}}; }

// FieldReader's methods; each adds its field's schema to the object's. The
// values are the defaults.
class FieldSchema {
 public:
  // `object` must outlive this visitor.
  explicit FieldSchema(Schema& object) : object_(object) {
    object_["type"] = "object";
    object_["additionalProperties"] = false;
    object_["properties"] = Schema::object();
  }

  FieldSchema& About(std::string_view about) {
    about_ = about;
    return *this;
  }
  FieldSchema Section(std::string_view name) { return FieldSchema(Add(name)); }
  void Ignored(std::string_view name,
               std::span<const std::string_view> words = {}) {
    if (!words.empty()) return OptionalWord(name, "", words);
    Add(name)["type"] = Schema::array({"string", "null"});
  }

  void Text(std::string_view name, const std::string& value, std::string_view,
            bool required = false) {
    Schema& field = Add(name, required);
    field["type"] =
        required ? Schema("string") : Schema::array({"string", "null"});
    field["minLength"] = 1;
    if (!value.empty()) field["default"] = value;
  }
  template <typename T>
  void Integer(std::string_view name, const T& value, Range range) {
    AddBounds(AddTyped(name, "integer", value), range);
  }
  void StepLimit(std::string_view name, int64_t value) {
    Schema& field = AddTyped(name, "integer", value);
    field["minimum"] = -1;
    field["not"] = {{"const", 0}};
  }
  template <typename T>
  void Number(std::string_view name, const T& value, Range range) {
    AddBounds(AddTyped(name, "number", value), range);
  }
  template <typename T>
  void Bool(std::string_view name, const T& value) {
    AddTyped(name, "boolean", value);
  }

  template <typename E>
  void Word(std::string_view name, E value, Words<E> words) {
    AddWords<E>(name, words)["default"] = WordOf(value, words);
  }
  void Word(std::string_view name, const std::string& value,
            std::span<const std::string_view> words) {
    Schema& field = Add(name);
    field["type"] = "string";
    for (const std::string_view word : words) field["enum"].push_back(word);
    field["default"] = value;
  }
  template <typename E>
  void OptionalWord(std::string_view name, const std::optional<E>&,
                    Words<E> words) {
    MakeOptional(AddWords<E>(name, words));
  }
  void OptionalWord(std::string_view name, const std::string&,
                    std::span<const std::string_view> words) {
    Schema& field = Add(name);
    for (const std::string_view word : words) field["enum"].push_back(word);
    MakeOptional(field);
  }

  void Numbers(std::string_view name, const std::vector<double>& value,
               Range range) {
    Schema& field = Add(name);
    field["type"] = {"array", "null"};
    field["items"] = Bounded("number", range);
    field["default"] = value;
  }
  void Texts(std::string_view name, const std::vector<std::string>& value,
             std::string_view, bool required = false) {
    Schema& field = Add(name, required);
    AddTexts(field);
    if (required) {
      field["type"].erase(2);
      field["minItems"] = 1;
    } else {
      field["default"] = value;
    }
  }
  void Integers(std::string_view name,
                const std::optional<std::vector<int64_t>>&, Range range) {
    Schema& field = Add(name);
    field["type"] = {"integer", "array", "null"};
    AddBounds(field, range);
    field["items"] = Bounded("integer", range);
  }
  void Patterns(std::string_view name, const PatternMap<int64_t>& value,
                Range range) {
    AddPatterns(name, Bounded("integer", range), value);
  }
  void Patterns(std::string_view name, const PatternMap<double>& value,
                Range range) {
    AddPatterns(name, Bounded("number", range), value);
  }
  void Targets(std::string_view name, const LoraSpec::Targets&) {
    Schema& field = Add(name);
    AddTexts(field);
    field["minItems"] = 1;
    field["examples"] = Schema::array({kAllLinear});
  }
  void Prompts(std::string_view name, const std::vector<Prompt>&) {
    Schema& field = Add(name);
    AddTexts(field);
    field["items"]["type"] = {"string", "object"};
    field["default"] = Schema::array();
  }

  // Lists the required fields, and the sections that have a required field.
  void Finish() {
    Schema required = Schema::array();
    for (const auto& [name, field] : object_["properties"].items()) {
      if (required_.contains(name) || field.contains("required")) {
        required.push_back(name);
      }
    }
    if (!required.empty()) object_["required"] = required;
  }

 private:
  Schema& Add(std::string_view name, bool required = false) {
    if (required) required_.emplace(name);
    Schema& field = object_["properties"][std::string(name)];
    field["description"] = about_;
    about_ = {};
    return field;
  }

  template <typename T>
  Schema& AddTyped(std::string_view name, const char* type, const T& value) {
    Schema& field = Add(name);
    field["type"] = type;
    field["default"] = value;
    return field;
  }
  Schema& AddTyped(std::string_view name, const char* type, double value) {
    Schema& field = Add(name);
    field["type"] = type;
    field["default"] = Shortest(value);
    return field;
  }
  template <typename T>
  Schema& AddTyped(std::string_view name, const char* type,
                   const std::optional<T>&) {
    Schema& field = Add(name);
    field["type"] = {type, "null"};
    return field;
  }

  template <typename E>
  Schema& AddWords(std::string_view name, Words<E> words) {
    Schema& field = Add(name);
    field["type"] = "string";
    for (const auto& [word, _] : words) field["enum"].push_back(word);
    return field;
  }
  static void MakeOptional(Schema& field) {
    field["type"] = {"string", "null"};
    field["enum"].push_back(nullptr);
  }

  // A string is accepted as a list of one.
  static void AddTexts(Schema& field) {
    field["type"] = {"string", "array", "null"};
    field["minLength"] = 1;
    field["items"] = NonEmptyText();
  }
  template <typename V>
  void AddPatterns(std::string_view name, Schema number,
                   const PatternMap<V>& value) {
    Schema& field = Add(name);
    field["type"] = {"object", "null"};
    field["additionalProperties"] = std::move(number);
    field["default"] = value;
  }

  Schema& object_;
  std::string_view about_;
  std::set<std::string, std::less<>> required_;
};

}  // namespace

nlohmann::ordered_json JobSchema() {
  Schema root = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "job.json"},
                 {"description",
                  "A fine-tuning job of mpsd. `mpsctl submit` checks more than "
                  "this schema can say: which fields go together, and whether "
                  "the files and the model fit."}};
  TrainSpec defaults;
  VisitSpec(FieldSchema(root), defaults);
  return root;
}

}  // namespace mpsd::spec
