// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_AGAINST_H_
#define MPSD_CLIENT_AGAINST_H_

#include <string>

#include "absl/status/status.h"
#include "mpsd/v1/parity.pb.h"

namespace mpsd::client {

// Fills in what `mpsctl parity --against` names: "cpu", "cuda" or "mps"; or a
// file with
//   a result of parity      as `mpsctl parity --json` prints it, or result.json
//   losses of mpsd          metrics.jsonl, with eval.jsonl beside it
//   losses of Transformers  trainer_state.json, its log_history alone, or a
//                           JSON object a line with "step" and "loss"
// and `steps`, where that is 0: as many as the other result has; of losses 10,
// or up to the first that was written. `metric`: the job's
// metric_for_best_model, whose last value within these steps is taken along.
// What the request has no room for is left out, from the end.
//
// Errors name the file, and the line where there is one.
absl::Status SetAgainst(const std::string& against, const std::string& metric,
                        v1::ParityOptions* options);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_AGAINST_H_
