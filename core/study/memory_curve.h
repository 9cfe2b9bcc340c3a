// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_MEMORY_CURVE_H_
#define MPSD_CORE_STUDY_MEMORY_CURVE_H_

#include <vector>

namespace mpsd::study {

// How values that were taken one after the other change; without a device.

// The last against the first, 0.26 for 26 % more; 0 where there are fewer than
// two or the first is not positive.
double GrowthOf(const std::vector<double>& values);

// What one more value adds, by least squares; 0 where there are fewer than two.
double SlopeOf(const std::vector<double>& values);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_MEMORY_CURVE_H_
