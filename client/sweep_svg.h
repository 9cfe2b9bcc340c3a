// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SWEEP_SVG_H_
#define MPSD_CLIENT_SWEEP_SVG_H_

#include <string>

#include "mpsd/v1/sweep.pb.h"

namespace mpsd::client {

// The sweep as parallel coordinates: an upright axis for each parameter and one
// for the metric, and a line for each child through its values, the best one
// drawn heavily and above the others. An axis of numbers is linear, or
// logarithmic where they reach over more than a power of ten; other values
// stand at equal distances. An SVG element without scripts and without anything
// from elsewhere; texts are escaped.
std::string SweepSvg(const v1::Sweep& sweep);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_SWEEP_SVG_H_
