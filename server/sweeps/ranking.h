// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_RANKING_H_
#define MPSD_SERVER_SWEEPS_RANKING_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/jobs/job.h"
#include "server/sweeps/sweep.h"

namespace mpsd::sweeps {

// The jobs of a sweep that exist, by id.
using JobsById = std::map<std::string, jobs::Job>;

// A job's latest value of what the plan ranks by; absent where it has none, or
// one that is not finite.
std::optional<double> ValueOf(const Plan& plan, const jobs::Job& job);

struct Place {
  size_t child = 0;  // an index into Sweep::children
  int64_t rank = 0;  // from 1; 0: nothing to rank by
  std::optional<double> metric;
};

// Every child once: by the rungs passed, most first, then by value; children
// without a value, and those that failed or were cancelled by somebody, last
// and without a rank.
std::vector<Place> Rank(const Sweep& sweep, const JobsById& jobs);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_RANKING_H_
