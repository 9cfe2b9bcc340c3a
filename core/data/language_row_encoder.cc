// SPDX-License-Identifier: Apache-2.0
#include "core/data/language_row_encoder.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/text/chat_template.h"

namespace mpsd::data {
namespace {

using Span = std::pair<size_t, size_t>;

// One conversation.
class SpanFinder {
 public:
  SpanFinder(const RowJson& messages, const std::string& whole,
             std::string_view end_token, const RenderMessages& render)
      : messages_(messages),
        whole_(whole),
        end_token_(end_token),
        render_(render) {}

  std::optional<TextSpans> Find() {
    TextSpans spans;
    for (size_t i = 0; i < messages_.size(); ++i) {
      if (messages_[i].value("role", "") != "assistant") continue;
      std::optional<Span> span = ByPrefix(i);
      if (!span || span->first < done_) span = ByMark(i);
      if (!span || span->first < done_) return std::nullopt;
      done_ = span->second;
      spans.push_back(*span);
    }
    return spans;
  }

 private:
  bool IsLast(size_t i) const { return i + 1 == messages_.size(); }

  RowJson First(const RowJson& messages, size_t count) const {
    RowJson first = RowJson::array();
    for (size_t i = 0; i < count; ++i) first.push_back(messages[i]);
    return first;
  }

  // The length of `turn` if `text` begins with it, else nullopt. `turn` is the
  // rendering of the messages up to the i-th, `text` that of all messages, both
  // from the same position on. An end token that closes a whole conversation
  // belongs to the last message and is not counted for others.
  std::optional<size_t> BeginsWith(std::string_view text, std::string_view turn,
                                   size_t i) {
    if (!IsLast(i) && turn.ends_with(end_token_) && EndTokenCloses()) {
      turn.remove_suffix(end_token_.size());
    }
    if (!text.starts_with(turn)) return std::nullopt;
    return turn.size();
  }

  std::optional<Span> ByPrefix(size_t i) {
    if (i == 0) return std::nullopt;
    const auto before = render_(First(messages_, i), true);
    if (!before || !whole_.starts_with(*before)) return std::nullopt;
    const auto after =
        IsLast(i) ? whole_ : render_(First(messages_, i + 1), false);
    if (!after) return std::nullopt;
    const auto end = BeginsWith(whole_, *after, i);
    if (!end || *end < before->size()) return std::nullopt;
    return Span(before->size(), *end);
  }

  // The position of `mark` if `text` contains it exactly once.
  static std::optional<size_t> Once(std::string_view text,
                                    std::string_view mark) {
    const size_t at = text.find(mark);
    if (at == std::string_view::npos) return std::nullopt;
    if (text.find(mark, at + 1) != std::string_view::npos) return std::nullopt;
    return at;
  }

  // A word that occurs in no message.
  std::string NewMark() const {
    const std::string all = messages_.dump();
    for (int i = 0;; ++i) {
      std::string mark = base::Cat("mpsdmark", i, "x");
      if (all.find(mark) == std::string::npos &&
          whole_.find(mark) == std::string::npos) {
        return mark;
      }
    }
  }

  std::optional<Span> ByMark(size_t i) {
    const std::string mark = NewMark();
    RowJson marked = messages_;
    RowJson& content = marked[i]["content"];
    if (content.is_array()) {
      content = RowJson::array({{{"type", "text"}, {"text", mark}}});
    } else {
      content = mark;
    }
    const auto text = render_(marked, false);
    const auto turn = IsLast(i) ? text : render_(First(marked, i + 1), false);
    if (!text || !turn) return std::nullopt;
    const auto at = Once(*text, mark), at_in_turn = Once(*turn, mark);
    if (!at || !at_in_turn) return std::nullopt;
    std::string_view rest = std::string_view(*text).substr(*at + mark.size());
    const auto closing = BeginsWith(
        rest, std::string_view(*turn).substr(*at_in_turn + mark.size()), i);
    if (!closing) return std::nullopt;
    rest.remove_prefix(*closing);
    const auto begin = HeaderEnd(std::string_view(*text).substr(0, *at));
    if (!begin || !whole_.ends_with(rest) ||
        *begin + rest.size() > whole_.size()) {
      return std::nullopt;
    }
    return Span(*begin, whole_.size() - rest.size());
  }

