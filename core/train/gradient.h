// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_GRADIENT_H_
#define MPSD_CORE_TRAIN_GRADIENT_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/explicit_step/explicit_step.h"
#include "core/model/decoder.h"
#include "core/optim/trainable.h"

namespace mpsd::train {

class TaskPipeline;
struct BatchInputs;

inline constexpr char kExplicitStep[] = "explicit";

// Computes the gradients of one optimizer step into the parameters' .grad. The
// calls of a step are Begin, then Add for each micro-batch, then End.
class GradientPath {
 public:
  virtual ~GradientPath() = default;

  virtual void Begin() = 0;
  // Adds `scale` times the gradient of the batch's summed loss. Returns `scale`
  // times that sum, an fp32 scalar on the device, or an undefined tensor for a
  // batch without a target. `inputs` come from TaskPipeline::Inputs.
  virtual at::Tensor Add(const BatchInputs& inputs, double scale) = 0;
  virtual void End() = 0;

  // kExplicitStep or "autograd", for run.json. If the task has both ways,
  // "autograd" is followed by the reason against the explicit one: "autograd
  // (weights of the model itself are trained)".
  virtual std::string name() const = 0;

  // The attention kernels that ran. Null: the network itself counts them.
  virtual const attention::AttentionRan* attention() const { return nullptr; }
};

// Gradients by autograd over TaskPipeline::Loss: works for every task, and is
// the reference for the explicit step.
std::unique_ptr<GradientPath> MakeAutogradPath(const TaskPipeline& pipeline,
                                               optim::Trainable& trainable,
                                               std::string name = "autograd");

// Gradients of LoRA adapters by explicit_step::ExplicitStep, if
// spec::ChooseGradients has chosen it. Throws c10::Error if `trainable` trains
// any other weight of `decoder`.
std::unique_ptr<GradientPath> MakeExplicitStepPath(
    const model::Decoder& decoder, optim::Trainable& trainable,
    device::Device& device);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_GRADIENT_H_
