// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TEXT_ASSISTANT_MASK_H_
#define MPSD_CORE_TEXT_ASSISTANT_MASK_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "core/text/tokenizer.h"

namespace mpsd::text {

// Per token 1 if a span covers it, else 0: the `assistant_masks` that
// Transformers returns for return_assistant_tokens_mask. A span reaches from
// the first token that contains the span's first byte to the first token that
// contains its last byte, or to the text's end if no token does. If no token
// contains the first byte, this span and all later ones are ignored. `spans`
// are byte ranges of the text that was encoded.
std::vector<uint8_t> AssistantMask(
    const Encoding& encoding,
    absl::Span<const std::pair<size_t, size_t>> spans);

}  // namespace mpsd::text

#endif  // MPSD_CORE_TEXT_ASSISTANT_MASK_H_
