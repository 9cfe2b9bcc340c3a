// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_RESUME_H_
#define MPSD_CORE_TRAIN_RESUME_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ckpt/trainer_state.h"
#include "core/data/prefetch.h"
#include "core/optim/adamw.h"
#include "core/optim/schedule.h"
#include "core/train/model_digests.h"
#include "core/train/stages.h"

namespace mpsd::train {

// What a job's checkpoints must agree with.
struct JobIdentity {
  Digests model_sha256;     // of all files of the model folder
  std::string fingerprint;  // see fingerprint.h
};

// Waits for the digests of the model, which take long where they are not in the
// cache: so a run without checkpoints asks beside its first step, and one that
// has a checkpoint before it reads that.
absl::StatusOr<JobIdentity> IdentifyJob(const Loaded& loaded);

// Where a run begins.
struct StartingPoint {
  ckpt::TrainerState state;  // state.step 0: the run starts over
  JobIdentity identity;      // empty where the folder holds no checkpoint
  // Checkpoints that were set aside.
  std::vector<std::filesystem::path> gone;
};

// Puts trainable, optimizer, generators, `loader` and `schedule` to where the
// newest checkpoint of the run's folder left them, with `total_steps` steps in
// all. A checkpoint that a failing disk has spoilt costs the steps since the
// one before it, not the run: it is renamed, with a warning that says why (one
// that cannot be renamed stays, and the warning says that too).
// FailedPrecondition for checkpoints of another job.
absl::StatusOr<StartingPoint> Resume(const Loaded& loaded, int64_t total_steps,
                                     optim::AdamW& optimizer,
                                     data::Prefetcher& loader,
                                     optim::Schedule& schedule);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_RESUME_H_
