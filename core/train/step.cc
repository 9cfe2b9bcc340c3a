// SPDX-License-Identifier: Apache-2.0
#include "core/train/step.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "core/device/platform.h"
#include "core/model/head_loss.h"
#include "core/train/inputs.h"

namespace mpsd::train {
namespace {

int64_t LabelTokens(const std::vector<data::Batch>& batches) {
  int64_t count = 0;
  for (const data::Batch& batch : batches) count += batch.label_tokens;
  return count;
}

at::Tensor SumLoss(const model::Decoder& model, const ModelInputs& inputs) {
  return model::SumCrossEntropy(model.Hidden(inputs.decoder), model.head(),
                                inputs.labels);
}

}  // namespace

Stepper::Stepper(model::Decoder& model, lora::Adapter& adapter,
                 optim::AdamW& optimizer, device::Device& device,
                 double max_grad_norm)
    : model_(model),
      adapter_(adapter),
      optimizer_(optimizer),
      device_(device),
      max_grad_norm_(max_grad_norm),
      canary_(
          at::zeros({}, at::device(device.torch_device()).dtype(at::kFloat))) {}

at::Tensor Stepper::AccumulateGradients(
    const std::vector<data::Batch>& batches) {
  const double total = std::max<int64_t>(1, LabelTokens(batches));
  adapter_.set_training(true);
  adapter_.parameters().ZeroGradients();
  at::Tensor loss = at::zeros_like(canary_);
  for (const data::Batch& batch : batches) {
    const ModelInputs inputs = MakeInputs(batch, device_.torch_device());
    if (inputs.labels.count == 0) continue;
    const at::Tensor part = SumLoss(model_, inputs) * (1.0 / total);
    part.backward();
    loss.add_(part.detach());
    device_.Commit();
  }
  return loss;
}

absl::StatusOr<StepResult> Stepper::Run(const std::vector<data::Batch>& batches,
                                        double learning_rate) {
  const device::StepScope scope;
  const at::Tensor loss = AccumulateGradients(batches);
  at::NoGradGuard no_grad;
  const at::Tensor norm = optimizer_.GradientNorm();
  if (max_grad_norm_ > 0) optimizer_.Clip(norm, max_grad_norm_);
  optimizer_.Step(learning_rate);
  const float mark = static_cast<float>(++runs_ % (1 << 20));
  canary_.fill_(mark);
  // The one synchronisation of the step.
  const at::Tensor host = at::stack({loss, norm, canary_}).to(at::kCPU);
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
  return StepResult{values[0], values[1]};
}

absl::StatusOr<EvalResult> Evaluate(const model::Decoder& model,
                                    lora::Adapter& adapter,
                                    device::Device& device,
                                    const data::EvalLoader& batches,
                                    const std::function<bool(double)>& go_on) {
  at::NoGradGuard no_grad;
  adapter.set_training(false);
  // Sums are added in double on the host: MPS has no double, and a float
  // loses digits over a long evaluation.
  double sum = 0;
  int64_t labels = 0;
  for (int64_t i = 0; i < batches.count(); ++i) {
    if (!go_on(static_cast<double>(i) / batches.count())) {
      return absl::CancelledError("evaluation stopped");
    }
    const auto batch = batches.Load(i);
    if (!batch.ok()) return batch.status();
    labels += batch->label_tokens;
    const device::StepScope scope;
    const ModelInputs inputs = MakeInputs(*batch, device.torch_device());
    if (inputs.labels.count == 0) continue;
    sum += SumLoss(model, inputs).to(at::kCPU).item<float>();
  }
  const double loss = sum / std::max<int64_t>(1, labels);
  if (!std::isfinite(loss)) {
    return absl::DataLossError("the evaluation loss is not finite");
  }
  return EvalResult{loss, labels};
}

}  // namespace mpsd::train
