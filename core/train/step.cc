// SPDX-License-Identifier: Apache-2.0
#include "core/train/step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>
#include <optional>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/device/block_mark.h"

namespace mpsd::train {

void QueueLimit::Begin() {
  since_ = clock_.Monotonic();
  queued_ = 0;
}

void QueueLimit::Queued() {
  ++queued_;
  // micro_batch_ starts as infinite, so that the first call of a run waits, and
  // measures.
  if (queued_ * micro_batch_ < kAhead) return;
  device_.Synchronize();
  Note();
}

void QueueLimit::Done() {
  // The step's last micro-batch: no Queued follows it.
  ++queued_;
  Note();
}

void QueueLimit::Note() {
  base::CheckLess(0, queued_, "micro-batches since Begin");
  micro_batch_ = (clock_.Monotonic() - since_) / queued_;
  Begin();
}

namespace {

double LossWeight(const std::vector<data::Batch>& batches) {
  double weight = 0;
  for (const data::Batch& batch : batches) weight += batch.loss_weight;
  return weight > 0 ? weight : 1;
}

}  // namespace

Stepper::Stepper(const TrainingSubject& subject, optim::AdamW& optimizer,
                 double max_grad_norm)
    : subject_(subject),
      optimizer_(optimizer),
      gradients_(
          subject.pipeline.MakeGradientPath(subject.trainable, subject.device)),
      max_grad_norm_(max_grad_norm),
      queue_(subject.device),
      canary_(at::zeros(
          {}, at::device(subject.device.torch_device()).dtype(at::kFloat))) {
  if (!subject.device.traits().encodes_lazily) return;
  // Gradients by autograd commit within the network; the explicit step commits
  // itself.
  subject.network.set_commit([&device = subject.device] { device.Commit(); });
}

attention::AttentionRan Stepper::attention() const {
  if (const auto* own = gradients_->attention()) return *own;
  const auto& ran = subject_.network.attention_ran(/*training=*/true);
  return {ran, ran};  // autograd's backward is its forward's
}

at::Tensor Stepper::AccumulateGradients(const std::vector<data::Batch>& batches,
                                        const std::function<bool()>& go_on) {
  base::Check(!batches.empty(), "a step has micro-batches");
  const double total = LossWeight(batches);
  subject_.trainable.set_training(true);
  subject_.network.set_training(true);
  if (!host_.empty()) {  // left by an earlier step that was not waited for
    subject_.device.Synchronize();
    host_.clear();
  }
  std::span<const data::Batch> left = batches;
  StepInputs inputs = NextInputs(left);
  // The first upload goes to the device before the first kernel; in most steps
  // it is the only one.
  gradients_->Begin();
  at::Tensor loss = at::zeros_like(canary_);
  queue_.Begin();
  bool first = true;
  while (!inputs.batches.empty()) {
    for (const BatchInputs& batch : inputs.batches) {
      if (!first) {
        queue_.Queued();
        base::CountWork();
        if (go_on && !go_on()) return {};
      }
      first = false;
      // Each batch adds its sum divided by all targets of the step, not by its
      // own: the split into micro-batches changes nothing.
      const at::Tensor part = gradients_->Add(batch, 1.0 / total);
      if (!part.defined()) continue;
      loss.add_(part);
      subject_.device.Commit();
    }
    inputs = NextInputs(left);
  }
  gradients_->End();
  return loss;
}

StepInputs Stepper::NextInputs(std::span<const data::Batch>& left) {
  const profile::BlockMark mark("mpsd::upload");
  const std::span<const data::Batch> next = FirstUpload(left);
  base::Check(left.empty() == next.empty(), "an upload has a batch");
  left = left.subspan(next.size());
  StepInputs inputs = subject_.pipeline.Inputs(next, subject_.device);
  host_.insert(host_.end(), inputs.host.begin(), inputs.host.end());
  return inputs;
}

absl::StatusOr<StepResult> Stepper::Run(const std::vector<data::Batch>& batches,
                                        double learning_rate,
                                        const std::function<bool()>& go_on) {
  const device::StepScope scope;
  const at::Tensor loss = AccumulateGradients(batches, go_on);
  if (!loss.defined()) return absl::CancelledError("stopped within a step");
  at::NoGradGuard no_grad;
  std::optional<profile::BlockMark> update("mpsd::optimizer");
  const at::Tensor norm = optimizer_.GradientNorm();
  if (max_grad_norm_ > 0) optimizer_.Clip(norm, max_grad_norm_);
  optimizer_.Step(learning_rate);
  update.reset();
  // The canary is queued after the update: once its number has arrived, the
  // work before it is done. The numbers stay below 2^20, which fp32 holds
  // exactly, and differ from step to step.
  const float mark = static_cast<float>(++runs_ % (1 << 20));
  canary_.fill_(mark);
  // Loss, norm, canary and metrics in one copy: the only read-back of the step.
  std::optional<profile::BlockMark> read_back("mpsd::read back");
  at::Tensor read = at::stack({loss, norm, canary_});
  const at::Tensor metrics = gradients_->metrics();
  if (metrics.defined()) read = at::cat({read, metrics});
  const at::Tensor host = read.to(at::kCPU);
  read_back.reset();
  queue_.Done();
  host_.clear();
  const float* values = host.const_data_ptr<float>();
  if (values[2] != mark) {
    return absl::DataLossError(
        "the device dropped work without an error (its canary was not "
        "written): out of memory or a GPU reset");
  }
  if (!std::isfinite(values[0]) || !std::isfinite(values[1])) {
    return absl::DataLossError(absl::StrCat(
        "not finite: loss ", values[0], ", gradient norm ", values[1],
        "; lower training.learning_rate or check the data"));
  }
  StepResult result{values[0], values[1]};
  if (metrics.defined()) {
    const float* value = values + 3;
    for (const std::string& name : subject_.pipeline.MetricNames()) {
      result.metrics.emplace_back(name, *value++);
    }
  }
  return result;
}

}  // namespace mpsd::train
