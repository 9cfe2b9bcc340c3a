// SPDX-License-Identifier: Apache-2.0
#include "core/generate/prompt_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"

namespace mpsd::generate {

absl::StatusOr<PromptText> PromptText::Read(
    const std::string& folder, const text::TextOverrides& overrides, bool raw) {
  PromptText text;
  ASSIGN_OR_RETURN(text.tokenizer_,
                   text::Tokenizer::FromFolder(folder, overrides));
  if (raw || !text.tokenizer_->has_chat_template()) return text;
  ASSIGN_OR_RETURN(text.chat_,
                   text::ChatTemplate::FromFolder(
                       folder, text::TemplateUse::kAsIs, overrides));
  return text;
}

absl::StatusOr<Ids> PromptText::Tokens(const spec::Prompt& prompt) const {
  if (chat_ == nullptr) {
    if (prompt.messages.empty()) {
      return tokenizer_->EncodeIds(prompt.text, /*add_special_tokens=*/true);
    }
    return absl::InvalidArgumentError(
        "has messages, and there is no chat template to render them: choose a "
        "model that has one, and no --raw");
  }
  const std::string messages =
      prompt.messages.empty()
          ? nlohmann::json::array(
                {{{"role", "user"}, {"content", prompt.text}}})
                .dump()
          : prompt.messages;
  ASSIGN_OR_RETURN(const text::Rendered rendered,
                   chat_->Render(messages, /*tools_json=*/"",
                                 /*add_generation_prompt=*/true));
  return tokenizer_->EncodeIds(rendered.text, /*add_special_tokens=*/false);
}

absl::StatusOr<Ids> PromptText::Encode(const spec::Prompt& prompt,
                                       int64_t max_new_tokens,
                                       int64_t most_tokens) const {
  ASSIGN_OR_RETURN(Ids ids, Tokens(prompt));
  if (ids.empty()) return absl::InvalidArgumentError("has no token");
  const auto tokens = static_cast<int64_t>(ids.size());
  if (tokens + max_new_tokens > most_tokens) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", tokens, " tokens, with max_new_tokens, ", max_new_tokens,
        ", more than the ", most_tokens, " for which the model has positions"));
  }
  return ids;
}

absl::StatusOr<std::string> PromptText::Decode(const Ids& prompt,
                                               const Ids& answer) const {
  Ids all = prompt;
  all.insert(all.end(), answer.begin(), answer.end());
  ASSIGN_OR_RETURN(const std::string before,
                   tokenizer_->Decode(prompt, /*skip_special_tokens=*/true));
  ASSIGN_OR_RETURN(const std::string text,
                   tokenizer_->Decode(all, /*skip_special_tokens=*/true));
  if (text.starts_with(before)) return text.substr(before.size());
  return tokenizer_->Decode(answer, /*skip_special_tokens=*/true);
}

// A stop string ends within the last token (Transformers' StopStringCriteria).
std::function<bool(std::span<const int32_t>)> PromptText::Stops(
    std::vector<std::string> stops) const {
  if (stops.empty()) return nullptr;
  size_t longest = 0;
  for (const std::string& stop : stops) {
    longest = std::max(longest, stop.size());
  }
  return [this, longest,
          stops = std::move(stops)](std::span<const int32_t> ids) {
    // A token has a byte or more; some characters take several tokens.
    ids = ids.last(std::min(ids.size(), longest + 8));
    const auto before =
        tokenizer_->Decode(absl::MakeSpan(ids.data(), ids.size() - 1), false);
    const auto text =
        tokenizer_->Decode(absl::MakeSpan(ids.data(), ids.size()), false);
    if (!before.ok() || !text.ok()) return false;
    const size_t same = std::mismatch(before->begin(), before->end(),
                                      text->begin(), text->end())
                            .first -
                        before->begin();
    return std::any_of(stops.begin(), stops.end(), [&](const auto& stop) {
      const size_t found = text->rfind(stop);
      return found != text->npos && found + stop.size() > same;
    });
  };
}

}  // namespace mpsd::generate
