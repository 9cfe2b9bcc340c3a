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

// Runs what may need more memory than there is: ResourceExhausted where it did,
// and what it held is free again.
using Attempt = std::function<absl::Status(const std::function<void()>&)>;

// Runs forward and backward of micro-batches of the data's longest rows to see
// what they cost. Nothing of the run changes: parameters and optimizer are not
// touched; gradients are zeroed, and generators and the network's options are
// put back when it is destroyed.
class MicroBatchTrials {
 public:
  // All must outlive it. `estimate` is the least that a choice is taken to
  // need, bytes; of devices that count their peak only what ran out of memory
  // is. Null `attempt`: exceptions pass through.
  MicroBatchTrials(const Trained& trained, Stepper& stepper,
                   const data::Source& source, data::LoaderOptions options,
                   std::function<int64_t(const MicroBatch&)> estimate,
                   Attempt attempt = nullptr);
  ~MicroBatchTrials();
  MicroBatchTrials(const MicroBatchTrials&) = delete;
  MicroBatchTrials& operator=(const MicroBatchTrials&) = delete;

  // Bytes held without a batch, and those that may be held.
  int64_t resident_bytes() const { return resident_bytes_; }
  int64_t limit_bytes() const;

  // For a step of `batch` rows. To run out of memory is a result; an error is
  // the source's.
  absl::StatusOr<MicroBatchTrial> Measure(const MicroBatch& choice,
                                          int64_t batch);

 private:
  absl::StatusOr<data::Batch> LongestRows(int64_t rows) const;
  // Fills in time and peak.
  void Run(const std::vector<data::Batch>& batches, int64_t batch,
           MicroBatchTrial& trial);
  double SecondsOf(const std::vector<data::Batch>& batches);
  int64_t Held() const;

  const Trained trained_;
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
