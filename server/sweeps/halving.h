// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_HALVING_H_
#define MPSD_SERVER_SWEEPS_HALVING_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/types/span.h"

// Successive halving (Jamieson, Talwalkar 2016), in plain arithmetic.
namespace mpsd::sweeps {

inline constexpr int64_t kLeastEta = 2, kMostEta = 16;
inline constexpr size_t kMostRungs = 16;

// The steps of the rungs that thin `children` out to one: each eta times the
// one before, the last about 1/eta of `total_steps`. Fewer where the steps do
// not suffice for all; empty where there is nothing to thin out.
std::vector<int64_t> RungsFor(int64_t children, int64_t eta,
                              int64_t total_steps);

// The places of the children, best first: the indexes into `metrics`. Equal
// ones stand in the order in which they were made; those that have no finite
// value come last.
std::vector<size_t> Ranked(absl::Span<const std::optional<double>> metrics,
                           bool greater_is_better);

// How many of `children` go on: 1/eta of them, at least one.
int64_t GoOn(int64_t children, int64_t eta);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_HALVING_H_
