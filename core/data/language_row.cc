// SPDX-License-Identifier: Apache-2.0
#include "core/data/language_row.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/base/status_macros.h"
#include "core/base/text.h"

namespace mpsd::data {
namespace {

using base::Cat;

constexpr int kMaxDepth = 100;

// Whether a number is read as a float that may have been an integer beyond 64
// bits.
bool HasLargeNumber(const RowJson& value) {
  if (value.is_number_float()) return std::abs(value.get<double>()) >= 0x1p63;
  return value.is_structured() &&
         std::any_of(value.begin(), value.end(), HasLargeNumber);
}

// Whether `json` has, outside its texts, a number of 19 or more digits and
// nothing else.
bool HasLongInteger(std::string_view json) {
  constexpr std::string_view kDigits = "0123456789";
  for (size_t at = 0;
       (at = json.find_first_of("\"0123456789", at)) != json.npos;) {
    if (json[at] == '"') {
      while (++at < json.size() && json[at] != '"') at += json[at] == '\\';
      ++at;
      continue;
    }
    const size_t end =
        std::min(json.find_first_not_of("0123456789.eE+-", at), json.size());
    const std::string_view number = json.substr(at, end - at);
    if (number.size() >= 19 &&
        number.find_first_not_of(kDigits) == number.npos) {
      return true;
    }
    at = end;
  }
  return false;
}

// Of a value that templates print, read from `json`.
absl::Status CheckIntegers(const RowJson& value, std::string_view json) {
  if (!HasLargeNumber(value) || !HasLongInteger(json)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "an integer beyond 64 bits would lose digits; write it as a string");
}

absl::StatusOr<RowJson> ParseJson(std::string_view text) {
  if (base::NestsTooDeep(text, kMaxDepth)) {
    return absl::InvalidArgumentError(
        Cat("not valid JSON: nested deeper than ", kMaxDepth, " levels"));
  }
  try {
    RowJson json = RowJson::parse(text.begin(), text.end());
    return json;
  } catch (const RowJson::exception& error) {
    const std::string what = error.what();
    const size_t from = what.find("syntax error");
    return absl::InvalidArgumentError(
        "not valid JSON: " +
        (from == std::string::npos ? what : what.substr(from)));
  }
}

absl::Status Expected(std::string_view path, std::string_view expected,
                      const RowJson& found) {
  return absl::InvalidArgumentError(
      Cat(path, ": expected ", expected, ", found ", DescribeJson(found)));
}

bool Has(const RowJson& row, const std::string& name) {
  const auto it = row.find(name);
  return it != row.end() && !it->is_null();
}

// Replaces ShareGPT's names by ChatML's, in the key order of TRL, because
// templates print objects. `path` is for errors.
absl::Status RenameShareGpt(RowJson& message, const std::string& path) {
  if (!message.is_object()) return absl::OkStatus();
  const auto rename = [&message](const char* from, const char* to) {
    const auto it = message.find(from);
    if (it == message.end()) return false;
    RowJson value = std::move(*it);
    message.erase(it);
    message[to] = std::move(value);
    return true;
  };
  const bool renamed = rename("from", "role");
  rename("value", "content");
  if (!renamed || !message["role"].is_string()) return absl::OkStatus();
  RowJson& role = message["role"];
  if (role == "human") role = "user";
  for (const char* name : {"gpt", "chatgpt", "bing", "bard", "model"}) {
    if (role == name) role = "assistant";
  }
  for (const char* known : {"system", "developer", "user", "assistant", "tool",
                            "function_call", "observation"}) {
    if (role == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat(path, ": from: expected human, gpt, system or tool, found ",
          role.dump(), "; for another role write \"role\" and \"content\""));
}

absl::Status ParseCalls(RowJson& message) {
  if (!Has(message, "tool_calls") || !message["tool_calls"].is_array()) {
    return absl::OkStatus();
  }
  for (RowJson& call : message["tool_calls"]) {
    if (!call.is_object()) continue;
    const bool nested = Has(call, "function") && call["function"].is_object();
    RowJson& function = nested ? call["function"] : call;
    const auto at = function.find("arguments");
    if (at == function.end() || !at->is_string()) continue;
    const std::string text = at->get<std::string>();
    auto parsed = ParseJson(text);
    if (!parsed.ok() || !parsed->is_object()) continue;
    RETURN_IF_ERROR(CheckIntegers(*parsed, text));
    *at = *std::move(parsed);
  }
  return absl::OkStatus();
}

absl::Status CheckMessage(const RowJson& message, const std::string& path) {
  if (!message.is_object()) {
    return Expected(path, "an object with \"role\" and \"content\"", message);
  }
  if (!Has(message, "role") || !message["role"].is_string()) {
    return absl::InvalidArgumentError(
        Cat(path, ": expected \"role\" with a string"));
  }
  if (message["role"] == "function_call" || message["role"] == "observation") {
    return absl::InvalidArgumentError(
        Cat(path, ": the role ", message["role"].dump(),
            " is known to no chat template; write a call as \"tool_calls\" of "
            "an assistant's message, and its result with the role \"tool\""));
  }
  if (Has(message, "content")) {
    const RowJson& content = message["content"];
    if (content.is_string() || content.is_array()) return absl::OkStatus();
    return Expected(path + ".content", "a string or a list of parts", content);
  }
  if (message.contains("content") || Has(message, "tool_calls")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      Cat(path, ": expected \"content\" or \"tool_calls\""));
}

absl::StatusOr<RowJson> Messages(const RowJson& json, const std::string& name,
                                 std::string_view line) {
  RowJson messages = json[name];
  if (!messages.is_array() || messages.empty()) {
    return Expected(name, "a non-empty list of messages", messages);
  }
  RETURN_IF_ERROR(CheckIntegers(messages, line));
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string path = Cat(name, "[", i, "]");
    RETURN_IF_ERROR(RenameShareGpt(messages[i], path));
    RETURN_IF_ERROR(CheckMessage(messages[i], path));
  }
  return messages;
}

absl::StatusOr<std::string> Tools(const RowJson& row, std::string_view line) {
  if (!Has(row, "tools")) return std::string();
  RowJson tools = row["tools"];
  RETURN_IF_ERROR(CheckIntegers(tools, line));
  if (tools.is_string()) {
    const std::string text = tools.get<std::string>();
    absl::StatusOr<RowJson> parsed = ParseJson(text);
    if (!parsed.ok()) {
      return absl::InvalidArgumentError("tools: " +
                                        std::string(parsed.status().message()));
    }
    RETURN_IF_ERROR(CheckIntegers(*parsed, text));
    if (parsed->is_null()) return std::string();
    tools = *std::move(parsed);
  }
  if (!tools.is_array()) {
    return Expected("tools", "a list of tool schemas", tools);
  }
  return tools.empty() ? std::string() : tools.dump();
}

absl::StatusOr<std::string> Kwargs(const RowJson& row, std::string_view line) {
  constexpr char kName[] = "chat_template_kwargs";
  if (!Has(row, kName)) return std::string();
  if (!row[kName].is_object()) return Expected(kName, "an object", row[kName]);
  RETURN_IF_ERROR(CheckIntegers(row[kName], line));
  return row[kName].dump();
}

std::string InQuotes(const std::string& name) { return "\"" + name + "\""; }

// stanford_alpaca's prompts; the line break at the end is added as in axolotl
// and torchtune.
std::string AlpacaPrompt(const std::string& instruction,
                         const std::string& input) {
  if (input.empty()) {
    return Cat(
        "Below is an instruction that describes a task. Write a response that "
        "appropriately completes the request.\n\n### Instruction:\n",
        instruction, "\n\n### Response:\n");
  }
  return Cat(
      "Below is an instruction that describes a task, paired with an input "
      "that provides further context. Write a response that appropriately "
      "completes the request.\n\n### Instruction:\n",
      instruction, "\n\n### Input:\n", input, "\n\n### Response:\n");
}

// Reads one row object.
class ContentReader {
 public:
  ContentReader(const RowJson& json, std::string_view line,
                const LanguageRowFormat& format, LanguageRow& row)
      : json_(json), line_(line), format_(format), row_(row) {}

