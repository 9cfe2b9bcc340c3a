// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "core/model/encoder.h"
#include "core/tensorfile/safetensors.h"
#include "tests/core/model/encoder_config.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::model {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The weights of a fresh network under other names; "" leaves one out.
std::unique_ptr<tensorfile::Weights> Stored(
    const spec::ModelConfig& config,
    const std::function<std::string(const std::string&)>& rename) {
  auto encoder = *Encoder::Load({}, config);
  tensorfile::NamedTensors tensors;
  for (const NamedWeight& w : encoder->NamedWeights()) {
    if (!rename(w.name).empty())
      tensors.emplace_back(rename(w.name), *w.tensor);
  }
  const auto folder = testing_support::FreshFolder("load_encoder_test");
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  return *tensorfile::Weights::Open(folder);
}

TEST(LoadEncoderTest, AFineTunedModelIsReadWhole) {
  const spec::ModelConfig config = EncoderConfigOf("roberta");
  const auto weights = Stored(config, [](const auto& name) { return name; });
  std::vector<double> progress;
  auto encoder = Encoder::Load({weights.get()}, config,
                               [&](double f) { progress.push_back(f); });
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_THAT((*encoder)->fresh_modules(), IsEmpty());
  EXPECT_THAT(progress, ElementsAre(0.5, 1.0));
  for (const NamedWeight& w : (*encoder)->NamedWeights()) {
    const std::vector<int64_t> shape = w.tensor->sizes().vec();
    EXPECT_TRUE(at::equal(*w.tensor,
                          *weights->Load(w.name, shape, at::kCPU, at::kFloat)));
    EXPECT_FALSE(w.tensor->requires_grad());
  }
}

// As sentence-transformers stores MiniLM: BertModel's names, and a pooler.
TEST(LoadEncoderTest, AHeadlessModelGetsAFreshHead) {
  const spec::ModelConfig config = EncoderConfigOf("bert");
  const auto weights = Stored(config, [](const std::string& name) {
    return name.starts_with("bert.") ? name.substr(5) : std::string();
  });
  auto encoder = Encoder::Load({weights.get()}, config);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_THAT((*encoder)->fresh_modules(), ElementsAre("classifier"));
}

// As BertForMaskedLM's: no pooler.
TEST(LoadEncoderTest, AMissingPoolerIsDrawnToo) {
  const spec::ModelConfig config = EncoderConfigOf("bert");
  const auto weights = Stored(config, [](const std::string& name) {
    return name.starts_with("bert.pooler") || name.starts_with("classifier")
               ? std::string()
               : name;
  });
  auto encoder = Encoder::Load({weights.get()}, config);
  ASSERT_TRUE(encoder.ok()) << encoder.status();
  EXPECT_THAT((*encoder)->fresh_modules(),
              ElementsAre("bert.pooler.dense", "classifier"));
}

TEST(LoadEncoderTest, AMissingWeightOfTheNetworkIsAnError) {
  const spec::ModelConfig config = EncoderConfigOf("distilbert");
  const auto weights = Stored(config, [](const std::string& name) {
    return name.find("layer.1.ffn.lin2.bias") == std::string::npos
               ? name
               : std::string();
  });
  EXPECT_THAT(
      std::string(Encoder::Load({weights.get()}, config).status().message()),
      HasSubstr("distilbert.transformer.layer.1.ffn.lin2.bias"));
}

TEST(LoadEncoderTest, FromScratchPaddingsEmbeddingIsZero) {
  const auto encoder = *Encoder::Load({}, EncoderConfigOf("roberta"));
  for (const NamedWeight& w : encoder->NamedWeights()) {
    if (w.name.ends_with("word_embeddings.weight") ||
        w.name.ends_with("position_embeddings.weight")) {
      EXPECT_EQ(w.tensor->select(0, 1).abs().sum().item<float>(), 0) << w.name;
      EXPECT_GT(w.tensor->select(0, 2).abs().sum().item<float>(), 0) << w.name;
    }
  }
  EXPECT_THAT(encoder->fresh_modules(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::model
