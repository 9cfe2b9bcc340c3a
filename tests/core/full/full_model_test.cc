// SPDX-License-Identifier: Apache-2.0
#include "core/full/full_model.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/file.h"
#include "core/model/head_loss.h"
#include "nlohmann/json.hpp"
#include "tests/core/golden_model.h"

namespace mpsd::full {
namespace {

namespace fs = std::filesystem;
using testing_support::Golden;
using testing_support::LoadGolden;

std::unique_ptr<FullModel> Attach(model::Network& network,
                                  const std::string& name) {
  FullModel::Options options;
  options.model_folder = Golden(name, "model");
  auto full = FullModel::Attach(network, options, at::kCPU);
  EXPECT_TRUE(full.ok()) << full.status();
  return *std::move(full);
}

at::Tensor Logits(model::Decoder& model) {
  at::NoGradGuard no_grad;
  const at::Tensor ids = at::arange(3, 15).view({2, 6});
  return model.Logits({ids, at::arange(6).expand({2, 6}), {}});
}

TEST(FullModelTest, EveryWeightIsAParameterAndATiedOneIsOne) {
  auto tied = LoadGolden("smollm");
  ASSERT_TRUE(tied->config().tie_word_embeddings);
  auto full = Attach(*tied, "smollm");
  EXPECT_EQ(full->parameters().element_count(),
            spec::ParameterCount(tied->config()));
  EXPECT_NE(full->parameters().Find("model.embed_tokens.weight"), nullptr);
  EXPECT_EQ(full->parameters().Find("lm_head.weight"), nullptr);
  EXPECT_TRUE(tied->head().weight.is_same(
      full->parameters().Find("model.embed_tokens.weight")->value));
  auto untied = LoadGolden("llama2");
  EXPECT_EQ(Attach(*untied, "llama2")->parameters().element_count(),
            spec::ParameterCount(untied->config()));
}

TEST(FullModelTest, AttachingChangesNoOutput) {
  auto model = LoadGolden("qwen3");
  const at::Tensor before = Logits(*model);
  const auto full = Attach(*model, "qwen3");
  EXPECT_TRUE(at::equal(Logits(*model), before));
}

TEST(FullModelTest, ACheckpointComesBackBitForBit) {
  const fs::path folder = testing_support::FreshFolder("full_checkpoint");
  auto model = LoadGolden("smollm");
  auto full = Attach(*model, "smollm");
  at::NoGradGuard no_grad;
  for (const auto& group : full->parameters().groups()) {
    at::Tensor values = group.values;
    values.add_(at::randn_like(values) * 0.01);
  }
  const at::Tensor before = Logits(*model);
  ASSERT_TRUE(full->SaveCheckpoint(folder).ok());
  auto again = LoadGolden("smollm");
  auto other = Attach(*again, "smollm");
  const absl::Status s = other->LoadCheckpoint(folder);
  ASSERT_TRUE(s.ok()) << s;
  EXPECT_TRUE(at::equal(Logits(*again), before));
}

TEST(FullModelTest, AnotherModelsCheckpointIsRefused) {
  const fs::path folder = testing_support::FreshFolder("full_other");
  auto model = LoadGolden("llama2");
  ASSERT_TRUE(Attach(*model, "llama2")->SaveCheckpoint(folder).ok());
  auto other = LoadGolden("qwen2");
  EXPECT_FALSE(Attach(*other, "qwen2")->LoadCheckpoint(folder).ok());
}

TEST(FullModelTest, TheResultIsAModelFolder) {
  const fs::path folder = testing_support::FreshFolder("full_result");
  auto model = LoadGolden("smollm");
  auto full = Attach(*model, "smollm");
  const absl::Status s = full->SaveResult(folder);
  ASSERT_TRUE(s.ok()) << s;
  const auto config =
      nlohmann::json::parse(*base::ReadFile(folder / "config.json"));
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_TRUE(fs::exists(folder / "tokenizer.json"));
  auto weights = *tensorfile::Weights::Open(folder);
  EXPECT_FALSE(weights->Contains("lm_head.weight"));  // tied
  auto read = model::Decoder::Load({weights.get()},
                                   *spec::ReadModelConfig(folder.string()));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(at::equal(Logits(**read), Logits(*model)));
}

// Gradients of all weights by bf16 activations arrive in fp32 masters.
TEST(FullModelTest, Bf16ComputesInBf16AndTrainsInFp32) {
  const std::string folder = Golden("llama2", "model").string();
  auto weights = *tensorfile::Weights::Open(folder);
  model::WeightSource source{weights.get(), at::kCPU, at::kBFloat16};
  auto model = *model::Decoder::Load(source, *spec::ReadModelConfig(folder));
  auto full = Attach(*model, "llama2");
  const at::Tensor ids = at::arange(3, 15).view({2, 6});
  const at::Tensor hidden =
      model->Hidden({ids, at::arange(6).expand({2, 6}), {}});
  EXPECT_EQ(hidden.scalar_type(), at::kBFloat16);
  hidden.to(at::kFloat).square().sum().backward();
  for (const optim::Parameter& p : full->parameters().parameters()) {
    EXPECT_EQ(p.value.scalar_type(), at::kFloat) << p.name;
    if (p.name == "lm_head.weight") continue;  // not in `hidden`
    EXPECT_GT(p.value.grad().abs().sum().item<double>(), 0) << p.name;
  }
}

}  // namespace
}  // namespace mpsd::full
