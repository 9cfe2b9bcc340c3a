// SPDX-License-Identifier: Apache-2.0
#include "core/train/gradient.h"

#include <ATen/ATen.h>

#include <utility>
#include <vector>

#include "core/device/block_mark.h"
#include "core/train/inputs.h"
#include "core/train/task_pipeline.h"

namespace mpsd::train {
namespace {

class AutogradPath : public GradientPath {
 public:
  AutogradPath(const TaskPipeline& pipeline, optim::Trainable& trainable,
               std::string name)
      : pipeline_(pipeline), trainable_(trainable), name_(std::move(name)) {}

  void Begin() override { trainable_.parameters().ZeroGradients(); }

  at::Tensor Add(const BatchInputs& inputs, double scale) override {
    const BatchLoss loss = pipeline_.Loss(inputs);
    if (!loss.sum.defined()) return {};
    const at::Tensor part = loss.sum * scale;
    const profile::BlockMark mark("mpsd::backward");
    part.backward();
    return part.detach();
  }

  void End() override {}

  std::string name() const override { return name_; }

 private:
  const TaskPipeline& pipeline_;
  optim::Trainable& trainable_;
  const std::string name_;
};

class ExplicitStepPath : public GradientPath {
 public:
  ExplicitStepPath(std::unique_ptr<explicit_step::ExplicitStep> step,
                   const model::Decoder& decoder, device::Device& device)
      : step_(std::move(step)), decoder_(decoder) {
    if (!device.traits().encodes_lazily) return;
    step_->set_commit([&device] { device.Commit(); });
  }

  void Begin() override {
    step_->set_recompute(decoder_.options().recompute);
    step_->Begin();
  }

  at::Tensor Add(const BatchInputs& inputs, double scale) override {
    if (inputs.labels.count == 0) return {};
    return step_->Add(inputs.decoder, inputs.labels, scale).mul_(scale);
  }

  void End() override { step_->End(); }

  std::string name() const override { return kExplicitStep; }
  const attention::AttentionRan* attention() const override {
    return &step_->attention();
  }

 private:
  const std::unique_ptr<explicit_step::ExplicitStep> step_;
  const model::Decoder& decoder_;
};

explicit_step::Options OptionsFor(const model::Decoder& decoder,
                                  const device::Device& device) {
  explicit_step::Options options;
  options.dtype = decoder.dtype();
  options.traits = device.traits();
  return options;
}

}  // namespace

std::unique_ptr<GradientPath> MakeAutogradPath(const TaskPipeline& pipeline,
                                               optim::Trainable& trainable,
                                               std::string name) {
  return std::make_unique<AutogradPath>(pipeline, trainable, std::move(name));
}

std::unique_ptr<GradientPath> MakeExplicitStepPath(
    const model::Decoder& decoder, optim::Trainable& trainable,
    device::Device& device) {
  std::vector<at::Tensor> trained;
  for (const optim::Parameter& p : trainable.parameters().parameters()) {
    trained.push_back(p.value);
  }
  auto step = explicit_step::ExplicitStep::Create(decoder, trained,
                                                  OptionsFor(decoder, device));
  TORCH_CHECK(step.ok(), "ChooseGradients said otherwise: ",
              std::string(step.status().message()));
  return std::make_unique<ExplicitStepPath>(*std::move(step), decoder, device);
}

}  // namespace mpsd::train
