// SPDX-License-Identifier: Apache-2.0
#include "client/text/csv.h"

#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

std::string Text(std::string text) {
  text = base::Printable(text, base::Breaks::kKeep);
  constexpr std::string_view kFormula = "=+-@\t";
  const bool is_formula =
      !text.empty() && kFormula.find(text[0]) != std::string_view::npos;
  return is_formula ? "'" + text : text;
}

std::string Field(const nlohmann::ordered_json& value) {
  if (value.is_null()) return "";
  std::string text =
      value.is_string()
          ? Text(value.get<std::string>())
          : value.dump(-1, ' ', false,
                       nlohmann::ordered_json::error_handler_t::replace);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

}  // namespace

std::string CsvLine(const std::vector<nlohmann::ordered_json>& values) {
  std::string line;
  for (size_t i = 0; i < values.size(); ++i) {
    absl::StrAppend(&line, i == 0 ? "" : ",", Field(values[i]));
  }
  return line + "\r\n";
}

}  // namespace mpsd::client