  absl::Status Read() {
    const LanguageRowFormat& f = format_;
    if (f.preferences) return Preference();
    if (!f.format.empty()) return Alpaca();
    if (!f.prompt_column.empty() || !f.completion_column.empty()) {
      return Completion(Name(f.prompt_column, "prompt"),
                        Name(f.completion_column, "completion"));
    }
    if (!f.messages_column.empty()) return Chat(f.messages_column);
    if (!f.text_column.empty()) return Text();
    if (Has(json_, "prompt") && Has(json_, "completion")) {
      return Completion("prompt", "completion");
    }
    if (Has(json_, "messages")) return Chat("messages");
    if (Has(json_, "conversations")) return Chat("conversations");
    if (Has(json_, "text")) return Text();
    if (Has(json_, "instruction") && Has(json_, "output")) return Alpaca();
    if (Has(json_, "question") && Has(json_, "answer")) {
      return Completion("question", "answer");
    }
    return Missing(
        "\"prompt\" and \"completion\", \"messages\", \"text\", "
        "\"instruction\" and \"output\", or \"question\" and "
        "\"answer\"",
        "; name other columns in dataset.messages_column, "
        "dataset.prompt_column and dataset.completion_column, or "
        "dataset.text_columns");
  }

 private:
  static std::string Name(const std::string& column, const char* usual) {
    return column.empty() ? usual : column;
  }

