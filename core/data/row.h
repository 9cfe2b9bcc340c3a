// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ROW_H_
#define MPSD_CORE_DATA_ROW_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace mpsd::data {

// Key order is kept: chat templates print objects.
using RowJson = nlohmann::ordered_json;

// {"messages": [...]}
struct ChatRow {
  RowJson messages;
};
// {"prompt": [...], "completion": [...]}, lists of messages
struct ChatCompletionRow {
  RowJson prompt;
  RowJson completion;
};
// {"prompt": "...", "completion": "..."}
struct CompletionRow {
  std::string prompt;
  std::string completion;
};
// {"text": "..."}
struct TextRow {
  std::string text;
};

struct Row {
  std::variant<ChatRow, ChatCompletionRow, CompletionRow, TextRow> content;
  std::string tools_json;   // a list of tool schemas, or empty
  std::string kwargs_json;  // chat_template_kwargs, or empty
};

// A line of JSON Lines, which holds an object. InvalidArgument as below.
absl::StatusOr<RowJson> ParseRowObject(std::string_view line);

// What a value is, for errors: "a list", "null", "3".
std::string DescribeJson(const RowJson& value);

// Reads one line of JSON Lines. A row with "prompt" and "completion" is taken
// as such, else one with "messages", else one with "text" (TRL's order); other
// names are left alone, and null is as good as absent. "tools" may be a list or
// a string that holds one. InvalidArgument says what is wrong and what was
// expected, without file and line.
absl::StatusOr<Row> ParseRow(std::string_view line);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ROW_H_
