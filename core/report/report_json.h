// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/report/report.h"
#include "nlohmann/json.hpp"

// The only JSON codec of reports: two visitors of a field list. A frame that
// has members of other types, or that writes a member differently, derives from
// these visitors.
namespace mpsd::report {

// An object that keeps its members' order.
using Json = nlohmann::ordered_json;

// Writes a non-finite double as null; omits absent values, empty lists of
// metrics and of counts, and false flags.
class JsonWriter {
 public:
  // Adds members to the object `out`, which must outlive the writer.
  explicit JsonWriter(Json& out) : out_(out) {}

  void operator()(const char* name, const std::string& value);
  void operator()(const char* name, bool value);
  void operator()(const char* name, int value);
  void operator()(const char* name, int64_t value);
  void operator()(const char* name, double value);
  void operator()(const char* name, const MemoryCounters& value);
  void operator()(const char* name, const Metrics& value);
  void operator()(const char* name, const Counts& value);
  void operator()(const char* name, const std::vector<std::string>& value);
  template <typename T>
  void operator()(const char* name, const std::optional<T>& value) {
    if (value.has_value()) (*this)(name, *value);
  }
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(const char* name, E value) {
    for (const auto& entry : NamesOf(value)) {
      if (entry.value == value) (*this)(name, std::string(entry.name));
    }
  }
  // Omits an empty list or text, an enum's first value, and the number 0.
  void Optional(const char* name, const std::vector<std::string>& value);
  void Optional(const char* name, const std::string& value) {
    if (!value.empty()) (*this)(name, value);
  }
  template <typename E>
  requires std::is_enum_v<E>
  void Optional(const char* name, E value) {
    if (value != E{}) (*this)(name, value);
  }
  void Optional(const char* name, int64_t value) {
    if (value != 0) (*this)(name, value);
  }

 private:
  Json& out_;
};

// Fills members until the first error, which status() keeps: InvalidArgument,
// naming the place and the member. JSON members that are not in the field list
// are ignored.
class JsonReader {
 public:
  enum class Missing { kError, kDefault };

  // `where` names `in` in errors; `in` must outlive this object.
  JsonReader(const Json& in, std::string where, Missing missing)
      : in_(in), where_(std::move(where)), missing_(missing) {}

  const absl::Status& status() const { return status_; }

  void operator()(const char* name, std::string& value);
  void operator()(const char* name, bool& value);
  void operator()(const char* name, int& value);
  void operator()(const char* name, int64_t& value);
  void operator()(const char* name, double& value);
  void operator()(const char* name, std::optional<int64_t>& value);
  void operator()(const char* name, std::optional<double>& value);
  void operator()(const char* name, MemoryCounters& value);
  void operator()(const char* name, Metrics& value);
  void operator()(const char* name, Counts& value);
  void operator()(const char* name, std::vector<std::string>& value);
  template <typename E>
  requires std::is_enum_v<E>
  void operator()(const char* name, E& value) {
    std::string text;
    if (Find(name) == nullptr) return;
    (*this)(name, text);
    if (!status_.ok()) return;
    std::string known;
    for (const auto& entry : NamesOf(value)) {
      if (text == entry.name) {
        value = entry.value;
        return;
      }
      known.append(known.empty() ? "" : ", ").append(entry.name);
    }
    IllTyped(name, "one of " + known + ", not '" + text.substr(0, 80) + "'");
  }
  // An absent member is not an error and leaves `value` unchanged.
  template <typename T>
  void Optional(const char* name, T& value) {
    if (FindOptional(name) != nullptr) (*this)(name, value);
  }

 protected:
  void IllTyped(const char* name, const std::string& expected);

 private:
  // Null after an error and for an absent member.
  const Json* Find(const char* name);
  const Json* FindOptional(const char* name) const;
  void Integer(const char* name, const Json& field, int64_t& value);
  void Number(const char* name, const Json& field, double& value);

  const Json& in_;
  const std::string where_;
  const Missing missing_;
  absl::Status status_;
};

// A line without newline; invalid UTF-8 bytes become U+FFFD.
std::string Dump(const Json& object);

}  // namespace mpsd::report