  absl::Status Missing(const std::string& expected,
                       const std::string& advice = "") const {
    std::vector<std::string> names;
    for (const auto& [name, _] : json_.items()) names.push_back(InQuotes(name));
    std::string found = names.empty() ? "an empty object" : "";
    for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) {
      found += (i == 0 ? "" : ", ") + names[i];
    }
    return absl::InvalidArgumentError(
        Cat("expected ", expected, ", found ", found, advice));
  }

  absl::Status Completion(const std::string& prompt_name,
                          const std::string& completion_name) {
    const std::string both =
        Cat(InQuotes(prompt_name), " and ", InQuotes(completion_name));
    if (!Has(json_, prompt_name) || !Has(json_, completion_name)) {
      return Missing(both);
    }
    const RowJson& prompt = json_[prompt_name];
    const RowJson& completion = json_[completion_name];
    if (prompt.is_string() && completion.is_string()) {
      RETURN_IF_ERROR(CheckNoMore("a prompt in one string"));
      row_.content = CompletionRow{prompt, completion};
      return absl::OkStatus();
    }
    if (!prompt.is_array() || !completion.is_array()) {
      return absl::InvalidArgumentError(
          Cat("expected ", both,
              " to be two strings or two lists of messages, found ",
              DescribeJson(prompt), " and ", DescribeJson(completion)));
    }
    ASSIGN_OR_RETURN(RowJson asked, Conversation(prompt_name));
    ASSIGN_OR_RETURN(RowJson answered, Messages(json_, completion_name, line_));
    row_.content = ChatCompletionRow{std::move(asked), std::move(answered)};
    return absl::OkStatus();
  }

