// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SWEEPS_CHILD_SPECS_H_
#define MPSD_SERVER_SWEEPS_CHILD_SPECS_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/jobs/sweep_children.h"
#include "server/sweeps/sweep.h"

namespace mpsd::sweeps {

// Bounds of all children together, whose requests are held in memory, with a
// link to each uploaded file, until all of them are queued.
inline constexpr size_t kSweepSpecBytes = 64 << 20;  // their spec_json
inline constexpr size_t kSweepInputs = 1'000'000;    // their uploaded files

// The jobs that a sweep is to make, with its plan as it is carried out.
struct Children {
  std::string name;  // the spec's
  Plan plan;         // with its rungs and its metric
  std::vector<std::vector<std::string>> values;  // JSON, of each child
  std::vector<jobs::ChildRequest> requests;      // in the same order
};

// Makes the children of `request` by `plan`, whose rungs and metric may be
// empty, and whose greater_is_better does not count without
// `greater_is_better`. Each child is named and labelled after its values, has
// the whole schedule, and, where there are rungs, an evaluation and a
// checkpoint at each of them: training.eval_steps and save_steps stay where
// every rung is a multiple of them, and become the rungs' greatest common
// divisor elsewhere. InvalidArgument names what cannot be, or what is too much.
absl::StatusOr<Children> MakeChildren(const jobs::SubmitRequest& request,
                                      Plan plan,
                                      std::optional<bool> greater_is_better);

}  // namespace mpsd::sweeps

#endif  // MPSD_SERVER_SWEEPS_CHILD_SPECS_H_