  // The end of the generation prompt in `before`, the text before a mark. If
  // the prompt is not found, or a message contains it: the end of `before`, if
  // that has at least half of the prompt. nullopt if `whole_` does not begin
  // with the same text.
  std::optional<size_t> HeaderEnd(std::string_view before) {
    if (before.size() < done_) return std::nullopt;
    const std::string_view prompt = Closing().prompt;
    size_t end = before.size();
    const size_t at = before.substr(done_).rfind(prompt);
    if (at != std::string_view::npos && !IsSaid(prompt)) {
      end = done_ + at + prompt.size();
    } else {
      size_t part = prompt.size();
      while (!before.ends_with(prompt.substr(0, part))) --part;
      if (2 * part < prompt.size()) return std::nullopt;
    }
    if (!whole_.starts_with(before.substr(0, end))) return std::nullopt;
    return end;
  }

  // Whether a message's own text contains `text`.
  bool IsSaid(std::string_view text) const {
    const std::string quoted = RowJson(text).dump();
    return messages_.dump().find(quoted.substr(1, quoted.size() - 2)) !=
           std::string::npos;
  }

  bool EndTokenCloses() { return Closing().end_token; }

  // The text after all messages. `prompt` is empty if the template has no
  // generation prompt, or none that is distinguishable from the rest.
  struct Close {
    bool end_token = false;  // written instead of the prompt
    std::string prompt;
  };
  const Close& Closing() {
    if (closing_) return *closing_;
    closing_.emplace();
    const auto prompted = render_(messages_, true);
    if (!prompted) return *closing_;
    std::string_view without_end = whole_;
    if (!end_token_.empty() && without_end.ends_with(end_token_)) {
      without_end.remove_suffix(end_token_.size());
    }
    if (prompted->starts_with(whole_)) {
      closing_->prompt = prompted->substr(whole_.size());
    } else if (prompted->starts_with(without_end)) {
      closing_->end_token = true;
      closing_->prompt = prompted->substr(without_end.size());
    }
    return *closing_;
  }

