// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/language_row.h"
#include "core/data/row_errors.h"
#include "core/data/token_arrays.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

namespace mpsd::data {

// Half-open byte ranges.
using TextSpans = std::vector<std::pair<size_t, size_t>>;

// Renders messages, with the generation prompt or without; nullopt if the
// template rejects them.
using RenderMessages = std::function<std::optional<std::string>(
    const RowJson& messages, bool add_generation_prompt)>;

// The parts of `whole` that the assistant's messages produced, where `whole` is
// the rendering of `messages` by a template without {% generation %} blocks. A
// part reaches from the end of the generation prompt to the next message's
// beginning and includes the text that ends a turn. These are the blocks of
// TRL's training templates (trl 1.16), except for the templates in
// core/text/chat_template.h.
//
// A turn is found, in this order:
//  - by prefixes, if `whole` begins with both: the rendering of the messages
//    before the turn with the generation prompt is where the turn begins, the
//    rendering of the messages up to the turn is where the turn ends;
//  - by a mark that replaces the turn's content, for templates that render a
//    turn differently once others follow (they drop its thinking), or that
//    cannot render the beginning of a conversation.
// `end_token` (or empty) may follow only the last message, as in Phi's
// template.
//
// nullopt if neither way determines exactly which bytes are the assistant's.
std::optional<TextSpans> FindAssistantSpans(const RowJson& messages,
                                            const std::string& whole,
                                            std::string_view end_token,
                                            const RenderMessages& render);

// Which tokens are labels. Absent means TRL's default (1.16, SFTConfig):
// assistant_only_loss false; completion_only_loss true for rows of prompt and
// completion, and no effect on other rows.
struct LossOptions {
  std::optional<bool> assistant_only_loss = std::nullopt;
  std::optional<bool> completion_only_loss = std::nullopt;
};

struct EncodedRow {
  TokenSample sample;  // whole, not truncated
  // False if the tokens of prompt and completion do not begin with the tokens
  // of the prompt alone: the completion then starts at the first token that
  // differs.
  bool prompt_is_prefix = true;
  bool has_prompt = false;  // a row with a prompt and its completion
  // Of preferences: the prompt with the rejected answer; else empty.
  TokenSample rejected = {};
};

// Converts rows to tokens as TRL's SFTTrainer does (trl 1.16, sft_trainer.py
// tokenize_fn and build_labels):
//  - messages: rendered by the chat template, tokenized without special tokens;
//  - prompt and completion as messages: both are rendered together; the
//    completion begins after the tokens shared with the prompt, rendered alone
//    with the generation prompt;
//  - text, or prompt and completion as strings: the end token is appended
//    unless the text ends in it; tokenized with special tokens.
// With assistant_only_loss the labels are the text that {% generation %} blocks
// rendered; for a template without such blocks FindAssistantSpans finds the
// labels, and an inexact result is an error.
class LanguageRowEncoder {
 public:
  // `chat_template` may be null: rows of messages are then errors. Both must
  // outlive the encoder. Tokens after the first `max_length` will be cut and
  // are not checked against `tables`.
  LanguageRowEncoder(const text::Tokenizer& tokenizer,
                     const text::ChatTemplate* chat_template,
                     LossOptions options, IdTables tables = {},
                     int64_t max_length = std::numeric_limits<int64_t>::max());

  // InvalidArgument: the row does not fit the options or the template, the
  // template rejects it, or a token has no row in the model's table.
  absl::StatusOr<EncodedRow> Encode(LanguageRow row) const;

 private:
  absl::StatusOr<EncodedRow> EncodeRow(const LanguageRow& row) const;
  // Encodes row.rejected after the same prompt into encoded.rejected. As in
  // TRL both completions begin where the first of them leaves the prompt.
  absl::Status AddRejected(LanguageRow& row, EncodedRow& encoded) const;
  absl::Status CheckTokens(const TokenSample& sample) const;
  absl::StatusOr<EncodedRow> EncodeChat(const LanguageRow& row,
                                        const ChatRow& chat) const;
  absl::StatusOr<EncodedRow> EncodeChatCompletion(
      const LanguageRow& row, const ChatCompletionRow& chat) const;
  absl::StatusOr<EncodedRow> EncodeCompletion(const CompletionRow& row) const;
  absl::StatusOr<EncodedRow> EncodeText(const PlainTextRow& row) const;

  // The tokens of a conversation; in_loss marks the assistant's tokens with
  // assistant_only_loss, else all tokens.
  absl::StatusOr<TokenSample> EncodeMessages(const LanguageRow& row,
                                             const RowJson& messages) const;
  absl::StatusOr<text::Rendered> Render(const LanguageRow& row,
                                        const RowJson& messages,
                                        bool add_generation_prompt) const;
  std::string WithEnd(std::string text) const;
  bool assistant_only() const {
    return options_.assistant_only_loss.value_or(false);
  }

  const text::Tokenizer& tokenizer_;
  const text::ChatTemplate* const chat_template_;
  const bool parses_arguments_;
  const LossOptions options_;
  const IdTables tables_;
  const int64_t max_length_;
  std::string end_;  // the end token's text, or empty
};

}  // namespace mpsd::data
