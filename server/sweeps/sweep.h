// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_SWEEP_H_
#define MPSD_SERVER_SWEEPS_SWEEP_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "server/sweeps/parameter.h"

namespace mpsd::sweeps {

// The numbers are those of v1.SweepStrategy, and are stored.
enum class Strategy { kGrid = 1, kRandom = 2 };

// How a sweep makes its children and thins them out; fixed when it is made.
struct Plan {
  Strategy strategy = Strategy::kGrid;
  std::vector<Parameter> parameters;
  int64_t count = 0;  // of kRandom
  int64_t seed = 0;
  int64_t eta = 0;  // 0: every child runs to its end
  std::vector<int64_t> rungs;
  std::string metric;  // "loss", "train_loss", or a metric of the task
  bool greater_is_better = false;
};

struct Child {
  std::string job_id;
  std::vector<std::string> values;  // JSON, in the order of Plan::parameters
  // How many rungs it has passed: it runs until the step of rungs[rung], or,
  // past the last one, to its end.
  int64_t rung = 0;
  // What the decision that it did not pass found, and says to people; "" while
  // it takes part.
  std::string out;
  std::optional<double> metric;  // as of the latest decision about it
  // Whether its job is to be cancelled for that. A job that ended by itself,
  // and that a person queues again, runs to its end.
  bool drop = false;
};

// Many jobs as one. What is stored is the plan and what was decided; all else
// is asked of the jobs, so that a kill at any point loses nothing.
struct Sweep {
  std::string id;
  std::string name, owner;
  absl::Time create_time;
  Plan plan;
  int64_t rung = 0;  // rungs that are decided
  std::string idempotency_key, request_hash;
  std::vector<Child> children;  // in the order in which they were made
};

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_SWEEP_H_