  const RowJson& messages_;
  const std::string& whole_;
  const std::string_view end_token_;
  const RenderMessages& render_;
  size_t done_ = 0;  // where the assistant's message before this one ends
  std::optional<Close> closing_;
};

}  // namespace

std::optional<TextSpans> FindAssistantSpans(const RowJson& messages,
                                            const std::string& whole,
                                            std::string_view end_token,
                                            const RenderMessages& render) {
  return SpanFinder(messages, whole, end_token, render).Find();
}

namespace {

using Ids = std::vector<int32_t>;

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

// OpenAI, Mistral ("weight"), axolotl ("train", "training") and ms-swift
// ("loss") take a turn out of the loss by these, axolotl ("train_detail") parts
// of it.
absl::Status CheckInLoss(const RowJson& messages, bool assistant_only) {
  for (const RowJson& message : messages) {
    if (assistant_only && message.value("role", "") != "assistant") continue;
    for (const char* name :
         {"weight", "train", "training", "loss", "train_detail"}) {
      const auto at = message.find(name);
      if (at == message.end() || at->empty() || *at == 1 || *at == true) {
        continue;
      }
      return absl::InvalidArgumentError(base::Cat(
          "a message's \"", name, "\": expected 1, true or none, found ",
          DescribeJson(*at),
          ": mpsd cannot take single turns out of the loss; put the turns "
          "before the answer into \"prompt\" and the answer into "
          "\"completion\", or remove the turn"));
    }
  }
  return absl::OkStatus();
}

absl::Status NotExact() {
  return absl::InvalidArgumentError(
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
      parses_arguments_(chat_template != nullptr &&
                        chat_template->NeedsParsedArguments()),
      options_(options),
      tables_(tables),
      max_length_(max_length) {
  const std::optional<int32_t> end = tokenizer.eos_id();
  if (!end) return;
  const int32_t ids[] = {*end};
  end_ = tokenizer.Decode(ids, /*skip_special_tokens=*/false).value_or("");
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::Encode(LanguageRow row) const {
  if (parses_arguments_) RETURN_IF_ERROR(ParseArguments(row));
  absl::StatusOr<EncodedRow> encoded = EncodeRow(row);
  if (!encoded.ok()) return encoded;
  if (!row.rejected.is_null()) RETURN_IF_ERROR(AddRejected(row, *encoded));
  RETURN_IF_ERROR(CheckTokens(encoded->sample));
  RETURN_IF_ERROR(CheckTokens(encoded->rejected));
  return encoded;
}

absl::Status LanguageRowEncoder::CheckTokens(const TokenSample& sample) const {
  const absl::Span<const int32_t> ids = sample.input_ids;
  // Tokens that max_length cuts off reach no model.
  const size_t kept = std::min(ids.size(), static_cast<size_t>(max_length_));
  const std::string fault = TokenFault(ids.first(kept), tables_, tokenizer_);
  if (!fault.empty()) return absl::InvalidArgumentError(fault);
  return absl::OkStatus();
}

absl::Status LanguageRowEncoder::AddRejected(LanguageRow& row,
                                             EncodedRow& encoded) const {
  if (auto* chat = std::get_if<ChatCompletionRow>(&row.content)) {
    chat->completion = std::move(row.rejected);
  } else {
    std::get<CompletionRow>(row.content).completion = row.rejected;
  }
  ASSIGN_OR_RETURN(EncodedRow other, EncodeRow(row));
  const auto prompt_of = [](const std::vector<uint8_t>& in_loss) {
    return std::find(in_loss.begin(), in_loss.end(), 1) - in_loss.begin();
  };
  auto& chosen = encoded.sample.in_loss;
  auto& rejected = other.sample.in_loss;
  const auto begin = std::min(prompt_of(chosen), prompt_of(rejected));
  std::fill(chosen.begin() + begin, chosen.end(), 1);
  std::fill(rejected.begin() + begin, rejected.end(), 1);
  encoded.prompt_is_prefix = encoded.prompt_is_prefix && other.prompt_is_prefix;
  encoded.rejected = std::move(other.sample);
  return absl::OkStatus();
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
    return absl::InvalidArgumentError(
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
  RETURN_IF_ERROR(CheckInLoss(chat.messages, assistant_only()));
  ASSIGN_OR_RETURN(TokenSample sample, EncodeMessages(row, chat.messages));
  return EncodedRow{std::move(sample)};
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeChatCompletion(
    const LanguageRow& row, const ChatCompletionRow& chat) const {
  const bool completion_only = options_.completion_only_loss.value_or(true);
  if (!completion_only) {
    RETURN_IF_ERROR(CheckInLoss(chat.prompt, assistant_only()));
  }
  RETURN_IF_ERROR(CheckInLoss(chat.completion, assistant_only()));
  ASSIGN_OR_RETURN(text::Rendered prompt, Render(row, chat.prompt, true));
  ASSIGN_OR_RETURN(
      Ids prompt_tokens,
      tokenizer_.EncodeIds(prompt.text, /*add_special_tokens=*/false));
  RowJson messages = chat.prompt;
  messages.insert(messages.end(), chat.completion.begin(),
                  chat.completion.end());
  ASSIGN_OR_RETURN(TokenSample whole, EncodeMessages(row, messages));
  const bool is_prefix = MaskPrompt(prompt_tokens, completion_only, whole);
  return EncodedRow{std::move(whole), is_prefix, /*has_prompt=*/true};
}

absl::StatusOr<EncodedRow> LanguageRowEncoder::EncodeCompletion(
    const CompletionRow& row) const {
  if (assistant_only()) {
    return absl::InvalidArgumentError(
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
    return absl::InvalidArgumentError(
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
    return absl::InvalidArgumentError(
        "the model has no chat template for messages; use \"text\" or "
        "\"prompt\" and \"completion\" as strings, or a model with a chat "
        "template");
  }
  absl::StatusOr<text::Rendered> rendered = chat_template_->Render(
      messages.dump(), row.tools_json, add_generation_prompt, row.kwargs_json);
  if (rendered.ok()) return rendered;
  return absl::InvalidArgumentError(
      base::Cat("the chat template rejected it: ",
                std::string(rendered.status().message())));
}

std::string LanguageRowEncoder::WithEnd(std::string text) const {
  if (!text.ends_with(end_)) text += end_;
  return text;
}

}  // namespace mpsd::data
