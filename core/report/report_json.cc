// SPDX-License-Identifier: Apache-2.0
#include "core/report/report_json.h"

#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mpsd::report {

void JsonWriter::operator()(const char* name, const std::string& value) {
  out_[name] = value;
}

void JsonWriter::operator()(const char* name, bool value) {
  if (value) out_[name] = true;
}

void JsonWriter::operator()(const char* name, int value) { out_[name] = value; }

void JsonWriter::operator()(const char* name, int64_t value) {
  out_[name] = value;
}

void JsonWriter::operator()(const char* name, double value) {
  out_[name] = std::isfinite(value) ? Json(value) : Json(nullptr);
}

void JsonWriter::operator()(const char* name, const MemoryCounters& value) {
  Json object = Json::object();
  JsonWriter nested(object);
  Fields(nested, value, &value);
  out_[name] = std::move(object);
}

void JsonWriter::operator()(const char* name, const Metrics& value) {
  if (value.empty()) return;
  Json object = Json::object();
  JsonWriter nested(object);
  for (const auto& [metric, number] : value) nested(metric.c_str(), number);
  out_[name] = std::move(object);
}

void JsonWriter::operator()(const char* name, const Counts& value) {
  if (!value.empty()) out_[name] = value;
}

void JsonWriter::operator()(const char* name,
                            const std::vector<std::string>& value) {
  out_[name] = value;
}

void JsonWriter::Optional(const char* name,
                          const std::vector<std::string>& value) {
  if (!value.empty()) (*this)(name, value);
}

const Json* JsonReader::FindOptional(const char* name) const {
  const auto field = in_.find(name);
  return status_.ok() && field != in_.end() ? &*field : nullptr;
}

const Json* JsonReader::Find(const char* name) {
  const Json* field = FindOptional(name);
  if (field == nullptr && status_.ok() && missing_ == Missing::kError) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, ": field '", name, "' is missing"));
  }
  return field;
}

void JsonReader::IllTyped(const char* name, const std::string& expected) {
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(where_, ": field '", name, "' must be ", expected));
}

void JsonReader::Integer(const char* name, const Json& field, int64_t& value) {
  // get<int64_t>() would wrap a larger unsigned number to a negative one.
  const bool fits =
      field.is_number_integer() &&
      !(field.is_number_unsigned() &&
        field.get<uint64_t>() > uint64_t{std::numeric_limits<int64_t>::max()});
  if (!fits) return IllTyped(name, "a 64-bit integer");
  value = field.get<int64_t>();
}

void JsonReader::Number(const char* name, const Json& field, double& value) {
  if (field.is_null()) {
    value = std::numeric_limits<double>::quiet_NaN();
  } else if (field.is_number()) {
    value = field.get<double>();
  } else {
    IllTyped(name, "a number or null");
  }
}

void JsonReader::operator()(const char* name, std::string& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_string()) return IllTyped(name, "a string");
  value = field->get<std::string>();
}

// JsonWriter omits false, so an absent flag is not an error.
void JsonReader::operator()(const char* name, bool& value) {
  const Json* field = FindOptional(name);
  if (field == nullptr) return;
  if (!field->is_boolean()) return IllTyped(name, "true or false");
  value = field->get<bool>();
}

void JsonReader::operator()(const char* name, int& value) {
  int64_t wide = value;
  (*this)(name, wide);
  if (wide < std::numeric_limits<int>::min() ||
      wide > std::numeric_limits<int>::max()) {
    return IllTyped(name, "a 32-bit integer");
  }
  value = static_cast<int>(wide);
}

void JsonReader::operator()(const char* name, int64_t& value) {
  if (const Json* field = Find(name)) Integer(name, *field, value);
}

void JsonReader::operator()(const char* name, double& value) {
  if (const Json* field = Find(name)) Number(name, *field, value);
}

void JsonReader::operator()(const char* name, std::optional<int64_t>& value) {
  const Json* field = FindOptional(name);
  if (field != nullptr) Integer(name, *field, value.emplace());
}

void JsonReader::operator()(const char* name, std::optional<double>& value) {
  const Json* field = FindOptional(name);
  if (field != nullptr) Number(name, *field, value.emplace());
}

void JsonReader::operator()(const char* name, MemoryCounters& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_object()) return IllTyped(name, "an object");
  JsonReader nested(*field, absl::StrCat(where_, ".", name), missing_);
  Fields(nested, value, &value);
  // Find returned a field, so that status_ was OK: no earlier error is lost.
  status_ = nested.status();
}

void JsonReader::operator()(const char* name, Metrics& value) {
  const Json* field = FindOptional(name);
  if (field == nullptr) return;
  if (!field->is_object()) return IllTyped(name, "an object");
  value.clear();
  for (const auto& [metric, number] : field->items()) {
    Number(metric.c_str(), number, value.emplace_back(metric, 0).second);
  }
}

void JsonReader::operator()(const char* name, Counts& value) {
  const Json* field = FindOptional(name);
  if (field == nullptr) return;
  if (!field->is_object()) return IllTyped(name, "an object");
  value.clear();
  for (const auto& [key, number] : field->items()) {
    Integer(key.c_str(), number, value[key]);
  }
}

void JsonReader::operator()(const char* name, std::vector<std::string>& value) {
  const Json* field = Find(name);
  if (field == nullptr) return;
  if (!field->is_array()) return IllTyped(name, "a list of strings");
  value.clear();
  for (const Json& text : *field) {
    if (!text.is_string()) return IllTyped(name, "a list of strings");
    value.push_back(text.get<std::string>());
  }
}

std::string Dump(const Json& object) {
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mpsd::report
