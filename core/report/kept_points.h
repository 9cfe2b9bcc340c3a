// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_REPORT_KEPT_POINTS_H_
#define MPSD_CORE_REPORT_KEPT_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsd::run_page {

// A step of a run with a value per curve.
struct CurvesPoint {
  int64_t step = 0;
  std::vector<double> values;  // one per curve; may be NaN or infinite
};

// Selects at most `most` points that represent all of them when drawn, and
// returns their indices; `points` are in the order in which the run made them.
// Keeps from each of equal stretches of the run the first and the last point,
// for each curve the points with the least and the greatest value, and the
// first with a non-finite value. If a run went back to an earlier step, also
// keeps the points before and after that, for the latest `most` / 8 times.
// Keeps all points if `most` suffices. `most` must be at least 64.
std::vector<size_t> KeptPoints(const std::vector<CurvesPoint>& points,
                               size_t most);

}  // namespace mpsd::run_page

#endif  // MPSD_CORE_REPORT_KEPT_POINTS_H_
