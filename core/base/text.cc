// SPDX-License-Identifier: Apache-2.0
#include "core/base/text.h"

#include <cstdint>
#include <cstdio>
#include <utility>

namespace mpsd::base {

size_t CharacterLength(std::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  const unsigned low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

namespace {

constexpr std::string_view kEllipsis = "…";
constexpr std::string_view kIndent = "    ";

struct Character {
  uint32_t code = 0;
  size_t length = 0;  // bytes; 0: not valid UTF-8
};

Character First(std::string_view text) {
  const size_t length = CharacterLength(text);
  if (length == 0) return {};
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  if (length == 1) return {byte(0), 1};
  uint32_t code = byte(0) & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) code = code << 6 | (byte(i) & 0x3F);
  return {code, length};
}

bool IsHarmful(uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x061C ||
         code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) ||
         (code >= 0x2066 && code <= 0x2069);
}

bool IsKept(const Character& c, Breaks breaks) {
  if (c.length == 0) return false;
  if (c.code == '\n' || c.code == '\t') return breaks == Breaks::kKeep;
  return !IsHarmful(c.code);
}

// Unicode's spaces, marks without a width, selectors, and blank letters.
bool IsInvisible(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> kRanges[] = {
      {9, 13},          {' ', ' '},       {0xA0, 0xA0},      {0xAD, 0xAD},
      {0x34F, 0x34F},   {0x115F, 0x1160}, {0x1680, 0x1680},  {0x17B4, 0x17B5},
      {0x180B, 0x180F}, {0x2000, 0x200F}, {0x2028, 0x202F},  {0x205F, 0x206F},
      {0x2800, 0x2800}, {0x3000, 0x3000}, {0x3164, 0x3164},  {0xFE00, 0xFE0F},
      {0xFEFF, 0xFEFF}, {0xFFA0, 0xFFA0}, {0xE0000, 0xE0FFF}};
  for (const auto& [first, last] : kRanges) {
    if (code >= first && code <= last) return true;
  }
  return false;
}

std::string Escape(const Character& c, char byte) {
  if (c.code == '\n') return "\\n";
  if (c.code == '\r') return "\\r";
  if (c.code == '\t') return "\\t";
  char text[12];
  if (c.length <= 1) {
    std::snprintf(text, sizeof text, "\\x%02x", static_cast<uint8_t>(byte));
  } else {
    std::snprintf(text, sizeof text, "\\u%04x", static_cast<unsigned>(c.code));
  }
  return text;
}

}  // namespace

std::string Printable(std::string_view text, Breaks breaks) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const Character c = First(text);
    const size_t length = c.length == 0 ? 1 : c.length;
    if (IsKept(c, breaks)) {
      clean.append(text.substr(0, length));
    } else {
      clean += Escape(c, text[0]);
    }
    text.remove_prefix(length);
  }
  return clean;
}

bool IsPrintable(std::string_view text, Breaks breaks) {
  while (!text.empty()) {
    const Character c = First(text);
    if (!IsKept(c, breaks)) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

bool IsBlank(std::string_view text) {
  while (!text.empty()) {
    const Character c = First(text);
    if (c.length == 0 || !IsInvisible(c.code)) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

std::string Shortened(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes - kEllipsis.size();
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;
  return std::string(text.substr(0, end)).append(kEllipsis);
}

std::string Quotable(std::string_view text) {
  // Bytes beyond this cannot be part of the result; the cut spares a pass over
  // a long text.
  const std::string begin = Shortened(text, 4 * limits::kQuotedBytes);
  return Shortened(Printable(begin), limits::kQuotedBytes);
}

std::string Indented(std::string_view text) {
  std::string lines;
  for (const char c : text) {
    lines += c;
    if (c == '\n') lines += kIndent;
  }
  return lines;
}

bool NestsTooDeep(std::string_view json, int levels) {
  int depth = 0;
  bool in_string = false;
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > levels) return true;
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

}  // namespace mpsd::base
