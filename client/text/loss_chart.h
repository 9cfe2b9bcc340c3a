// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TEXT_LOSS_CHART_H_
#define MPSD_CLIENT_TEXT_LOSS_CHART_H_

#include <cstdint>
#include <string>
#include <vector>

namespace mpsd::client {

struct LossPoint {
  int64_t step = 0;
  double loss = 0;
};

// Draws losses by step in exactly `rows` lines of at most `columns` columns
// (but at least 5 and 20): `title`, a legend where there are both kinds and 10
// rows, the steps as a line of Braille dots, evaluations as "◆" over it, axes
// with their ends. Without UTF-8 it is ASCII. Steps rise. However many there
// are, the least and the greatest loss of each column are drawn. A loss that is
// not finite is left out, and the line is broken there.
std::vector<std::string> DrawLosses(const std::string& title,
                                    const std::vector<LossPoint>& steps,
                                    const std::vector<LossPoint>& evaluations,
                                    int columns, int rows, bool utf8);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TEXT_LOSS_CHART_H_
