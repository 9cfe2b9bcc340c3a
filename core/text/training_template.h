// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TEXT_TRAINING_TEMPLATE_H_
#define MPSD_CORE_TEXT_TRAINING_TEMPLATE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace mpsd::text {

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
// TRL has the line break after "assistant" in the loss, and Qwen3's, because
// TRL renders the thinking of every turn. nullopt for every other template,
// even if one byte differs.
std::optional<std::string> TrainingTemplate(const std::string& source);

}  // namespace mpsd::text

#endif  // MPSD_CORE_TEXT_TRAINING_TEMPLATE_H_
