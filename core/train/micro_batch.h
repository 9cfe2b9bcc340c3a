// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/data/source.h"
#include "core/spec/train_spec.h"
#include "core/train/evaluate.h"
#include "core/train/step.h"

namespace mpsd::train {

// How many rows of an optimizer step are computed at a time, and what their
// backward recomputes. The step's gradient does not depend on the choice.
struct MicroBatch {
  int64_t rows = 1;
  spec::Recompute recompute = spec::Recompute::kNone;
  bool operator==(const MicroBatch&) const = default;
};

// The measured cost of one choice.
struct MicroBatchTrial {
  MicroBatch choice;
  double step_seconds = 0;  // for all rows of a step
  int64_t peak_bytes = 0;
  // false: not run, since the estimate peak_bytes does not fit.
  bool tried = true;
  // The trial ran out of memory: it needed more than peak_bytes or than was
  // free.
  bool out_of_memory = false;
};

struct MicroBatchPlan {
  MicroBatch chosen;
  // The source of the choice. "job": job.json; "trial": the trials below, made
  // by this attempt; "resumed": the run's first attempt.
  std::string from = "job";
  std::vector<MicroBatchTrial> trials;
};

// Runs a function that may run out of memory. If it does, returns
// ResourceExhausted after the function's memory has been freed.
using Attempt = std::function<absl::Status(const std::function<void()>&)>;

struct MicroBatchSearch {
  int64_t batch = 1;     // rows of an optimizer step
  int64_t max_rows = 1;  // the most that the device computes correctly
  int64_t limit_bytes = 0;
  int64_t resident_bytes = 0;  // memory in use without a batch
  // The recomputation that the job requires; kNone leaves the choice to the
  // search.
  spec::Recompute demanded = spec::Recompute::kNone;
  bool knows_selective = false;  // false: kSelective would equal kFull
  // Estimates the bytes that a choice needs. Called before the first trial with
  // each kind of recomputation; null: every first trial runs.
  std::function<int64_t(const MicroBatch&)> estimate = nullptr;
};

// The divisors of `batch` up to `max_rows`, in ascending order; at most eight
// of them.
std::vector<int64_t> CandidateRows(int64_t batch, int64_t max_rows);

// Searches for the fastest micro-batch that fits into memory.
//
// For each kind of recomputation, beginning with none, it tries candidates from
// few rows to many. A pass over the candidates ends when the estimate or the
// previous trial predicts that the next one would not fit, when a trial runs
// out of memory, and when more rows are no longer faster. The next kind
// (selective, then full) is tried only if memory ended the pass.
//
// The fastest trial wins; of two within 3 % the one with less memory. If no
// estimate fits, the smallest candidate is still tried. An error of `measure`
// ends the search.
absl::StatusOr<MicroBatchPlan> FindMicroBatch(
    const MicroBatchSearch& search,
    const std::function<absl::StatusOr<MicroBatchTrial>(const MicroBatch&)>&
        measure);

// The plan as JSON for run.json: rows, accumulation, gradient_checkpointing,
// recompute_granularity if that is true, from, and the trials.
std::string ToJson(const MicroBatchPlan& plan, int64_t batch);

// The choice in the run.json in `folder`, if it has one for `batch`.
std::optional<MicroBatch> ReadChoiceOfRun(const std::filesystem::path& folder,
                                          int64_t batch);

// Measures what micro-batches of the data's longest rows cost, by forward and
// backward passes without an update. The run itself stays unchanged: parameters
// and optimizer are not touched, gradients are zeroed, and the destructor
// restores the generators and the network's options.
class MicroBatchTrials {
 public:
  // All arguments must outlive this object. `estimate` returns the least bytes
  // that a choice is assumed to need. Devices that count their own peak use it
  // only for trials that ran out of memory. With a null `attempt` exceptions
  // pass through.
  MicroBatchTrials(const TrainingSubject& subject, Stepper& stepper,
                   const data::Source& source, data::LoaderOptions options,
                   std::function<int64_t(const MicroBatch&)> estimate,
                   Attempt attempt = nullptr);
  ~MicroBatchTrials();
  MicroBatchTrials(const MicroBatchTrials&) = delete;
  MicroBatchTrials& operator=(const MicroBatchTrials&) = delete;

  // Bytes that the run occupies without a batch, and bytes that it may use.
  int64_t resident_bytes() const { return resident_bytes_; }
  int64_t limit_bytes() const;

  // Tries `choice` for a step of `batch` rows. Running out of memory is a
  // result, not an error; errors come from the data source.
  absl::StatusOr<MicroBatchTrial> Measure(const MicroBatch& choice,
                                          int64_t batch);

 private:
  absl::StatusOr<data::Batch> LongestRows(int64_t rows) const;
  // Fills in the trial's time and peak.
  void Run(const std::vector<data::Batch>& batches, int64_t batch,
           MicroBatchTrial& trial);
  double SecondsOf(const std::vector<data::Batch>& batches);
  int64_t HeldBytes() const;

  const TrainingSubject subject_;
  Stepper& stepper_;
  const data::Source& source_;
  const data::LoaderOptions options_;
  const std::function<int64_t(const MicroBatch&)> estimate_;
  const Attempt attempt_;
  const model::RunOptions network_options_;
  const at::Tensor cpu_generator_, device_generator_;
  int64_t resident_bytes_ = 0;
};

}  // namespace mpsd::train
