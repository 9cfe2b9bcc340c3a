// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_RUN_PAGE_KEPT_POINTS_H_
#define MPSD_CORE_RUN_PAGE_KEPT_POINTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpsd::run_page {

// A step of a run with a value for each curve.
struct CurvesPoint {
  int64_t step = 0;
  std::vector<double> values;  // as many in each point; may be NaN or infinite
};

// The indices of the points, `most` at most, in whose place all can be drawn;
// `points` are in the order in which the run made them. Of each of equal
// stretches of the run the first and the last point are kept, for each curve
// the one with the least and the one with the greatest value, and the first
// that has a value which is not finite. Where a run went back to an earlier
// step, the points before and after that are kept, too, for the latest
// `most` / 8 times. All are kept where `most` suffices. `most` is at least 64.
std::vector<size_t> KeptPoints(const std::vector<CurvesPoint>& points,
                               size_t most);

}  // namespace mpsd::run_page

#endif  // MPSD_CORE_RUN_PAGE_KEPT_POINTS_H_
