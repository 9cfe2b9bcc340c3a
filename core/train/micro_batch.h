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

// InvalidArgument where a micro-batch of that many rows and tokens in each of
// them, padding included, has more than `most` (device::Traits::max_sum): says
// what to lower.
absl::Status CheckTokens(int64_t rows, int64_t row_tokens, int64_t most);

// How the rows of an optimizer step are computed: so many at a time. Whatever
// is chosen, the step's gradient is the same.
struct MicroBatch {
  int64_t rows = 1;
  spec::Recompute recompute = spec::Recompute::kNone;
  bool operator==(const MicroBatch&) const = default;
};

// What a micro-batch was found to cost.
struct MicroBatchTrial {
  MicroBatch choice;
  double step_seconds = 0;  // of all rows of a step
  int64_t peak_bytes = 0;
  bool tried = true;  // false: it would not fit, peak_bytes is an estimate
  // It was tried, and needed more than peak_bytes or than was free.
  bool out_of_memory = false;
};

struct MicroBatchPlan {
  MicroBatch chosen;
  // "job": as the job says; "trial": the trials below, made now; "cache": made
  // by an earlier run on this machine; "resumed": what the run began with.
  std::string from = "job";
  std::vector<MicroBatchTrial> trials;
};

struct MicroBatchSearch {
  int64_t batch = 1;     // rows of a step
  int64_t max_rows = 1;  // that the device computes rightly at once
  int64_t limit_bytes = 0;
  int64_t resident_bytes = 0;  // held without any batch
  // What the job demands; kNone: the search chooses.
  spec::Recompute demanded = spec::Recompute::kNone;
  bool knows_selective = false;  // otherwise it would be the same as full
  // What a choice is expected to need, asked before the first trial of a kind;
  // null: it is tried.
  std::function<int64_t(const MicroBatch&)> estimate = nullptr;
};

// The divisors of `batch` up to `max_rows`, ascending, eight at most.
std::vector<int64_t> CandidateRows(int64_t batch, int64_t max_rows);

// Tries candidates from few rows to many, without checkpointing and, where
// memory ended that, with selective and then with full; stops where the
// estimate or what came before says that the next would not fit, where it ran
// out of memory, or where more rows have ceased to be faster. The fastest one
// is chosen; of two within 3 % the one with less memory. Where no estimate fits
// the least is tried all the same. `measure` may fail: its error ends the
// search.
absl::StatusOr<MicroBatchPlan> FindMicroBatch(
    const MicroBatchSearch& search,
    const std::function<absl::StatusOr<MicroBatchTrial>(const MicroBatch&)>&
        measure);

// As JSON, for run.json: rows, accumulation, gradient_checkpointing,
// recompute_granularity where that is true, from, and the trials.
std::string ToJson(const MicroBatchPlan& plan, int64_t batch);
// Nothing where `json` is no plan for that batch.
std::optional<MicroBatchPlan> ParseMicroBatchPlan(const std::string& json,
                                                  int64_t batch);

// "micro_batch" of the run.json in `folder`.
std::optional<MicroBatchPlan> ReadPlanOfRun(const std::filesystem::path& folder,
                                            int64_t batch);

// Plans by key in one file, replaced as a whole; what cannot be read is empty.
std::optional<MicroBatchPlan> FindCachedPlan(const std::filesystem::path& file,
                                             const std::string& key,
                                             int64_t batch);
absl::Status CachePlan(const std::filesystem::path& file,
                       const std::string& key, const MicroBatchPlan& plan,
                       int64_t batch);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_MICRO_BATCH_H_
