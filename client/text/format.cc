// SPDX-License-Identifier: Apache-2.0
#include "client/text/format.h"

#include <cmath>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/printable.h"

namespace mpsd::client {
namespace {

bool StartsCharacter(char c) { return (c & 0xC0) != 0x80; }

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
  for (char c : text) width += StartsCharacter(c);
  return width;
}

std::string Cut(const std::string& text, int columns) {
  if (columns <= 0) return "";
  if (Width(text) <= columns) return text;
  std::string cut;
  int width = 0;
  for (char c : text) {
    if (StartsCharacter(c) && ++width == columns) break;
    cut += c;
  }
  return cut + "…";
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
