// SPDX-License-Identifier: Apache-2.0
#include "core/data/language_row_encoder.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/strings.h"
#include "core/data/assistant_spans.h"
#include "core/text/assistant_mask.h"

namespace mpsd::data {
namespace {

using Ids = std::vector<int32_t>;

absl::Status Bad(const std::string& message) {
  return absl::InvalidArgumentError(message);
}

TokenSample AllInLoss(Ids ids) {
  TokenSample sample;
  sample.in_loss.assign(ids.size(), 1);
  sample.input_ids = std::move(ids);
  return sample;
}

// Removes the tokens that `whole` shares with the prompt from the loss. Returns
// whether `whole` begins with the whole prompt: a tokenizer may merge the
// prompt's last letters with the completion's first.
bool MaskPrompt(const Ids& prompt, bool mask, TokenSample& whole) {
  const Ids& ids = whole.input_ids;
  base::CheckEqual(ids.size(), whole.in_loss.size(),
                   "ids and labels of a sample");
  const auto parting =
      std::mismatch(prompt.begin(), prompt.end(), ids.begin(), ids.end());
  const auto shared = parting.second - ids.begin();
  if (mask) {
    std::fill(whole.in_loss.begin(), whole.in_loss.begin() + shared, 0);
  }
  return parting.first == prompt.end();
}

absl::Status NotExact() {
  return Bad(
      "assistant_only_loss needs a chat template with {% generation %} blocks: "
      "this one has none, and its output does not show which part is the "
      "assistant's; add the blocks to the template (see "
      "training.chat_template_path) or leave assistant_only_loss out");
}

}  // namespace

LanguageRowEncoder::LanguageRowEncoder(const text::Tokenizer& tokenizer,
                                       const text::ChatTemplate* chat_template,
                                       LossOptions options, IdTables tables,
                                       int64_t max_length)
    : tokenizer_(tokenizer),
      chat_template_(chat_template),
      options_(options),
      tables_(tables),
      max_length_(max_length) {
  const std::optional<int32_t> end = tokenizer.eos_id();
  if (!end) return;
  const int32_t ids[] = {*end};
  end_ = tokenizer.Decode(ids, /*skip_special_tokens=*/false).value_or("");
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::Encode(
    const LanguageRow& row) const {
  absl::StatusOr<EncodedRow> encoded = EncodeRow(row);
  if (!encoded.ok()) return encoded;
  const absl::Span<const int32_t> ids = encoded->sample.input_ids;
  // Tokens that max_length cuts off reach no model.
  const size_t kept = std::min(ids.size(), static_cast<size_t>(max_length_));
  const std::string fault = TokenFault(ids.first(kept), tables_, tokenizer_);
  if (!fault.empty()) return Bad(fault);
  return encoded;
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeRow(
    const LanguageRow& row) const {
  if (const auto* chat = std::get_if<ChatCompletionRow>(&row.content)) {
    return EncodeChatCompletion(row, *chat);
  }
  if (const auto* completion = std::get_if<CompletionRow>(&row.content)) {
    return EncodeCompletion(*completion);
  }
  if (options_.completion_only_loss.value_or(false)) {
    return Bad(
        "completion_only_loss needs rows with \"prompt\" and \"completion\"; "
        "for messages use assistant_only_loss");
  }
  if (const auto* chat = std::get_if<ChatRow>(&row.content)) {
    return EncodeChat(row, *chat);
  }
  return EncodeText(std::get<PlainTextRow>(row.content));
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeChat(
    const LanguageRow& row, const ChatRow& chat) const {
  ASSIGN_OR_RETURN(TokenSample sample, EncodeMessages(row, chat.messages));
  return EncodedRow{std::move(sample)};
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeChatCompletion(
    const LanguageRow& row, const ChatCompletionRow& chat) const {
  ASSIGN_OR_RETURN(text::Rendered prompt, Render(row, chat.prompt, true));
  ASSIGN_OR_RETURN(
      Ids prompt_tokens,
      tokenizer_.EncodeIds(prompt.text, /*add_special_tokens=*/false));
  RowJson messages = chat.prompt;
  messages.insert(messages.end(), chat.completion.begin(),
                  chat.completion.end());
  ASSIGN_OR_RETURN(TokenSample whole, EncodeMessages(row, messages));
  const bool is_prefix = MaskPrompt(
      prompt_tokens, options_.completion_only_loss.value_or(true), whole);
  return EncodedRow{std::move(whole), is_prefix, /*has_prompt=*/true};
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeCompletion(
    const CompletionRow& row) const {
  if (assistant_only()) {
    return Bad(
        "assistant_only_loss needs conversations: rows with \"messages\", or "
        "with \"prompt\" and \"completion\" as lists of messages");
  }
  // The completion is never tokenized alone, since a tokenizer may merge
  // letters of both where they meet. As in TRL, the tokens that the prompt
  // shares with the whole count as prompt.
  ASSIGN_OR_RETURN(Ids prompt, tokenizer_.EncodeIds(row.prompt, true));
  ASSIGN_OR_RETURN(Ids whole, tokenizer_.EncodeIds(
                                  row.prompt + WithEnd(row.completion), true));
  TokenSample sample = AllInLoss(std::move(whole));
  const bool is_prefix =
      MaskPrompt(prompt, options_.completion_only_loss.value_or(true), sample);
  return EncodedRow{std::move(sample), is_prefix, /*has_prompt=*/true};
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeText(
    const PlainTextRow& row) const {
  if (assistant_only()) {
    return Bad(
        "assistant_only_loss needs conversations: rows with "
        "\"messages\"");
  }
  ASSIGN_OR_RETURN(Ids tokens, tokenizer_.EncodeIds(WithEnd(row.text), true));
  return EncodedRow{AllInLoss(std::move(tokens))};
}

absl::StatusOr<TokenSample> LanguageRowEncoder::EncodeMessages(
    const LanguageRow& row, const RowJson& messages) const {
  ASSIGN_OR_RETURN(text::Rendered rendered, Render(row, messages, false));
  if (!assistant_only()) {
    ASSIGN_OR_RETURN(auto ids, tokenizer_.EncodeIds(rendered.text, false));
    return AllInLoss(std::move(ids));
  }
  ASSIGN_OR_RETURN(
      text::Encoding tokens,
      tokenizer_.Encode(rendered.text, /*add_special_tokens=*/false));
  if (!chat_template_->has_generation_blocks()) {
    const RenderMessages render = [&](const RowJson& part, bool prompt) {
      auto text = Render(row, part, prompt);
      return text.ok() ? std::optional(std::move(text->text)) : std::nullopt;
    };
    auto spans = FindAssistantSpans(messages, rendered.text, end_, render);
    if (!spans) return NotExact();
    rendered.generation_spans = *std::move(spans);
  }
  TokenSample sample;
  sample.in_loss = text::AssistantMask(tokens, rendered.generation_spans);
  sample.input_ids = std::move(tokens.ids);
  base::CheckEqual(sample.in_loss.size(), sample.input_ids.size(),
                   "labels and ids of a conversation");
  return sample;
}

absl::StatusOr<text::Rendered> LanguageRowEncoder::Render(
    const LanguageRow& row, const RowJson& messages,
    bool add_generation_prompt) const {
  if (chat_template_ == nullptr) {
    return Bad(
        "the model has no chat template for messages; use \"text\" or "
        "\"prompt\" and \"completion\" as strings, or a model with a chat "
        "template");
  }
  absl::StatusOr<text::Rendered> rendered = chat_template_->Render(
      messages.dump(), row.tools_json, add_generation_prompt, row.kwargs_json);
  if (rendered.ok()) return rendered;
  return Bad(base::Cat("the chat template rejected it: ",
                       std::string(rendered.status().message())));
}

std::string LanguageRowEncoder::WithEnd(std::string text) const {
  if (!text.ends_with(end_)) text += end_;
  return text;
}

}  // namespace mpsd::data
