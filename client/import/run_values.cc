// SPDX-License-Identifier: Apache-2.0
#include "client/import/run_values.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace mpsd::client {

std::string TextOf(const RunArgument& argument) {
  return absl::StrJoin(argument.values, " ");
}

std::optional<int64_t> IntegerOf(const std::string& text) {
  int64_t value = 0;
  if (!absl::SimpleAtoi(text, &value)) return std::nullopt;
  return value;
}

std::optional<double> NumberOf(const std::string& text) {
  double value = 0;
  if (!absl::SimpleAtod(text, &value)) return std::nullopt;
  return value;
}

std::optional<bool> BoolOf(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* yes : {"yes", "true", "t", "y", "1"}) {
    if (lower == yes) return true;
  }
  for (const char* no : {"no", "false", "f", "n", "0"}) {
    if (lower == no) return false;
  }
  return std::nullopt;
}

bool IsOff(const RunArgument& argument) {
  if (argument.values.size() != 1) return false;
  const std::string& value = argument.values[0];
  return absl::AsciiStrToLower(value) == "none" ||
         !BoolOf(value).value_or(true) || NumberOf(value) == 0.0;
}

const RunArgument* RunValues::Find(std::string_view name) {
  asked_.emplace(name);
  for (const RunArgument& argument : run_.arguments) {
    if (argument.name == name) return &argument;
  }
  return nullptr;
}

std::string RunValues::Text(std::string_view name) {
  const RunArgument* argument = Find(name);
  return argument == nullptr ? "" : TextOf(*argument);
}

bool RunValues::IsOn(std::string_view name) {
  const RunArgument* argument = Find(name);
  if (argument == nullptr) return false;
  if (argument->values.empty()) return true;
  const std::optional<bool> value = BoolOf(TextOf(*argument));
  if (!value) Fault(*argument, "true or false");
  return value.value_or(false);
}

std::optional<double> RunValues::Number(std::string_view name) {
  const RunArgument* argument = Find(name);
  if (argument == nullptr) return std::nullopt;
  const std::optional<double> value = NumberOf(TextOf(*argument));
  if (!value) Fault(*argument, "a number");
  return value;
}

void RunValues::Fault(const RunArgument& argument, const char* expected) {
  Fault(absl::StrCat("--", argument.name, ": expected ", expected, ", found '",
                     TextOf(argument), "'"));
}

void RunValues::Fault(const std::string& message) {
  if (fault_.ok()) fault_ = absl::InvalidArgumentError(message);
}

}  // namespace mpsd::client
