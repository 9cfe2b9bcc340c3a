// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/utf8.h"

#include <cstddef>

namespace mpsd::supervisor {
namespace {

// Bytes of the UTF-8 character at `i`, 0 where there is none.
size_t CharacterLength(const std::string& text, size_t i) {
  const auto byte = [&](size_t k) {
    return static_cast<unsigned char>(text[k]);
  };
  const unsigned char lead = byte(i);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || i + length > text.size()) return 0;
  for (size_t k = 1; k < length; ++k) {
    if ((byte(i + k) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and what lies beyond U+10FFFF.
  const bool bad = (lead == 0xE0 && byte(i + 1) < 0xA0) ||
                   (lead == 0xED && byte(i + 1) >= 0xA0) ||
                   (lead == 0xF0 && byte(i + 1) < 0x90) ||
                   (lead == 0xF4 && byte(i + 1) >= 0x90);
  return bad ? 0 : length;
}

}  // namespace

std::string AsUtf8(const std::string& bytes) {
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    const size_t length = CharacterLength(bytes, i);
    if (length == 0 || bytes[i] == '\0') {
      text += '?';
      ++i;
    } else {
      text.append(bytes, i, length);
      i += length;
    }
  }
  return text;
}

}  // namespace mpsd::supervisor
