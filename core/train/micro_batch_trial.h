// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_MICRO_BATCH_TRIAL_H_
#define MPSD_CORE_TRAIN_MICRO_BATCH_TRIAL_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

#include "absl/status/statusor.h"
#include "core/data/loader.h"
#include "core/data/source.h"
#include "core/train/evaluate.h"
#include "core/train/micro_batch.h"
#include "core/train/step.h"

namespace mpsd::train {

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

#endif  // MPSD_CORE_TRAIN_MICRO_BATCH_TRIAL_H_
