// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/text/folder.h"
#include "core/text/tokenizer.h"

struct mpsd_text_template;  // The Rust half, see core/text/abi.h.

namespace mpsd::text {

// The purpose that a template is loaded for.
enum class TemplateUse {
  kAsIs,
  // Labels for assistant_only_loss: a stock template without {% generation %}
  // blocks is replaced by TRL's training variant, if TRL has one (see
  // TrainingTemplate).
  kAssistantLoss,
};

// One rendered conversation.
struct Rendered {
  std::string text;
  // The half-open byte ranges of `text` that {% generation %} blocks produced,
  // in rendering order; empty if the template has none. AssistantMask
  // turns them into labels.
  std::vector<std::pair<size_t, size_t>> generation_spans;
};

// A Jinja chat template, rendered byte for byte like Transformers'
// tokenizer.apply_chat_template(tokenize=False): same environment (trim_blocks,
// lstrip_blocks, loop controls, {% generation %}), same tojson, raise_exception
// and strftime_now, same Python spelling of True, None, lists and dicts, same
// preparation of the messages (null keys are dropped; reasoning_content,
// thinking and reasoning substitute for one another). Immutable; several
// threads may render with one at the same time.
class ChatTemplate {
 public:
  // The template of a model folder, found as in Transformers 5: from
  // chat_template.jinja and additional_chat_templates/*.jinja if any of these
  // exists, else from "chat_template" of tokenizer_config.json (one template,
  // or a list of named ones). The special tokens (bos_token, …) are variables.
  // NotFound: the folder has no chat template. InvalidArgument names the file,
  // and for a syntax error the line.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromFolder(
      const std::string& dir, TemplateUse use = TemplateUse::kAsIs,
      const TextOverrides& overrides = {});

  // `tokens_json` is an object of variables for every rendering ({"bos_token":
  // "<s>"}), or empty.
  static absl::StatusOr<std::unique_ptr<ChatTemplate>> FromSource(
      std::string source, const std::string& tokens_json,
      TemplateUse use = TemplateUse::kAsIs);

  ~ChatTemplate();
  ChatTemplate(const ChatTemplate&) = delete;
  ChatTemplate& operator=(const ChatTemplate&) = delete;

  // `messages_json`: a non-empty JSON array of objects, whose key order is
  // kept. `tools_json`: a JSON array of tool schemas; empty means no tools (a
  // folder's "tool_use" template is used only with tools). `kwargs_json`: an
  // object of further variables, which override special tokens; may be empty.
  // InvalidArgument: malformed JSON, an error in the template (with its line),
  // or the message that the template raised with raise_exception.
  absl::StatusOr<Rendered> Render(std::string_view messages_json,
                                  std::string_view tools_json,
                                  bool add_generation_prompt,
                                  std::string_view kwargs_json = "") const;

  // Whether the template used without tools has {% generation %} blocks, that
  // is, marks the assistant's text.
  bool has_generation_blocks() const { return has_generation_blocks_; }

  // False if an answer's {% generation %} block ends with the answer's own
  // text: no label then teaches a model to end its turn.
  bool LabelsEndOfTurn() const;

  // Whether a call's "arguments" have to be an object: if they are a string of
  // JSON, the template quotes it once more, or fails.
  bool NeedsParsedArguments() const;

 private:
  ChatTemplate(mpsd_text_template* rust, bool has_generation_blocks)
      : rust_(rust), has_generation_blocks_(has_generation_blocks) {}

  mpsd_text_template* const rust_;  // Owned, never null.
  const bool has_generation_blocks_;
};

// The time that strftime_now shows in every template from here on. Without a
// call it is the time of the first rendering that asks for it.
void SetTemplateTime(int64_t unix_microseconds);

// Per token 1 if it overlaps a span, else 0: the `assistant_masks` that
// Transformers 5.24 returns for return_assistant_tokens_mask. `spans` are byte
// ranges of the text that was encoded, in ascending order.
std::vector<uint8_t> AssistantMask(
    const Encoding& encoding,
    absl::Span<const std::pair<size_t, size_t>> spans);

// A part of a template that occurs exactly once, and its replacement.
struct TemplateEdit {
  std::string_view from;
  std::string_view to;
};

// `source` with the edits applied in order; nullopt if an edit's `from` does
// not occur exactly once.
std::optional<std::string> EditTemplate(std::string source,
                                        absl::Span<const TemplateEdit> edits);

// The template that TRL trains with under assistant_only_loss instead of a
// stock one (trl 1.16, get_training_chat_template): the same tokens, the same
// {% generation %} blocks. Known are only stock templates whose labels
// FindAssistantSpans cannot get from their own rendering: Qwen2.5's, because
// TRL has the line break after "assistant" in the loss, those of Qwen3 and
// DeepSeek-R1-Distill, because TRL renders the thinking of every turn, and
// DeepSeek-V3's, because TRL has "<｜Assistant｜>" in the loss. nullopt for
// every other template, even if one byte differs.
std::optional<std::string> TrainingTemplate(const std::string& source);

}  // namespace mpsd::text
