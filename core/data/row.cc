// SPDX-License-Identifier: Apache-2.0
#include "core/data/row.h"

#include <algorithm>
#include <vector>

#include "core/spec/cat.h"

namespace mpsd::data {
namespace {

using spec::Cat;

constexpr int kMaxDepth = 100;
constexpr char kExpected[] =
    "expected \"messages\", \"prompt\" and \"completion\", or \"text\"";

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

// The deepest nesting of brackets outside strings.
int Depth(std::string_view json) {
  int depth = 0;
  int deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      deepest = std::max(deepest, ++depth);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return deepest;
}

absl::StatusOr<RowJson> ParseJson(std::string_view text) {
  if (Depth(text) > kMaxDepth) {
    return Bad(
        Cat("not valid JSON: nested deeper than ", kMaxDepth, " levels"));
  }
  try {
    return RowJson::parse(text.begin(), text.end());
  } catch (const RowJson::exception& error) {
    const std::string what = error.what();
    const size_t from = what.find("syntax error");
    return Bad("not valid JSON: " +
               (from == std::string::npos ? what : what.substr(from)));
  }
}

absl::Status Expected(std::string_view path, std::string_view expected,
                      const RowJson& found) {
  return Bad(
      Cat(path, ": expected ", expected, ", found ", DescribeJson(found)));
}

bool Has(const RowJson& row, const char* name) {
  const auto it = row.find(name);
  return it != row.end() && !it->is_null();
}

absl::Status CheckMessage(const RowJson& message, const std::string& path) {
  if (!message.is_object()) {
    return Expected(path, "an object with \"role\" and \"content\"", message);
  }
  if (!Has(message, "role") || !message["role"].is_string()) {
    const bool share_gpt = Has(message, "from") && Has(message, "value");
    return Bad(Cat(path, ": expected \"role\" with a string",
                   share_gpt ? "; rename \"from\" to \"role\" and \"value\" to "
                               "\"content\""
                             : ""));
  }
  if (Has(message, "content")) {
    const RowJson& content = message["content"];
    if (content.is_string() || content.is_array()) return absl::OkStatus();
    return Expected(path + ".content", "a string or a list of parts", content);
  }
  if (message.contains("content") || Has(message, "tool_calls")) {
    return absl::OkStatus();
  }
  return Bad(Cat(path, ": expected \"content\" or \"tool_calls\""));
}

absl::Status CheckMessages(const RowJson& messages, const char* name) {
  if (!messages.is_array() || messages.empty()) {
    return Expected(name, "a non-empty list of messages", messages);
  }
  for (size_t i = 0; i < messages.size(); ++i) {
    const absl::Status status =
        CheckMessage(messages[i], Cat(name, "[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> Tools(const RowJson& row) {
  if (!Has(row, "tools")) return std::string();
  RowJson tools = row["tools"];
  if (tools.is_string()) {
    const std::string text = tools.get<std::string>();
    absl::StatusOr<RowJson> parsed = ParseJson(text);
    if (!parsed.ok()) {
      return Bad("tools: " + std::string(parsed.status().message()));
    }
    if (parsed->is_null()) return std::string();
    tools = *std::move(parsed);
  }
  if (!tools.is_array()) {
    return Expected("tools", "a list of tool schemas", tools);
  }
  return tools.empty() ? std::string() : tools.dump();
}

absl::StatusOr<std::string> Kwargs(const RowJson& row) {
  constexpr char kName[] = "chat_template_kwargs";
  if (!Has(row, kName)) return std::string();
  if (!row[kName].is_object()) return Expected(kName, "an object", row[kName]);
  return row[kName].dump();
}

absl::Status ReadCompletion(const RowJson& json, Row& row) {
  const RowJson& prompt = json["prompt"];
  const RowJson& completion = json["completion"];
  if (prompt.is_string() && completion.is_string()) {
    row.content = CompletionRow{prompt, completion};
    return absl::OkStatus();
  }
  if (!prompt.is_array() || !completion.is_array()) {
    return Bad(
        Cat("expected \"prompt\" and \"completion\" to be two strings "
            "or two lists of messages, found ",
            DescribeJson(prompt), " and ", DescribeJson(completion)));
  }
  absl::Status status = CheckMessages(prompt, "prompt");
  if (status.ok()) status = CheckMessages(completion, "completion");
  if (status.ok()) row.content = ChatCompletionRow{prompt, completion};
  return status;
}

absl::Status ReadContent(const RowJson& json, Row& row) {
  if (Has(json, "prompt") && Has(json, "completion")) {
    return ReadCompletion(json, row);
  }
  if (Has(json, "messages")) {
    row.content = ChatRow{json["messages"]};
    return CheckMessages(json["messages"], "messages");
  }
  if (Has(json, "text")) {
    const RowJson& text = json["text"];
    if (!text.is_string()) return Expected("text", "a string", text);
    row.content = TextRow{text};
    return absl::OkStatus();
  }
  std::vector<std::string> names;
  for (const auto& [name, _] : json.items())
    names.push_back("\"" + name + "\"");
  std::string found = names.empty() ? "an empty object" : "";
  for (size_t i = 0; i < std::min<size_t>(names.size(), 8); ++i) {
    found += (i == 0 ? "" : ", ") + names[i];
  }
  return Bad(Cat(kExpected, ", found ", found,
                 json.contains("conversations")
                     ? "; rename \"conversations\" to \"messages\", with "
                       "\"role\" and \"content\" in each"
                     : ""));
}

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
    return Bad(Cat("expected an object, found ", DescribeJson(*json)));
  }
  return json;
}

absl::StatusOr<Row> ParseRow(std::string_view line) {
  absl::StatusOr<RowJson> json = ParseRowObject(line);
  if (!json.ok()) return json.status();
  Row row;
  if (absl::Status status = ReadContent(*json, row); !status.ok()) {
    return status;
  }
  absl::StatusOr<std::string> tools = Tools(*json);
  if (!tools.ok()) return tools.status();
  row.tools_json = *std::move(tools);
  absl::StatusOr<std::string> kwargs = Kwargs(*json);
  if (!kwargs.ok()) return kwargs.status();
  row.kwargs_json = *std::move(kwargs);
  return row;
}

}  // namespace mpsd::data
