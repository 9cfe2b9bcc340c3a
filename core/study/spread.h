// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_SPREAD_H_
#define MPSD_CORE_STUDY_SPREAD_H_

#include <nlohmann/json.hpp>
#include <vector>

namespace mpsd::study {

// A distribution of values: the message Spread of measurement.proto.
struct Spread {
  double median = 0;
  double p10 = 0, p90 = 0;  // a tenth of the values are below, above
  double min = 0, max = 0;
};

// All 0 if there are no values. Interpolates between two values.
Spread SpreadOf(std::vector<double> values);

// The message's JSON.
nlohmann::json ToJson(const Spread& spread);

// How a sequence of values changes.

// The last relative to the first, 0.26 for 26 % more; 0 if there are fewer than
// two or the first is not positive.
double GrowthOf(const std::vector<double>& values);

// The change per value, by least squares; 0 if there are fewer than two.
double SlopeOf(const std::vector<double>& values);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_SPREAD_H_
