// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_TRAIN_GRADIENT_H_
#define MPSD_CORE_TRAIN_GRADIENT_H_

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>

#include "core/device/device.h"
#include "core/fast/fast_step.h"
#include "core/model/decoder.h"
#include "core/optim/trainable.h"

namespace mpsd::train {

class Task;
struct BatchInputs;

inline constexpr char kExplicitPath[] = "explicit";

// How the gradients of one optimizer step come about, in the parameters' .grad:
// Begin, Add for each micro-batch, End.
class GradientPath {
 public:
  virtual ~GradientPath() = default;

  virtual void Begin() = 0;
  // Adds `scale` times the gradient of the batch's summed loss; returns `scale`
  // times that sum, an fp32 scalar on the device, or an undefined tensor for a
  // batch without a target. `inputs` are of Task::Inputs.
  virtual at::Tensor Add(const BatchInputs& inputs, double scale) = 0;
  virtual void End() = 0;

  // kExplicitPath, or "autograd"; where both exist with why the first is not
  // it: "autograd (weights of the model itself are trained)". For run.json.
  virtual std::string name() const = 0;

  // The attention kernels that ran; null: those of the network itself.
  virtual const model::AttentionRan* attention() const { return nullptr; }
};

// By autograd over Task::Loss: of every task, the reference.
std::unique_ptr<GradientPath> MakeAutogradPath(const Task& task,
                                               optim::Trainable& trainable,
                                               std::string name = "autograd");

// By fast::FastStep: of adapters alone, as spec::ChooseGradients says. Throws
// c10::Error where `trainable` trains anything else of `decoder`.
std::unique_ptr<GradientPath> MakeExplicitPath(const model::Decoder& decoder,
                                               optim::Trainable& trainable,
                                               device::Device& device);

}  // namespace mpsd::train

#endif  // MPSD_CORE_TRAIN_GRADIENT_H_
