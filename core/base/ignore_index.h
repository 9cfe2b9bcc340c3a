// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace mpsd::base {

// The label of a token that the loss ignores: the default ignore_index of
// torch's cross entropy, which Transformers and TRL also write into labels.
inline constexpr int64_t kIgnoreIndex = -100;

}  // namespace mpsd::base
