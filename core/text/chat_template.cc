// SPDX-License-Identifier: Apache-2.0
#include "core/text/chat_template.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/text/handover.h"
#include "nlohmann/json.hpp"

namespace mpsd::text {
namespace {

struct Stock {
  std::string_view sha256;  // the template's bytes' digest
  std::vector<TemplateEdit> edits;
};

// Qwen's templates end an assistant's turn with these lines.
constexpr TemplateEdit kEndOfTurn = {
    R"({{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %})",
    R"({{- '<|im_end|>\n' }}{%- endgeneration %}
    {%- elif message.role == "tool" %})"};

// What DeepSeek's templates have in common.
constexpr TemplateEdit kToolOutputs = {
    "{%- if ns.is_tool %}{{", "{%- if ns.is_tool %}{%- generation %}{{"};
constexpr TemplateEdit kAnswer = {
    "is_tool = false -%}{%- else %}",
    "is_tool = false -%}{%- endgeneration %}{%- else %}{%- generation %}"};
constexpr TemplateEdit kEndOfAnswer = {
    "' + content + '<｜end▁of▁sentence｜>'}}",
    "' + content + '<｜end▁of▁sentence｜>'}}{%- endgeneration %}"};

const std::vector<Stock>& KnownTemplates() {
  static const auto& known = *new std::vector<Stock>{
      // Qwen2.5: plain answers are rendered by the branch of tool calls too;
      // the block opens in that branch before the line break.
      {"cd8e9439f0570856fd70470bf8889ebd8b5d1107207f67a5efb46e342330527f",
       {{R"( or (message.role == "assistant" and not message.tool_calls) %})",
         " %}"},
        {R"({{- '<|im_start|>' + message.role }}
        {%- if message.content %})",
         R"({{- '<|im_start|>' + message.role }}{%- generation %}
        {%- if not message.tool_calls %}{{- '\n' + message.content }}
        {%- elif message.content %})"},
        kEndOfTurn}},
      // Qwen3: every turn is rendered by the branch of the last turn.
      {"a55ee1b1660128b7098723e0abcd92caa0788061051c62d51cbe87d9cf1974d8",
       {{"{%- if loop.index0 > ns.last_query_index %}",
         R"({{- '<|im_start|>' + message.role + '\n' }}{%- generation %}
        {%- if true %})"},
        {"{%- if loop.last or (not loop.last and reasoning_content) %}",
         "{%- if true %}"},
        {R"({{- '<|im_start|>' + message.role + '\n<think>\n')",
         R"({{- '<think>\n')"},
        kEndOfTurn}},
      // DeepSeek-R1-Distill: the reasoning of every turn is rendered.
      {"56a1447ad31926fdc21fb07e56e5642bd9c850c4f52d8c8af7bbe5f079a84f5f",
       {{"{%- for tool in", "{%- generation %}{%- for tool in"},
        {"{%- endif %}{%- if message['role'] == 'assistant' and "
         "message['content'] is not",
         "{%- endgeneration %}{%- endif %}{%- if message['role'] == "
         "'assistant' and message['content'] is not"},
        {"{% if '</think>' in content %}{% set content = "
         "content.split('</think>')[-1] %}{% endif %}",
         ""},
        kToolOutputs,
        kAnswer,
        kEndOfAnswer}},
      // DeepSeek-V3: the arguments of a call are an object.
      {"563b1ce7d61d50a9b4c7439a912a1116f095b712df5b5e4d3e1116049874eb64",
       {{"{%- for tool in message['tool_calls'] %}",
         "{%- generation %}{%- for tool in message['tool_calls'] %}"
         "{%- set tool = {'type': tool.type, 'function': {'name': "
         "tool.function.name, 'arguments': tool.function.arguments | tojson}} "
         "%}"},
        {"{%- endif %}{%- if message['role'] == 'assistant' and 'tool_calls' "
         "not",
         "{%- endgeneration %}{%- endif %}{%- if message['role'] == "
         "'assistant' and 'tool_calls' not"},
        kToolOutputs,
        kAnswer,
        kEndOfAnswer}}};
  return known;
}

}  // namespace

std::optional<std::string> EditTemplate(std::string source,
                                        absl::Span<const TemplateEdit> edits) {
  for (const TemplateEdit& edit : edits) {
    const size_t at = source.find(edit.from);
    if (at == std::string::npos ||
        source.find(edit.from, at + 1) != std::string::npos) {
      return std::nullopt;
    }
    source.replace(at, edit.from.size(), edit.to);
  }
  return source;
}

std::optional<std::string> TrainingTemplate(const std::string& source) {
  const std::string sha256 = base::Sha256Hex(source);
  for (const Stock& stock : KnownTemplates()) {
    if (stock.sha256 == sha256) return EditTemplate(source, stock.edits);
  }
  return std::nullopt;
}

