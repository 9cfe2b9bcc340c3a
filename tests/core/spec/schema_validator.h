// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

namespace mpsd::spec {

// JSON Schema's draft 2020-12, as far as JobSchema() uses it. A keyword that is
// not here fails the test: it would go unchecked.
class SchemaValidator {
 public:
  using Json = nlohmann::ordered_json;

  static bool Accepts(const Json& schema, const Json& value) {
    for (const auto& [keyword, argument] : schema.items()) {
      if (!Holds(keyword, argument, schema, value)) return false;
    }
    return true;
  }

 private:
  static bool Holds(const std::string& keyword, const Json& argument,
                    const Json& schema, const Json& value) {
    if (keyword == "type") return HasType(argument, value);
    if (keyword == "enum") {
      return std::find(argument.begin(), argument.end(), value) !=
             argument.end();
    }
    if (keyword == "const") return argument == value;
    if (keyword == "not") return !Accepts(argument, value);
    if (keyword.find("imum") != std::string::npos) {
      return !value.is_number() ||
             IsWithin(keyword, argument.get<double>(), value.get<double>());
    }
    if (keyword == "minLength") {
      EXPECT_EQ(argument, 1);  // more would have to count code points
      return !value.is_string() || !value.get<std::string>().empty();
    }
    if (keyword == "minItems") {
      return !value.is_array() || value.size() >= argument.get<size_t>();
    }
    if (keyword == "items") {
      return !value.is_array() ||
             std::all_of(value.begin(), value.end(), [&](const Json& item) {
               return Accepts(argument, item);
             });
    }
    if (value.is_object())
      return HoldsOfObject(keyword, argument, schema, value);
    return IsOfObject(keyword) || IsAnnotation(keyword);
  }

  static bool HasType(const Json& type, const Json& value) {
    if (type.is_array()) {
      return std::any_of(type.begin(), type.end(),
                         [&](const Json& one) { return HasType(one, value); });
    }
    if (type == "null") return value.is_null();
    if (type == "boolean") return value.is_boolean();
    if (type == "string") return value.is_string();
    if (type == "array") return value.is_array();
    if (type == "object") return value.is_object();
    if (type == "number") return value.is_number();
    EXPECT_EQ(type, "integer");
    return value.is_number_integer() ||
           (value.is_number() &&
            value.get<double>() == std::floor(value.get<double>()));
  }

  static bool IsWithin(const std::string& keyword, double bound, double value) {
    if (keyword == "minimum") return value >= bound;
    if (keyword == "exclusiveMinimum") return value > bound;
    if (keyword == "maximum") return value <= bound;
    EXPECT_EQ(keyword, "exclusiveMaximum");
    return value < bound;
  }

  static bool HoldsOfObject(const std::string& keyword, const Json& argument,
                            const Json& schema, const Json& object) {
    if (keyword == "required") {
      return std::all_of(argument.begin(), argument.end(),
                         [&](const Json& name) {
                           return object.contains(name.get<std::string>());
                         });
    }
    if (keyword != "properties" && keyword != "additionalProperties") {
      return IsAnnotation(keyword);
    }
    const auto properties = schema.find("properties");
    for (const auto& [name, member] : object.items()) {
      const bool known =
          properties != schema.end() && properties->contains(name);
      if (known != (keyword == "properties")) continue;
      if (argument == false) return false;
      if (!Accepts(known ? argument[name] : argument, member)) return false;
    }
    return true;
  }

  static bool IsOfObject(const std::string& keyword) {
    return keyword == "required" || keyword == "properties" ||
           keyword == "additionalProperties";
  }
  static bool IsAnnotation(const std::string& keyword) {
    const bool known = keyword == "$schema" || keyword == "title" ||
                       keyword == "description" || keyword == "default" ||
                       keyword == "examples";
    EXPECT_TRUE(known) << keyword;
    return true;
  }
};

}  // namespace mpsd::spec
