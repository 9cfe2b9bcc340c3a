// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_UTF8_H_
#define MPSD_CORE_BASE_UTF8_H_

#include <cstddef>
#include <string_view>

namespace mpsd::base {

// Bytes of the UTF-8 character at the beginning of `text`, which must not be
// empty; 0 if they are not well-formed (Unicode 15, table 3-7).
size_t CharacterLength(std::string_view text);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_UTF8_H_
