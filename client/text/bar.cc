// SPDX-License-Identifier: Apache-2.0
#include "client/text/bar.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/format.h"

namespace mpsd::client {
namespace {

constexpr int kLongestBar = 30;
constexpr int kShortestBar = 6;

constexpr int kLevels = 8;
constexpr const char* kBlocks[kLevels] = {"▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
constexpr const char* kPlain[kLevels] = {"_", ".", ":", "-",
                                         "=", "+", "*", "#"};

std::string Repeat(const char* mark, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += mark;
  return text;
}

}  // namespace

std::string Bar(int64_t done, int64_t total, const std::string& text,
                int columns, bool utf8) {
  const double share =
      total > 0 ? std::clamp(static_cast<double>(done) / total, 0.0, 1.0) : 0;
  const std::string percent =
      absl::StrFormat("%3d%% ", static_cast<int>(share * 100));
  const int room = columns - Width(percent) - 1 - Width(text);
  const int length = std::min(room, kLongestBar);
  if (length < kShortestBar) return Fitted(percent + text, columns, utf8);
  const int full = static_cast<int>(share * length);
  return absl::StrCat(percent, Repeat(utf8 ? "━" : "#", full),
                      Repeat(utf8 ? "─" : "-", length - full), " ", text);
}

std::string Sparkline(const std::vector<double>& values, int columns,
                      bool utf8) {
  const size_t shown =
      std::min(values.size(), static_cast<size_t>(std::max(columns, 0)));
  const auto begin = values.end() - static_cast<std::ptrdiff_t>(shown);
  double least = std::numeric_limits<double>::infinity();
  double greatest = -least;
  for (auto it = begin; it != values.end(); ++it) {
    if (!std::isfinite(*it)) continue;
    least = std::min(least, *it);
    greatest = std::max(greatest, *it);
  }
  std::string text;
  for (auto it = begin; it != values.end(); ++it) {
    if (!std::isfinite(*it)) {
      text += ' ';
      continue;
    }
    // Halves, because the whole range may be more than a double holds.
    const double share =
        least < greatest ? (*it / 2 - least / 2) / (greatest / 2 - least / 2)
                         : 0.5;
    const int level =
        std::clamp(static_cast<int>(std::nearbyint(share * (kLevels - 1))), 0,
                   kLevels - 1);
    text += utf8 ? kBlocks[level] : kPlain[level];
  }
  return text;
}

}  // namespace mpsd::client
