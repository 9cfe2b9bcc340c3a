// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/generate/generator.h"
#include "core/spec/generation.h"
#include "core/text/chat_template.h"
#include "core/text/folder.h"
#include "core/text/tokenizer.h"

namespace mpsd::generate {

using Ids = std::vector<int32_t>;

// Prompts and answers as text, by a model folder's tokenizer.
class PromptText {
 public:
  // `raw`: without the chat template, if the folder has one. Errors as
  // text::Tokenizer's and text::ChatTemplate's.
  static absl::StatusOr<PromptText> Read(const std::string& folder,
                                         const text::TextOverrides& overrides,
                                         bool raw);

  // InvalidArgument says what is wrong with the prompt ("has no token"), also
  // if it and `max_new_tokens` have more than `most_tokens`.
  absl::StatusOr<Ids> Encode(const spec::Prompt& prompt, int64_t max_new_tokens,
                             int64_t most_tokens) const;
  // The answer's part of the text: alone it might lack its first space.
  absl::StatusOr<std::string> Decode(const Ids& prompt,
                                     const Ids& answer) const;
  // The function for Generation::ends_with_stop; null without `stops`. It uses
  // this object, which must outlive it.
  std::function<bool(std::span<const int32_t>)> Stops(
      std::vector<std::string> stops) const;
  // Adds the tokenizer's end, as Transformers' Trainer does
  // (align_special_tokens): chats often end a turn with it.
  void AddEnd(std::vector<int64_t>& eos) const {
    if (const auto id = tokenizer_->eos_id()) eos.push_back(*id);
  }

 private:
  absl::StatusOr<Ids> Tokens(const spec::Prompt& prompt) const;

  std::unique_ptr<text::Tokenizer> tokenizer_;
  std::unique_ptr<text::ChatTemplate> chat_;  // null: prompts are raw
};

}  // namespace mpsd::generate
