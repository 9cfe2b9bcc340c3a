// SPDX-License-Identifier: Apache-2.0
#include "core/base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace mpsd::base {
namespace {

// By arithmetic: the shortest form of a code point that is no surrogate.
size_t Expected(uint32_t code) {
  if (code >= 0xD800 && code <= 0xDFFF) return 0;
  if (code > 0x10FFFF) return 0;
  return code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
}

std::string Encoded(uint32_t code, size_t length) {
  if (length == 1) return std::string(1, static_cast<char>(code));
  std::string bytes(length, '\0');
  for (size_t i = length; i-- > 1; code >>= 6) {
    bytes[i] = static_cast<char>(0x80 | (code & 0x3F));
  }
  const unsigned mark = 0xF00u >> length;
  bytes[0] = static_cast<char>((mark & 0xFF) | code);
  return bytes;
}

TEST(CharacterLength, EveryCodePointInEveryLength) {
  for (uint32_t code = 0; code < 0x120000; ++code) {
    for (size_t length = 1; length <= 4; ++length) {
      const uint32_t end = length == 1   ? 0x80
                           : length == 2 ? 0x800
                           : length == 3 ? 0x10000
                                         : 0x200000;
      if (code >= end) continue;
      const size_t expected = Expected(code) == length ? length : 0;
      ASSERT_EQ(CharacterLength(Encoded(code, length) + "x"), expected)
          << code << " in " << length;
    }
  }
}

TEST(CharacterLength, WhatIsCutShortIsNone) {
  for (const char* whole : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x98\x80"}) {
    std::string bytes = whole;
    EXPECT_EQ(CharacterLength(bytes), bytes.size());
    while (bytes.size() > 1) {
      bytes.pop_back();
      EXPECT_EQ(CharacterLength(bytes), 0u);
    }
  }
  EXPECT_EQ(CharacterLength("\x80"), 0u);
  EXPECT_EQ(CharacterLength("\xFF"), 0u);
}

}  // namespace
}  // namespace mpsd::base
