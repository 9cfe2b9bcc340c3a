// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_ASSISTANT_SPANS_H_
#define MPSD_CORE_DATA_ASSISTANT_SPANS_H_

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/data/language_row.h"

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
// core/text/training_template.h.
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

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ASSISTANT_SPANS_H_
