// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/data/batch.h"
#include "core/device/device.h"
#include "core/optim/adamw.h"
#include "core/train/evaluate.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {

// Keeps the host at most one micro-batch ahead of the device or, if
// micro-batches are short, as many as take kAhead. A GPU lets the host queue a
// whole step within a second and then computes for minutes: without the limit
// the host would count unfinished work as done, and a stop would wait for all
// of it. Waiting so rarely costs no measurable time. Used only by the training
// thread.
class QueueLimit {
 public:
  static constexpr absl::Duration kAhead = absl::Seconds(2);

  // `device` and `clock` must outlive this object.
  explicit QueueLimit(device::Device& device,
                      const base::Clock& clock = base::Clock::Real())
      : device_(device), clock_(clock) {}

  // A step begins; the queue is empty.
  void Begin();
  // The host has queued a micro-batch and is about to queue another one. May
  // wait for the device.
  void Queued();
  // The caller has waited for the device, and so for the step's last
  // micro-batch.
  void Done();

 private:
  // Measures the time a micro-batch takes, now that the device is idle.
  void Note();

  device::Device& device_;
  const base::Clock& clock_;
  absl::Duration since_;  // monotonic time when the device was last idle
  int64_t queued_ = 0;    // micro-batches queued since `since_`
  // Time of one micro-batch, as last measured.
  absl::Duration micro_batch_ = absl::InfiniteDuration();
};

struct StepResult {
  double loss = 0;               // mean over all targets of the step
  double grad_norm = 0;          // L2, before clipping
  metrics::Values metrics = {};  // of tasks whose steps have some
};

// Runs optimizer steps. A step computes the gradient of the mean loss over the
// targets (label tokens, rows, class weights) of all its micro-batches, so that
// the split into micro-batches changes nothing (transformers ≥ 4.46,
// Trainer.get_batch_samples); clips it; and lets AdamW update. A step copies
// its inputs to the device before its first kernel, in one upload (more if they
// are large: FirstUpload), and reads back once, at its end.
class Stepper {
 public:
  // `subject` and `optimizer` must outlive it. `max_grad_norm` 0: no clipping.
  Stepper(const TrainingSubject& subject, optim::AdamW& optimizer,
          double max_grad_norm);

  // GradientPath::name, for run.json.
  std::string gradient_path() const { return gradients_->name(); }
  attention::AttentionRan attention() const;  // kernels that ran

  // Runs one step.
  //
  // DataLoss for a loss or gradient that is not finite, and if the device lost
  // work (the canary was not written): nothing in memory can be trusted then,
  // and the caller must go back to the last checkpoint.
  //
  // Cancelled if `go_on`, called between two micro-batches, returns false:
  // parameters and optimizer are unchanged, but random numbers were drawn.
  absl::StatusOr<StepResult> Run(const std::vector<data::Batch>& batches,
                                 double learning_rate,
                                 const std::function<bool()>& go_on = {});

  // Computes the gradient of the mean loss into the parameters' .grad, without
  // an update. Returns the loss, a scalar on the device, or an undefined tensor
  // if `go_on` returned false.
  at::Tensor AccumulateGradients(const std::vector<data::Batch>& batches,
                                 const std::function<bool()>& go_on = {});

 private:
  // The inputs of as many of the first of `left` as one upload takes; removes
  // them from `left`.
  StepInputs NextInputs(std::span<const data::Batch>& left);

  const TrainingSubject subject_;
  optim::AdamW& optimizer_;
  const std::unique_ptr<GradientPath> gradients_;
  const double max_grad_norm_;
  QueueLimit queue_;
  // Host memory that the device may still be copying from: kept until the step
  // has waited for the device.
  std::vector<at::Tensor> host_;
  // A number that each step writes on the device after its update and reads
  // back. If a device drops queued work without an error, an old number
  // remains.
  at::Tensor canary_;
  // Counts steps; the source of the canary's numbers.
  int64_t runs_ = 0;
};

}  // namespace mpsd::train
