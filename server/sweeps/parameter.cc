// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/parameter.h"

#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/spec/field_edit.h"

namespace mpsd::sweeps {
namespace {

absl::Status Invalid(const std::string& field, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("parameters: ", base::Quotable(field), ": ", what));
}

absl::Status CheckField(const std::string& field) {
  if (field.empty()) {
    return absl::InvalidArgumentError(
        "parameters: a field is empty: expected the path of a field, "
        "training.learning_rate");
  }
  if (field.size() > kFieldBytes) {
    return Invalid(field, absl::StrCat("has ", field.size(), " bytes, at most ",
                                       kFieldBytes, " are allowed"));
  }
  if (!base::IsPrintable(field)) {
    return Invalid(field, "has a character that no field's name has");
  }
  return absl::OkStatus();
}

// Before anything reads the values, which takes time for many long ones.
absl::Status CheckTotal(absl::Span<const Parameter> parameters) {
  size_t bytes = 0;
  for (const Parameter& parameter : parameters) {
    const auto* choices = std::get_if<Choices>(&parameter.values);
    if (choices == nullptr) continue;
    for (const std::string& value : choices->values) bytes += value.size();
  }
  if (bytes <= kValuesBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("parameters: the values have ", bytes, " bytes, at most ",
                   kValuesBytes, " are allowed: name fewer or shorter ones"));
}

absl::Status CheckValues(const std::string& field, const Choices& choices) {
  if (choices.values.empty()) return Invalid(field, "has no values");
  if (choices.values.size() > static_cast<size_t>(limits::kSweepJobs)) {
    return Invalid(
        field, absl::StrCat("has ", choices.values.size(), " values, at most ",
                            limits::kSweepJobs, " are allowed"));
  }
  std::set<std::string> seen;
  for (const std::string& value : choices.values) {
    if (value.size() > kValueBytes) {
      return Invalid(
          field, absl::StrCat("a value has ", value.size(), " bytes, at most ",
                              kValueBytes, " are allowed"));
    }
    // 1e-4 and 0.0001 are the same value.
    if (!seen.insert(spec::FieldValue(value).dump(
                         -1, ' ', false,
                         nlohmann::ordered_json::error_handler_t::replace))
             .second) {
      return Invalid(field, absl::StrCat("has the value ",
                                         base::Quotable(value), " twice"));
    }
  }
  return absl::OkStatus();
}

template <typename Range>
absl::Status CheckRange(const std::string& field, const Range& range) {
  if (std::isfinite(range.low) && std::isfinite(range.high) &&
      range.low < range.high && std::isfinite(range.high - range.low)) {
    return absl::OkStatus();
  }
  return Invalid(field,
                 absl::StrCat("expected a range of numbers, the lower first, "
                              "found ",
                              range.low, " to ", range.high));
}

absl::Status CheckValues(const std::string& field, const Uniform& range) {
  return CheckRange(field, range);
}

absl::Status CheckValues(const std::string& field, const LogUniform& range) {
  absl::Status status = CheckRange(field, range);
  if (!status.ok() || range.low > 0) return status;
  return Invalid(field, absl::StrCat("the logarithm wants numbers above 0, "
                                     "found ",
                                     range.low));
}

absl::Status CheckValues(const std::string& field, const Integers& range) {
  // Beyond this a double, and so a reader of JSON, does not tell them apart.
  constexpr int64_t kLargest = int64_t{1} << 53;
  if (range.low <= range.high && range.low >= -kLargest &&
      range.high <= kLargest) {
    return absl::OkStatus();
  }
  return Invalid(field, absl::StrCat("expected a range of integers, the lower "
                                     "first, found ",
                                     range.low, " to ", range.high));
}

}  // namespace

bool Overlap(const std::string& a, const std::string& b) {
  return a == b || a.starts_with(b + ".") || b.starts_with(a + ".");
}

absl::Status CheckParameters(absl::Span<const Parameter> parameters) {
  if (parameters.empty()) {
    return absl::InvalidArgumentError(
        "parameters: name at least one field and its values, as "
        "training.learning_rate=1e-4,3e-4");
  }
  if (parameters.size() > static_cast<size_t>(limits::kSweepFields)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "parameters: has ", parameters.size(), " entries, at most ",
        limits::kSweepFields, " are allowed"));
  }
  if (absl::Status s = CheckTotal(parameters); !s.ok()) return s;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = parameters[i];
    absl::Status status = CheckField(parameter.field);
    if (status.ok()) {
      status = std::visit(
          [&](const auto& values) {
            return CheckValues(parameter.field, values);
          },
          parameter.values);
    }
    if (!status.ok()) return status;
    for (size_t j = 0; j < i; ++j) {
      if (!Overlap(parameter.field, parameters[j].field)) continue;
      return Invalid(parameter.field,
                     parameter.field == parameters[j].field
                         ? "is named twice: name its values together"
                         : absl::StrCat("names a part of what ",
                                        base::Quotable(parameters[j].field),
                                        " names, or the other way round"));
    }
  }
  return absl::OkStatus();
}

}  // namespace mpsd::sweeps
