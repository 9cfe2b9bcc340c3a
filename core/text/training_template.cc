// SPDX-License-Identifier: Apache-2.0
#include "core/text/training_template.h"

#include "core/base/sha256.h"

namespace mpsd::text {
namespace {

struct Stock {
  std::string_view sha256;  // the template's bytes' digest
  std::vector<TemplateEdit> edits;
};

// Both templates end an assistant's turn with these lines.
constexpr TemplateEdit kEndOfTurn = {
    R"({{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %})",
    R"({{- '<|im_end|>\n' }}{%- endgeneration %}
    {%- elif message.role == "tool" %})"};

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
        kEndOfTurn}}};
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

}  // namespace mpsd::text
