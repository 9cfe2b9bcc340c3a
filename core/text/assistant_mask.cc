// SPDX-License-Identifier: Apache-2.0
#include "core/text/assistant_mask.h"

#include <algorithm>
#include <optional>

namespace mpsd::text {
namespace {

std::optional<size_t> TokenAt(const Encoding& encoding, size_t byte) {
  const auto it = std::find_if(
      encoding.offsets.begin(), encoding.offsets.end(),
      [byte](const auto& o) { return o.first <= byte && byte < o.second; });
  if (it == encoding.offsets.end()) return std::nullopt;
  return it - encoding.offsets.begin();
}

}  // namespace

std::vector<uint8_t> AssistantMask(
    const Encoding& encoding,
    absl::Span<const std::pair<size_t, size_t>> spans) {
  std::vector<uint8_t> mask(encoding.ids.size(), 0);
  for (const auto& [begin, end] : spans) {
    const std::optional<size_t> first = TokenAt(encoding, begin);
    if (!first.has_value()) break;
    // Transformers tests the token's index for truth, so index 0 counts as no
    // token; the masks must be equal.
    std::optional<size_t> last;
    if (end > 0) last = TokenAt(encoding, end - 1);
    const size_t stop = last.value_or(0) > 0 ? *last + 1 : mask.size();
    for (size_t i = *first; i < stop; ++i) mask[i] = 1;
  }
  return mask;
}

}  // namespace mpsd::text
