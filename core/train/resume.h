// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ckpt/checkpoint.h"
#include "core/data/loader.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/train/fingerprint.h"
#include "core/train/stages.h"

namespace mpsd::train {

// What a job's checkpoints must agree with.
struct JobIdentity {
  Digests model_sha256;     // of all files of the model folder
  std::string fingerprint;  // see fingerprint.h
};

// Waits for the digests of the model, which take long if they are not cached:
// so a run without checkpoints calls this during its first step, and one that
// has a checkpoint before reading that.
absl::StatusOr<JobIdentity> IdentifyJob(const Loaded& loaded);

// What the run reads; `digests` are those of the model folder's files.
absl::StatusOr<RunInputs> InputsOf(const Loaded& loaded,
                                   const Digests& digests);

// Where a run begins.
struct StartingPoint {
  ckpt::TrainerState state;  // state.step 0: the run starts over
  JobIdentity identity;      // empty if the folder has no checkpoint
  // Checkpoints that were set aside.
  std::vector<std::filesystem::path> gone;
};

// Restores trainable, optimizer, generators, `loader` and `schedule` from the
// newest checkpoint of the run's folder, with `total_steps` steps in all. A
// checkpoint damaged by a failing disk costs the steps since the one before it,
// not the run: it is renamed, with a warning that says why (if it cannot be
// renamed, the warning says that too). FailedPrecondition for checkpoints of
// another job.
absl::StatusOr<StartingPoint> Resume(const Loaded& loaded, int64_t total_steps,
                                     optim::AdamW& optimizer,
                                     data::Prefetcher& loader,
                                     optim::Schedule& schedule);

}  // namespace mpsd::train
