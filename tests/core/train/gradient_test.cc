// SPDX-License-Identifier: Apache-2.0
#include "core/train/gradient.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/core/train/lm_parts.h"

namespace mpsd::train {
namespace {

class GradientTest : public LmParts {
 protected:
  // The sum of both batches' losses, a quarter of whose gradient is taken.
  double Run(GradientPath& path) {
    path.Begin();
    const std::vector<data::Batch> batches = {MakeBatch({9, 3}, 9),
                                              MakeBatch({5}, 8, 4)};
    double loss = 0;
    for (const BatchInputs& inputs :
         pipeline_.Inputs(batches, *device_).batches) {
      loss += path.Add(inputs, 0.25).item<double>();
    }
    path.End();
    return loss;
  }
  at::Tensor Gradients() {
    return adapter_->parameters().groups()[0].gradients.clone();
  }
};

TEST_F(GradientTest, TheExplicitPathIsThatOfAutograd) {
  const auto autograd = MakeAutogradPath(pipeline_, *adapter_);
  const double expected_loss = Run(*autograd);
  const at::Tensor expected = Gradients();
  const auto path = pipeline_.MakeGradientPath(*adapter_, *device_);
  EXPECT_EQ(path->name(), "explicit");
  EXPECT_NEAR(Run(*path), expected_loss, 1e-5 * expected_loss);
  EXPECT_LE((Gradients() - expected).norm().item<double>(),
            1e-5 * expected.norm().item<double>());
}

TEST_F(GradientTest, ABatchWithoutATargetAddsNothing) {
  for (const bool explicit_path : {false, true}) {
    const auto path = explicit_path
                          ? pipeline_.MakeGradientPath(*adapter_, *device_)
                          : MakeAutogradPath(pipeline_, *adapter_);
    path->Begin();
    const data::Batch batch = MakeBatch({1}, 8);
    const StepInputs inputs = pipeline_.Inputs({&batch, 1}, *device_);
    EXPECT_FALSE(path->Add(inputs.batches[0], 1).defined());
    path->End();
    EXPECT_EQ(Gradients().abs().max().item<float>(), 0);
  }
}

TEST_F(GradientTest, AJobMayAskForAutograd) {
  spec_.gradients = spec::Gradients::kAutograd;
  EXPECT_EQ(pipeline_.MakeGradientPath(*adapter_, *device_)->name(),
            "autograd");
}

TEST_F(GradientTest, SaysWhyItIsNotExplicit) {
  adapter_.reset();
  spec::LoraSpec& lora = spec_.lora;
  lora.target_modules = std::vector<std::string>{"q_proj"};
  lora.modules_to_save = {"lm_head"};
  adapter_ = *lora::Adapter::Attach(*network_, lora, at::kCPU);
  EXPECT_EQ(pipeline_.MakeGradientPath(*adapter_, *device_)->name(),
            "autograd (weights of the model itself are trained)");
  EXPECT_THROW(
      MakeExplicitStepPath(static_cast<const model::Decoder&>(*network_),
                           *adapter_, *device_),
      c10::Error);
}

}  // namespace
}  // namespace mpsd::train
