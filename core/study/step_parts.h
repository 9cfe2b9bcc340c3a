// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_STUDY_STEP_PARTS_H_
#define MPSD_CORE_STUDY_STEP_PARTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/train/stages.h"

namespace mpsd::study {

// Parts of a step measured separately, as the run's own steps perform them.
// Both end early after some seconds, and are Cancelled if `observer` asks for a
// stop.

struct BatchTimes {
  std::vector<double> seconds;                    // per step
  std::vector<std::vector<data::Batch>> batches;  // of some steps
};

// Makes the micro-batches of `steps` steps, starting with the next step that
// `run` would train, on the calling thread; of fewer if the first epoch, whose
// samples have not been read yet, ends before. Ends the loader's own thread.
absl::StatusOr<BatchTimes> TimeBatches(train::Prepared& run, int64_t steps,
                                       train::Observer& observer);

// Computes the loss of each step of `batches` as an evaluation does, without a
// gradient; the batches are on the device before the clock starts. Returns the
// seconds of each step.
absl::StatusOr<std::vector<double>> TimeForward(
    train::Prepared& run, const std::vector<std::vector<data::Batch>>& batches,
    train::Observer& observer);

}  // namespace mpsd::study

#endif  // MPSD_CORE_STUDY_STEP_PARTS_H_
