// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_MICRO_BATCH_H_
#define MPSD_CORE_TRAIN_MICRO_BATCH_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/spec/recompute.h"

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

// The plan in the run.json in `folder`, if it has one for `batch`.
std::optional<MicroBatchPlan> ReadPlanOfRun(const std::filesystem::path& folder,
                                            int64_t batch);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_MICRO_BATCH_H_