  absl::Status Preference() {
    if (!Has(json_, "chosen") || !Has(json_, "rejected")) {
      return Missing("\"prompt\", \"chosen\" and \"rejected\"");
    }
    const bool has_prompt = Has(json_, "prompt");
    RowJson chosen = json_["chosen"], rejected = json_["rejected"], prompt;
    const bool text = chosen.is_string();
    if (text != rejected.is_string() ||
        (has_prompt && text != json_["prompt"].is_string())) {
      return absl::InvalidArgumentError(
          "expected \"prompt\", \"chosen\" and \"rejected\" to be all strings "
          "or all lists of messages; leave \"prompt\" out if both answers "
          "begin "
          "with it");
    }
    if (text) {
      RETURN_IF_ERROR(CheckNoMore("a prompt in one string"));
      if (has_prompt) {
        prompt = json_["prompt"];
      } else {
        prompt = SharedText(chosen, rejected);
      }
      row_.content = CompletionRow{prompt, chosen};
      row_.rejected = std::move(rejected);
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(rejected, Messages(json_, "rejected", line_));
    if (has_prompt) {
      ASSIGN_OR_RETURN(prompt, Conversation("prompt"));
      ASSIGN_OR_RETURN(chosen, Messages(json_, "chosen", line_));
    } else {
      ASSIGN_OR_RETURN(chosen, Messages(json_, "chosen", line_));
      prompt = SharedMessages(chosen, rejected);
      if (prompt.empty()) {
        return absl::InvalidArgumentError(
            "\"chosen\" and \"rejected\" begin with different messages, and "
            "there is no \"prompt\"");
      }
    }
    row_.content = ChatCompletionRow{std::move(prompt), std::move(chosen)};
    row_.rejected = std::move(rejected);
    return absl::OkStatus();
  }

  // Removes what both begin with, at most all but one message of the shorter.
  static RowJson SharedMessages(RowJson& chosen, RowJson& rejected) {
    RowJson shared = RowJson::array();
    while (chosen.size() > 1 && rejected.size() > 1 &&
           chosen[0] == rejected[0]) {
      shared.push_back(chosen[0]);
      chosen.erase(0);
      rejected.erase(0);
    }
    return shared;
  }

  // The same for texts, by whole letters. A space before the first difference
  // belongs to the answers.
  static std::string SharedText(RowJson& chosen, RowJson& rejected) {
    const std::string a = chosen, b = rejected;
    const auto in_letter = [](char c) { return (c & 0xC0) == 0x80; };
    const size_t shorter = std::min(a.size(), b.size());
    size_t at = std::mismatch(a.begin(), a.begin() + shorter, b.begin()).first -
                a.begin();
    const bool differs = at < shorter;
    if (!differs && at > 0) --at;
    while (at > 0 && (in_letter(a[at]) || in_letter(b[at]))) --at;
    if (differs && at > 0 && a[at - 1] == ' ') --at;
    chosen = a.substr(at);
    rejected = b.substr(at);
    return a.substr(0, at);
  }

  absl::Status Chat(const std::string& name) {
    if (!Has(json_, name)) return Missing(InQuotes(name));
    ASSIGN_OR_RETURN(RowJson messages, Conversation(name));
    row_.content = ChatRow{std::move(messages)};
    return absl::OkStatus();
  }

  // The column's messages, after the system's in a column of its own, as
  // LLaMA-Factory and ms-swift take it.
  absl::StatusOr<RowJson> Conversation(const std::string& name) const {
    ASSIGN_OR_RETURN(RowJson messages, Messages(json_, name, line_));
    if (messages[0]["role"] == "system") return messages;
    ASSIGN_OR_RETURN(const std::string system, Part("system"));
    if (!system.empty()) {
      const RowJson first = {{"role", "system"}, {"content", system}};
      messages.insert(messages.begin(), first);
    }
    return messages;
  }

  // Whether LLaMA-Factory's further columns, for which `prompt` has no place,
  // are empty.
  absl::Status CheckNoMore(const char* prompt) const {
    for (const char* name : {"system", "history"}) {
      if (!Has(json_, name) || json_[name].empty() || json_[name] == "")
        continue;
      return absl::InvalidArgumentError(
          Cat(name, ": ", prompt,
              " has no place for it; write the row as \"messages\", or remove "
              "the column"));
    }
    return absl::OkStatus();
  }

  // A column with a text; "" without it.
  absl::StatusOr<std::string> Part(const char* name) const {
    if (!Has(json_, name)) return "";
    if (!json_[name].is_string())
      return Expected(name, "a string", json_[name]);
    return json_[name].get<std::string>();
  }

  absl::Status Text() {
    const std::string name = Name(format_.text_column, "text");
    if (!Has(json_, name)) return Missing(InQuotes(name));
    const RowJson& text = json_[name];
    if (!text.is_string()) return Expected(name, "a string", text);
    row_.content = PlainTextRow{text};
    return absl::OkStatus();
  }

  absl::Status Alpaca() {
    if (!Has(json_, "instruction") || !Has(json_, "output")) {
      return Missing("\"instruction\", \"output\" and optionally \"input\"");
    }
    ASSIGN_OR_RETURN(const std::string instruction, Part("instruction"));
    ASSIGN_OR_RETURN(const std::string input, Part("input"));
    ASSIGN_OR_RETURN(const std::string output, Part("output"));
    RETURN_IF_ERROR(CheckNoMore("Alpaca's prompt"));
    if (format_.format != "alpaca_chat") {
      row_.content = CompletionRow{AlpacaPrompt(instruction, input), output};
      return absl::OkStatus();
    }
    const std::string asked =
        input.empty() ? instruction : Cat(instruction, "\n\n", input);
    row_.content =
        ChatRow{RowJson::array({{{"role", "user"}, {"content", asked}},
                                {{"role", "assistant"}, {"content", output}}})};
    return absl::OkStatus();
  }

  const RowJson& json_;
  const std::string_view line_;
  const LanguageRowFormat& format_;
  LanguageRow& row_;
};

}  // namespace

std::string DescribeJson(const RowJson& value) {
  switch (value.type()) {
    case RowJson::value_t::null:
      return "null";
    case RowJson::value_t::object:
      return "an object";
    case RowJson::value_t::array:
      return value.empty() ? "an empty list" : "a list";
    case RowJson::value_t::string:
      return value.get_ref<const std::string&>().empty() ? "an empty string"
                                                         : "a string";
    case RowJson::value_t::boolean:
      return value.get<bool>() ? "true" : "false";
    default:
      return value.dump();
  }
}

absl::StatusOr<RowJson> ParseRowObject(std::string_view line) {
  absl::StatusOr<RowJson> json = ParseJson(line);
  if (json.ok() && !json->is_object()) {
    return absl::InvalidArgumentError(
        Cat("expected an object, found ", DescribeJson(*json)));
  }
  return json;
}

absl::StatusOr<LanguageRow> ReadLanguageRow(const RowJson& json,
                                            std::string_view line,
                                            const LanguageRowFormat& format) {
  LanguageRow row;
  RETURN_IF_ERROR(ContentReader(json, line, format, row).Read());
  ASSIGN_OR_RETURN(std::string tools, Tools(json, line));
  row.tools_json = std::move(tools);
  ASSIGN_OR_RETURN(std::string kwargs, Kwargs(json, line));
  row.kwargs_json = std::move(kwargs);
  return row;
}

absl::StatusOr<LanguageRow> ParseLanguageRow(std::string_view line,
                                             const LanguageRowFormat& format) {
  ASSIGN_OR_RETURN(const RowJson json, ParseRowObject(line));
  return ReadLanguageRow(json, line, format);
}

absl::Status ParseArguments(LanguageRow& row) {
  auto* chat = std::get_if<ChatRow>(&row.content);
  auto* both = std::get_if<ChatCompletionRow>(&row.content);
  for (RowJson* messages :
       {chat ? &chat->messages : nullptr, both ? &both->prompt : nullptr,
        both ? &both->completion : nullptr, &row.rejected}) {
    if (messages == nullptr || !messages->is_array()) continue;
    for (RowJson& message : *messages) RETURN_IF_ERROR(ParseCalls(message));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::data