std::vector<uint8_t> AssistantMask(
    const Encoding& encoding,
    absl::Span<const std::pair<size_t, size_t>> spans) {
  std::vector<uint8_t> mask(encoding.ids.size(), 0);
  size_t span = 0;
  for (size_t i = 0; i < mask.size(); ++i) {
    const auto [begin, end] = encoding.offsets[i];
    while (span < spans.size() && begin >= spans[span].second) ++span;
    if (span == spans.size()) break;
    mask[i] = end > spans[span].first;
  }
  return mask;
}

namespace {

using Sources = std::map<std::string, std::string>;

struct Compiled {
  mpsd_text_template* rust = nullptr;
  bool has_generation_blocks = false;
};

// If a model has several templates, TRL trains only with the default one.
Sources ForUse(Sources sources, TemplateUse use) {
  const auto stock = sources.find("default");
  if (use == TemplateUse::kAsIs || stock == sources.end()) return sources;
  auto training = TrainingTemplate(stock->second);
  return training ? Sources{{"default", *std::move(training)}} : sources;
}

absl::StatusOr<Compiled> Compile(const Sources& sources,
                                 std::string_view tokens_json,
                                 absl::string_view where) {
  std::string sources_json;
  try {
    sources_json = nlohmann::json(sources).dump();
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": the chat template is not UTF-8"));
  }
  Compiled compiled;
  ReceivedBytes error;
  const int code = mpsd_text_template_new(View(sources_json), View(tokens_json),
                                          &compiled.rust, error.out());
  RETURN_IF_ERROR(
      ToStatus(code, error, absl::StrCat(where, ": chat template")));
  compiled.has_generation_blocks =
      mpsd_text_template_has_generation(compiled.rust) != 0;
  return compiled;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromFolder(
    const std::string& dir, TemplateUse use, const TextOverrides& overrides) {
  ASSIGN_OR_RETURN(FolderText folder, ReadFolderText(dir, overrides));
  if (folder.chat_templates.empty()) {
    return absl::NotFoundError(
        absl::StrCat(dir,
                     ": no chat template; expected chat_template.jinja or "
                     "\"chat_template\" in tokenizer_config.json"));
  }
  const std::string& path = overrides.chat_template_path;
  ASSIGN_OR_RETURN(Compiled compiled,
                   Compile(ForUse(std::move(folder.chat_templates), use),
                           nlohmann::json(folder.special_tokens).dump(),
                           path.empty() ? dir : path));
  return absl::WrapUnique(
      new ChatTemplate(compiled.rust, compiled.has_generation_blocks));
}

absl::StatusOr<std::unique_ptr<ChatTemplate>> ChatTemplate::FromSource(
    std::string source, const std::string& tokens_json, TemplateUse use) {
  ASSIGN_OR_RETURN(Compiled compiled,
                   Compile(ForUse({{"default", std::move(source)}}, use),
                           tokens_json, "given source"));
  return absl::WrapUnique(
      new ChatTemplate(compiled.rust, compiled.has_generation_blocks));
}

void SetTemplateTime(int64_t unix_microseconds) {
  mpsd_text_set_now(static_cast<uint64_t>(unix_microseconds));
}

ChatTemplate::~ChatTemplate() { mpsd_text_template_free(rust_); }

absl::StatusOr<Rendered> ChatTemplate::Render(
    std::string_view messages_json, std::string_view tools_json,
    bool add_generation_prompt, std::string_view kwargs_json) const {
  ReceivedBytes text;
  ReceivedRanges generation;
  ReceivedBytes error;
  const int code = mpsd_text_template_render(
      rust_, View(messages_json), View(tools_json), View(kwargs_json),
      add_generation_prompt, text.out(), generation.out(), error.out());
  RETURN_IF_ERROR(ToStatus(code, error, "chat template"));
  Rendered rendered;
  rendered.text.assign(text->data, text->size);
  rendered.generation_spans.reserve(generation->size);
  for (size_t i = 0; i < generation->size; ++i) {
    rendered.generation_spans.emplace_back(generation->data[i].begin,
                                           generation->data[i].end);
  }
  return rendered;
}

bool ChatTemplate::LabelsEndOfTurn() const {
  const auto chat = Render(
      R"([{"role": "user", "content": "question"},
          {"role": "assistant", "content": "answer"}])",
      "", false);
  if (!chat.ok() || chat->generation_spans.empty()) return true;
  const auto [begin, end] = chat->generation_spans.back();
  return !absl::EndsWith(
      absl::StripTrailingAsciiWhitespace(chat->text.substr(begin, end - begin)),
      "answer");
}

bool ChatTemplate::NeedsParsedArguments() const {
  const auto call = [this](absl::string_view arguments) {
    return Render(
        absl::StrCat(R"([{"role": "user", "content": "question"},
            {"role": "assistant", "content": "", "tool_calls": [
              {"id": "call00000", "type": "function", "function":
                {"name": "call", "arguments": )",
                     arguments, "}}]}]"),
        R"([{"type": "function", "function": {"name": "call", "description": "",
             "parameters": {"type": "object", "properties": {}}}}])",
        false);
  };
  const auto string = call(R"("{\"key\": 1}")");
  return string.ok() ? absl::StrContains(string->text, R"(\"key\")")
                     : call(R"({"key": 1})").ok();
}

}  // namespace mpsd::text
