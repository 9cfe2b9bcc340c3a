// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/host/traits.h"
#include "core/plan/epoch.h"
#include "core/plan/step_time.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

// What a job needs, and the nearest jobs that need less.
namespace mpsd::plan {

// The rows of a job's data sets; null: the job has no such set.
struct JobRows {
  const CountedRows* train = nullptr;
  const CountedRows* eval = nullptr;
  const CountedRows* predict = nullptr;
};

struct MemoryNeed {
  // For micro-batches of the data's longest rows; total_bytes is the peak.
  spec::MemoryEstimate parts;
  // The same if rows have max_length.
  int64_t bytes_at_max_length = 0;
  int64_t longest_row = 0;  // tokens of training, padding included
};

// The device's memory at its peak, by spec::EstimateMemory. `spec` has the
// micro-batch in per_device_train_batch_size.
MemoryNeed MemoryOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                    const backend::Traits& traits, const JobRows& rows);

// The rows of a micro-batch: the job's own, or, if the trainer is to find them
// (auto_find_batch_size), the most that the estimate allows within
// `limit_bytes` (0: unknown), with the least recomputation that fits. Unlike
// the trainer, a plan cannot try which of them is fastest.
spec::TrainSpec WithMicroBatch(spec::TrainSpec spec,
                               const spec::ModelConfig& model,
                               const backend::Traits& traits,
                               const JobRows& rows, int64_t limit_bytes);

struct DiskNeed {
  int64_t checkpoint_bytes = 0;
  int64_t checkpoints_kept = 0;  // at a time, including the one being written
  int64_t result_bytes = 0;
  int64_t total_bytes() const {
    return checkpoint_bytes * checkpoints_kept + result_bytes;
  }
};

// The checkpoints that a run writes.
struct CheckpointCount {
  int64_t saved = 0;  // by save_steps, and at the end
  // Others, at most: one for each evaluation that may be the best.
  int64_t bests = 0;
};
CheckpointCount CountCheckpoints(const spec::TrainingSpec& training,
                                 int64_t total_steps, int64_t eval_steps);

DiskNeed DiskOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                const CheckpointCount& checkpoints);

// The most alternatives of a plan.
inline constexpr size_t kMostAlternatives = 10;

// A job that differs from another in a few fields and fits into memory.
struct Alternative {
  nlohmann::json patch;              // of job.json: a JSON merge patch
  std::vector<std::string> changes;  // human-readable
  std::string note;                  // costs other than time; may be empty
  int64_t memory_bytes = 0;
  std::optional<double> seconds_per_step, train_seconds;
};

// A job that does not fit, with its plan's figures.
struct UnfitJob {
  const spec::TrainSpec& spec;  // with its micro-batch
  const spec::ModelConfig& model;
  const backend::Traits& traits;
  const JobRows& rows;
  const StepTimes& times;
  double epochs;  // that the job trains, as a fraction
};

// The nearest jobs that need at most `limit_bytes`: first those with the fewest
// changes, where one that changes results (a shorter max_length, quantisation)
// counts as two; of these the fastest. Each has, for its kind of change, the
// value nearest to the job's own: the largest micro-batch, with the
// accumulation that keeps the batch; the least recomputation; the largest
// max_length.
std::vector<Alternative> FindAlternatives(const UnfitJob& job,
                                          int64_t limit_bytes);

}  // namespace mpsd::plan
