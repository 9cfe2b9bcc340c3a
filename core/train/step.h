// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_STEP_H_
#define MPSD_CORE_TRAIN_STEP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/batch.h"
#include "core/optim/adamw.h"
#include "core/train/evaluate.h"
#include "core/train/gradient.h"
#include "core/train/queue_limit.h"

namespace mpsd::train {

struct StepResult {
  double loss = 0;       // mean over the targets of all micro-batches
  double grad_norm = 0;  // before clipping
};

// One optimizer step over its micro-batches: the gradient of the mean loss over
// all their targets (label tokens, rows, class weights), so that how they are
// split changes nothing (transformers ≥ 4.46, Trainer.get_batch_samples);
// clipped; AdamW. Its inputs go to the device before its first kernel, in one
// copy (more where they are large: FirstUpload), and it reads back once.
class Stepper {
 public:
  // All must outlive it. `max_grad_norm` 0: no clipping.
  Stepper(const Trained& trained, optim::AdamW& optimizer,
          double max_grad_norm);

  // How gradients come about, for run.json.
  std::string gradient_path() const { return gradients_->name(); }
  model::AttentionRan attention() const;  // the kernels that ran

  // DataLoss for a loss or gradient that is not finite, or when the device lost
  // work (its canary was not written): nothing of the run can be trusted then
  // and the last checkpoint is the place to go back to.
  // Cancelled when `go_on`, which is asked between two micro-batches, says no:
  // then parameters and optimizer are as before, but random numbers were drawn.
  absl::StatusOr<StepResult> Run(const std::vector<data::Batch>& batches,
                                 double learning_rate,
                                 const std::function<bool()>& go_on = {});

  // The gradient of the mean loss, in the parameters' .grad; no update.
  // Returns the loss, a scalar on the device; undefined where `go_on` said no.
  at::Tensor AccumulateGradients(const std::vector<data::Batch>& batches,
                                 const std::function<bool()>& go_on = {});

 private:
  // Of the first of `left`, as many as go into one upload, which are taken off.
  StepInputs NextInputs(std::span<const data::Batch>& left);

  const Trained trained_;
  optim::AdamW& optimizer_;
  const std::unique_ptr<GradientPath> gradients_;
  const double max_grad_norm_;
  QueueLimit queue_;
  // What the device may be reading from until the step has been waited for.
  std::vector<at::Tensor> host_;
  at::Tensor canary_;
  int64_t runs_ = 0;
};

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_STEP_H_
