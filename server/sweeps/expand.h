// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_EXPAND_H_
#define MPSD_SERVER_SWEEPS_EXPAND_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/sweeps/sweep.h"

namespace mpsd::sweeps {

// The most bytes that the values of all children have, as JSON: whoever shows
// the sweep shows them.
inline constexpr size_t kChildrenBytes = 1 << 20;

// The values of each child, as JSON in the order of the parameters: of a grid
// every combination, the last parameter's values varying fastest; at random
// `count` combinations, no two alike, the same for the same seed on every
// machine. InvalidArgument as CheckParameters, for more than limits::kSweepJobs
// children, for children whose values are too long together, and for fewer
// combinations than `count`.
absl::StatusOr<std::vector<std::vector<std::string>>> Expand(const Plan& plan);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_EXPAND_H_
