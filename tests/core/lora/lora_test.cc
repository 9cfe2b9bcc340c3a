// SPDX-License-Identifier: Apache-2.0
// Structure; the numbers are held against PEFT in tests/core/parity.
#include "core/lora/lora.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/lora/peft_folder.h"
#include "tests/core/golden_model.h"

namespace mpsd::lora {
namespace {

using testing_support::LoadGolden;

spec::LoraSpec Spec(std::vector<std::string> targets) {
  spec::LoraSpec spec;
  spec.r = 4;
  spec.lora_alpha = 8;
  spec.target_modules = std::move(targets);
  return spec;
}

model::DecoderInputs Inputs() {
  at::manual_seed(1);
  return {
      at::randint(96, {1, 6}, at::kLong), at::arange(6).unsqueeze(0), {}, {}};
}

TEST(LoraTest, AFreshAdapterChangesNothing) {
  auto model = LoadGolden("llama2");
  at::NoGradGuard no_grad;
  const at::Tensor before = model->Logits(Inputs());
  auto adapter = *Adapter::Attach(*model, Spec({"q_proj", "v_proj"}), at::kCPU);
  EXPECT_TRUE(at::equal(model->Logits(Inputs()), before));
  adapter->parameters().groups()[0].values.add_(0.1);
  EXPECT_FALSE(at::allclose(model->Logits(Inputs()), before));
  adapter.reset();
  EXPECT_TRUE(at::equal(model->Logits(Inputs()), before));
}

TEST(LoraTest, InitialisesWithinPeftsBoundsFromTheSeed) {
  auto model = LoadGolden("llama2");
  auto draw = [&](uint64_t seed) {
    at::manual_seed(seed);
    auto adapter = *Adapter::Attach(*model, Spec({"q_proj"}), at::kCPU);
    for (const auto& p : adapter->parameters().parameters()) {
      if (p.name.find("lora_B") != std::string::npos) {
        EXPECT_EQ(p.value.abs().max().item<float>(), 0) << p.name;
      } else {
        const double bound = 1 / std::sqrt(32.0);
        EXPECT_LE(p.value.abs().max().item<float>(), bound);
        EXPECT_GT(p.value.abs().max().item<float>(), 0.8 * bound);
      }
    }
    return adapter->parameters().groups()[0].values.clone();
  };
  const at::Tensor first = draw(3);
  EXPECT_TRUE(at::equal(first, draw(3)));
  EXPECT_FALSE(at::equal(first, draw(4)));
}

TEST(LoraTest, OnlyTheAdapterGetsGradients) {
  auto model = LoadGolden("llama2");
  auto adapter = *Adapter::Attach(*model, Spec({"down_proj"}), at::kCPU);
  model->Logits(Inputs()).square().mean().backward();
  for (const auto& weight : model->NamedWeights()) {
    EXPECT_FALSE(weight.tensor->grad().defined()) << weight.name;
  }
  EXPECT_GT(
      adapter->parameters().groups()[0].gradients.abs().sum().item<float>(), 0);
}

TEST(LoraTest, DropoutActsWhileTrainingOnly) {
  auto model = LoadGolden("llama2");
  spec::LoraSpec spec = Spec({"q_proj"});
  spec.lora_dropout = 0.5;
  auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  at::NoGradGuard no_grad;
  adapter->parameters().groups()[0].values.add_(0.1);
  const model::DecoderInputs inputs = Inputs();
  EXPECT_TRUE(at::equal(model->Logits(inputs), model->Logits(inputs)));
  adapter->set_training(true);
  EXPECT_FALSE(at::equal(model->Logits(inputs), model->Logits(inputs)));
}

TEST(LoraTest, ModulesToSaveAreTrainedInFull) {
  auto model = LoadGolden("llama3");  // tied embeddings
  spec::LoraSpec spec = Spec({"q_proj"});
  spec.modules_to_save = {"lm_head"};
  auto adapter = *Adapter::Attach(*model, spec, at::kCPU);
  const optim::Parameter* head =
      adapter->parameters().Find("base_model.model.lm_head.weight");
  ASSERT_NE(head, nullptr);
  EXPECT_TRUE(model->head().weight.is_same(head->value));
  // The embedding it was tied to stays frozen.
  EXPECT_FALSE(model->NamedWeights()[0].tensor->requires_grad());
}

TEST(LoraTest, AnUnmatchedTargetListsTheModules) {
  auto model = LoadGolden("llama2");
  const absl::Status target =
      Adapter::Attach(*model, Spec({"q_porj"}), at::kCPU).status();
  EXPECT_EQ(target.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(target.message()),
              testing::AllOf(testing::HasSubstr("q_porj"),
                             testing::HasSubstr("q_proj")));
  spec::LoraSpec spec = Spec({"q_proj"});
  spec.modules_to_save = {"score"};
  EXPECT_THAT(
      std::string(Adapter::Attach(*model, spec, at::kCPU).status().message()),
      testing::HasSubstr("score"));
}

// PEFT cannot load "all-linear" beside a head of several linears.
TEST(AdapterTest, AllLinearOfAClassifierIsWrittenByName) {
  const auto folder = testing_support::FreshFolder("lora_written");
  auto model = testing_support::LoadGolden("smollm");
  spec::LoraSpec spec;
  spec.target_modules = spec::LoraSpec::AllLinear{};
  for (const char* task_type : {"CAUSAL_LM", "SEQ_CLS", ""}) {
    auto adapter =
        *Adapter::Attach(*model, spec, at::kCPU, {"base", task_type});
    ASSERT_TRUE(adapter->SaveResult(folder).ok());
    auto read = *ReadPeftConfig(folder);
    const bool by_name =
        std::holds_alternative<std::vector<std::string>>(read.target_modules);
    EXPECT_EQ(by_name, std::string(task_type) != "CAUSAL_LM") << task_type;
  }
}

}  // namespace
}  // namespace mpsd::lora
