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

#include "core/data/row.h"

namespace mpsd::data {

// Half-open byte ranges.
using TextSpans = std::vector<std::pair<size_t, size_t>>;

// Renders messages, with the generation prompt or without; nothing where the
// template refuses them.
using RenderMessages = std::function<std::optional<std::string>(
    const RowJson& messages, bool add_generation_prompt)>;

// What the assistant's messages made of `whole`, the rendering of `messages`
// by a template without {% generation %} blocks: for each of them what stands
// behind the generation prompt, up to where the next message begins, the text
// that ends a turn included. These are the blocks of TRL's training templates
// (trl 1.16) but for those of core/text/training_template.h.
//
// A turn is found, in this order:
//  - between the rendering of the messages before it with the generation
//    prompt and that of the messages up to it, where `whole` begins with both;
//  - around a mark in the place of its content: for templates that render a
//    turn differently once others follow (thinking that is dropped), or that
//    cannot render the beginning of a conversation.
// `end_token` (or empty) may stand behind the last message alone, as in Phi's.
//
// Nothing where that does not tell exactly which bytes are the assistant's.
std::optional<TextSpans> FindAssistantSpans(const RowJson& messages,
                                            const std::string& whole,
                                            std::string_view end_token,
                                            const RenderMessages& render);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_ASSISTANT_SPANS_H_
