// SPDX-License-Identifier: Apache-2.0
#include "client/text/format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

// The UTF-8 character that begins at `*at`, which moves behind it.
char32_t Take(const std::string& text, size_t* at) {
  const auto lead = static_cast<unsigned char>(text[(*at)++]);
  char32_t c = lead < 0xC0   ? lead
               : lead < 0xE0 ? lead & 0x1F
               : lead < 0xF0 ? lead & 0x0F
                             : lead & 0x07;
  for (; *at < text.size() && (text[*at] & 0xC0) == 0x80; ++*at) {
    c = c << 6 | (text[*at] & 0x3F);
  }
  return c;
}

// The first and last of the characters that a terminal draws in two columns:
// East Asia's and pictures.
constexpr std::pair<char32_t, char32_t> kWide[] = {
    {0x1100, 0x115F},   {0x2E80, 0x303E},   {0x3041, 0xA4CF},
    {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},
    {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},
    {0x16FE0, 0x1B2FF}, {0x1F000, 0x1FAFF}, {0x20000, 0x3FFFD}};

int Columns(char32_t c) {
  for (const auto& [first, last] : kWide) {
    if (c >= first && c <= last) return 2;
  }
  return 1;
}

}  // namespace

std::string StateName(v1::JobState state) {
  const std::string name(v1::JobState_Name(state));
  constexpr size_t kPrefix = sizeof("JOB_STATE_") - 1;
  return name.size() > kPrefix ? name.substr(kPrefix) : "?";
}

bool IsFinal(v1::JobState state) {
  return state == v1::JOB_STATE_SUCCEEDED || state == v1::JOB_STATE_FAILED ||
         state == v1::JOB_STATE_CANCELLED;
}

std::string KindName(v1::JobKind kind) {
  if (!IsStudy(kind)) return "training";
  constexpr size_t kPrefix = sizeof("JOB_KIND_") - 1;
  const std::string name(v1::JobKind_Name(kind));
  if (name.size() <= kPrefix) return absl::StrFormat("kind %d", kind);
  return absl::StrReplaceAll(absl::AsciiStrToLower(name.substr(kPrefix)),
                             {{"_", " "}});
}

bool IsStudy(v1::JobKind kind) {
  return kind != v1::JOB_KIND_UNSPECIFIED && kind != v1::JOB_KIND_TRAINING;
}

std::string Seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  const int64_t s = std::llround(seconds);
  if (s < 60) return absl::StrFormat("%ds", s);
  if (s < 3600) return absl::StrFormat("%dm%02ds", s / 60, s % 60);
  if (s < 86400) return absl::StrFormat("%dh%02dm", s / 3600, s / 60 % 60);
  return absl::StrFormat("%dd%02dh", s / 86400, s / 3600 % 24);
}

std::string Bytes(int64_t bytes) {
  if (bytes < 1000) return absl::StrFormat("%d B", bytes);
  double value = static_cast<double>(bytes);
  const char* unit = "";
  for (const char* larger : {"kB", "MB", "GB", "TB"}) {
    if (value < 999.95) break;
    value /= 1000;
    unit = larger;
  }
  return absl::StrFormat("%.1f %s", value, unit);
}

std::string Count(double value) {
  if (!std::isfinite(value)) return "-";
  std::string digits = absl::StrFormat("%d", std::llround(std::abs(value)));
  for (int i = static_cast<int>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(i, 1, ',');
  }
  return value < 0 ? "-" + digits : digits;
}

std::string Loss(double value) { return absl::StrFormat("%.4f", value); }

absl::Time ToTime(const google::protobuf::Timestamp& time) {
  return absl::FromUnixSeconds(time.seconds()) +
         absl::Nanoseconds(time.nanos());
}

std::string DateTime(absl::Time time, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", time, zone);
}

int Width(const std::string& text) {
  int width = 0;
  for (size_t at = 0; at < text.size();) width += Columns(Take(text, &at));
  return width;
}

std::string Cut(const std::string& text, int columns) {
  if (columns <= 0) return "";
  if (Width(text) <= columns) return text;
  size_t end = 0;
  int width = 1;  // the "…"
  for (size_t at = 0; at < text.size(); end = at) {
    width += Columns(Take(text, &at));
    if (width > columns) break;
  }
  return text.substr(0, end) + "…";
}

std::string Fitted(const std::string& text, int columns, bool utf8) {
  const std::string clean = Printable(text);
  if (utf8) return Cut(clean, columns);
  std::string ascii;
  for (size_t at = 0; at < clean.size();) {
    const char32_t c = Take(clean, &at);
    ascii += c < 0x80 ? static_cast<char>(c) : '?';
  }
  return ascii.substr(0, std::max(columns, 0));
}

std::string Printable(std::string text) {
  for (char& c : text) {
    if (c == '\n' || c == '\r' || c == '\t') c = ' ';
  }
  return base::Printable(text);
}

std::string PrintableLines(const std::string& text) {
  return base::Indented(base::Printable(text, base::Breaks::kKeep));
}

}  // namespace mpsd::client
