// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_PLANNER_FACTS_H_
#define MPSD_SERVER_PLANNER_FACTS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "server/planner/past_runs.h"

namespace mpsd::planner {

// What `mpsd-worker --plan` cannot find out by itself, and what is absent
// nobody can tell (core/plan/facts.h reads it).
struct Facts {
  std::vector<std::string> read_roots;  // as of wire::Start
  std::string device;                   // "mps"; "": no worker has told yet
  std::string chip;                     // "Apple M2 Max"
  int gpu_cores = 0, cpu_cores = 0;
  int64_t memory_bytes = 0;        // of the machine
  int64_t memory_limit_bytes = 0;  // that the job's device may hold
  std::optional<int64_t> disk_free_bytes;
  std::map<std::string, double> thresholds;
  std::optional<Pace> pace;
  std::string probe_json;  // v1::ProbeResult; "": none
};

// The facts as one JSON object; what is not known is left out. A `probe_json`
// that is no object is left out, too.
std::string Encode(const Facts& facts);

}  // namespace mpsd::planner

#endif  // MPSD_SERVER_PLANNER_FACTS_H_
