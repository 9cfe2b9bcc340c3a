// SPDX-License-Identifier: Apache-2.0
#include "client/plot/sparkline.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace mpsd::client {
namespace {

constexpr int kLevels = 8;
constexpr const char* kBlocks[kLevels] = {"▁", "▂", "▃", "▄",
                                          "▅", "▆", "▇", "█"};
constexpr const char* kPlain[kLevels] = {"_", ".", ":", "-",
                                         "=", "+", "*", "#"};

}  // namespace

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
