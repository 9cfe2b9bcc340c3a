// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_SPREAD_H_
#define MPSD_CORE_STUDY_SPREAD_H_

#include <nlohmann/json.hpp>
#include <vector>

namespace mpsd::study {

// What values of one kind are like: the message Spread of measurement.proto.
struct Spread {
  double median = 0;
  double p10 = 0, p90 = 0;  // a tenth of the values lies below, above
  double min = 0, max = 0;
};

// All 0 where there are no values. Between two values it interpolates.
Spread SpreadOf(std::vector<double> values);

// The message's JSON.
nlohmann::json ToJson(const Spread& spread);

// How values that were taken one after the other change.

// The last against the first, 0.26 for 26 % more; 0 where there are fewer than
// two or the first is not positive.
double GrowthOf(const std::vector<double>& values);

// What one more value adds, by least squares; 0 where there are fewer than two.
double SlopeOf(const std::vector<double>& values);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_SPREAD_H_
