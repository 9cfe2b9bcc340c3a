// SPDX-License-Identifier: Apache-2.0
#include "core/base/printable.h"

#include <cstdint>
#include <cstdio>

#include "core/base/limits.h"
#include "core/base/utf8.h"

namespace mpsd::base {
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

}  // namespace mpsd::base
