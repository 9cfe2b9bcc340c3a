// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <variant>

#include "absl/status/statusor.h"

namespace mpsd::data {

// The columns that contain a row's parts: fields of job.json's "dataset". "" is
// the default.
struct LanguageRowFormat {
  std::string messages_column = "";
  std::string prompt_column = "", completion_column = "";
  std::string text_column = "";
  std::string format = "";  // "alpaca" or "alpaca_chat"
  // Rows are a prompt with a chosen and a rejected answer.
  bool preferences = false;

  bool operator==(const LanguageRowFormat&) const = default;
};

// Key order is kept, because chat templates print objects.
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
struct PlainTextRow {
  std::string text;
};

struct LanguageRow {
  std::variant<ChatRow, ChatCompletionRow, CompletionRow, PlainTextRow> content;
  // Of preferences, whose content has the chosen completion: the rejected one,
  // a string or messages; else null.
  RowJson rejected = nullptr;
  std::string tools_json;   // a list of tool schemas, or empty
  std::string kwargs_json;  // chat_template_kwargs, or empty
};

// Parses a line of JSON Lines, which must be an object. InvalidArgument as
// below.
absl::StatusOr<RowJson> ParseRowObject(std::string_view line);

// How errors describe a value: "a list", "null", "3".
std::string DescribeJson(const RowJson& value);

// Parses a row, a JSON object. It is read as the first kind whose names it has,
// in TRL's order: "prompt" and "completion"; "messages" or "conversations";
// "text"; Alpaca's "instruction" and "output"; "question" and "answer", which
// are a prompt and its completion. Other names are ignored, and null counts as
// absent. If `format` names a column or a format, rows are read as that kind.
// "tools" may be a list or a string that contains one.
//
// A message may have ShareGPT's "from" and "value" instead of "role" and
// "content", as with TRL's maybe_convert_to_chatml; in "from", "human" and
// "gpt" mean "user" and "assistant", and a column "system" is the first message
// (LLaMA-Factory's). Alpaca's prompt is stanford_alpaca's with a line break
// after the last colon.
//
// A row of preferences has "chosen" and "rejected", strings or lists of
// messages, and "prompt" of the same kind. Without a prompt it is what both
// answers begin with, as TRL's extract_prompt finds it (trl 1.16,
// data_utils.py).
//
// InvalidArgument names the fault and what was expected, but neither file nor
// line.
absl::StatusOr<LanguageRow> ParseLanguageRow(
    std::string_view line, const LanguageRowFormat& format = {});

// The same for a row that is parsed already. `line`: its JSON, or "" for a row
// of a table, whose values are strings.
absl::StatusOr<LanguageRow> ReadLanguageRow(const RowJson& json,
                                            std::string_view line,
                                            const LanguageRowFormat& format);

// Replaces the "arguments" of calls that are in the API's form, a string with
// an object's JSON, by the object; other strings are left. InvalidArgument for
// an object with an integer beyond 64 bits.
absl::Status ParseArguments(LanguageRow& row);

}  // namespace mpsd::data
