// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_values.h"

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

absl::Status Invalid(const std::string& text, const std::string& what) {
  return absl::InvalidArgumentError(
      absl::StrCat("'", base::Quotable(text), "': ", what));
}

// The parts between commas, but for those within strings, lists and objects.
std::vector<std::string> Split(const std::string& text) {
  std::vector<std::string> parts(1);
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\' && i + 1 < text.size()) {
        parts.back() += c;
        parts.back() += text[++i];
        continue;
      }
      in_string = c != '"';
    } else if (c == '"' && (depth > 0 || parts.back().empty())) {
      in_string = true;
    } else if (c == '[' || c == '{') {
      ++depth;
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',' && depth <= 0) {
      parts.emplace_back();
      continue;
    }
    parts.back() += c;
  }
  return parts;
}

// What stands between `name`( and ), if the text is such a range.
std::optional<std::string> Within(const std::string& name,
                                  const std::string& text) {
  if (!text.starts_with(name + "(") || !text.ends_with(")")) {
    return std::nullopt;
  }
  return text.substr(name.size() + 1, text.size() - name.size() - 2);
}

template <typename Number>
bool ReadNumber(const std::string& text, Number* number) {
  const std::string trimmed(absl::StripAsciiWhitespace(text));
  if constexpr (std::is_same_v<Number, double>) {
    return absl::SimpleAtod(trimmed, number);
  } else {
    return absl::SimpleAtoi(trimmed, number);
  }
}

template <typename Number, typename Range>
bool ReadRange(const std::string& text, Range* range) {
  const std::vector<std::string> ends = Split(text);
  Number low{}, high{};
  if (ends.size() != 2 || !ReadNumber(ends[0], &low) ||
      !ReadNumber(ends[1], &high)) {
    return false;
  }
  range->set_low(low);
  range->set_high(high);
  return true;
}

}  // namespace

absl::Status ReadParameter(const std::string& text,
                           v1::SweepParameter& parameter) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    return Invalid(text,
                   "expected FIELD=VALUES, as training.learning_rate=1e-4,3e-4 "
                   "(the job.json stands before --grid and --random)");
  }
  parameter.set_field(text.substr(0, equals));
  const std::string values = text.substr(equals + 1);
  if (const auto range = Within("uniform", values)) {
    if (ReadRange<double>(*range, parameter.mutable_uniform())) {
      return absl::OkStatus();
    }
    return Invalid(text, "expected two numbers, as uniform(0,0.1)");
  }
  if (const auto range = Within("log", values)) {
    if (ReadRange<double>(*range, parameter.mutable_log_uniform())) {
      return absl::OkStatus();
    }
    return Invalid(text, "expected two numbers above 0, as log(1e-5,1e-3)");
  }
  if (const auto range = Within("int", values)) {
    if (ReadRange<int64_t>(*range, parameter.mutable_integers())) {
      return absl::OkStatus();
    }
    return Invalid(text, "expected two integers, as int(1,100)");
  }
  for (std::string& value : Split(values)) {
    if (value.empty()) {
      return Invalid(text, "a value is empty; the empty text is \"\"");
    }
    parameter.mutable_choices()->add_values(std::move(value));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::client
