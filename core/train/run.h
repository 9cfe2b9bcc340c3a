// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/device/device.h"
#include "core/report/report.h"
#include "core/spec/train_spec.h"
#include "core/train/micro_batch.h"
#include "core/train/observer.h"

namespace mpsd::train {

// The environment of a run, which is not part of its job.
struct RunContext {
  std::filesystem::path out_dir;
  // Kept between runs: model digests, tokenized data, costs of micro-batches.
  std::filesystem::path cache_dir;
  std::string mpsd_version, torch_version;
  // Environment variables that results may depend on, for run.json.
  std::map<std::string, std::string> environment;
  // Captures torch's warnings on the training thread, which name operators that
  // ran on the CPU; null: they are not counted.
  const device::WarningCapture* warnings = nullptr;
  // Runs trials of micro-batches. Null: a trial that runs out of memory ends
  // the run.
  Attempt attempt = {};
};

// If stopped, a run sets only `steps` and `seconds` of the outcome.
struct RunResult : report::Outcome {
  StopRequest stopped = StopRequest::kNone;  // kNone: the run is complete
  int64_t checkpoint_step = 0;  // step of the last checkpoint; 0: none
};

// One fine-tuning run, from job.json to an adapter or a model, on the calling
// thread. If `context.out_dir` has checkpoints of the same job, the run resumes
// after the last one, bit for bit on the CPU. A damaged checkpoint is set aside
// with a warning, and the one before it is used; without one the run starts
// over. Paths of `spec` must be absolute.
//
// Errors: InvalidArgument, NotFound, FailedPrecondition and Unimplemented are
// the user's (spec, data, model). DataLoss means that the run's numbers cannot
// be trusted. Others are the machine's. torch's exceptions pass through.
absl::StatusOr<RunResult> Run(spec::TrainSpec spec, const RunContext& context,
                              Observer& observer);

}  // namespace mpsd::train
