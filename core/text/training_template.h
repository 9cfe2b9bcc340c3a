// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TEXT_TRAINING_TEMPLATE_H_
#define MPSD_CORE_TEXT_TRAINING_TEMPLATE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/types/span.h"

namespace mpsd::text {

// A part of a template that stands there exactly once, and what takes its
// place.
struct TemplateEdit {
  std::string_view from;
  std::string_view to;
};

// `source` with the edits made one after the other; nothing where `from` of one
// of them is not there, or is there more than once.
std::optional<std::string> EditTemplate(std::string source,
                                        absl::Span<const TemplateEdit> edits);

// The template that TRL trains with under assistant_only_loss in the place of a
// stock one (trl 1.16, get_training_chat_template): the same tokens, the same
// {% generation %} blocks. Only stock templates whose labels cannot be had
// from their own rendering are known: those of Qwen2.5, which has the line
// break behind "assistant" in the loss, and of Qwen3, which is rendered with
// the thinking of every turn. Nothing for all others, by a byte too.
std::optional<std::string> TrainingTemplate(const std::string& source);

}  // namespace mpsd::text

#endif  // MPSD_CORE_TEXT_TRAINING_TEMPLATE_H_
