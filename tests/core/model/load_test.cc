// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/ckpt/safetensors.h"
#include "core/host/machine.h"
#include "core/model/decoder.h"
#include "core/model/encoder.h"
#include "core/model/vit.h"
#include "core/model/weight_reader.h"
#include "tests/core/model/golden_models.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::model {
namespace {

using testing_support::IsOk;
using testing_support::Says;

namespace fs = std::filesystem;

// A Llama whose weights are `mebibytes` large in bf16, most of it in one layer
// stack, written tensor by tensor.
class SyntheticModel {
 public:
  explicit SyntheticModel(int64_t layers) {
    config_.model_type = "llama";
    config_.vocab_size = 512;
    config_.hidden_size = 512;
    config_.intermediate_size = 2048;
    config_.num_hidden_layers = layers;
    config_.num_attention_heads = config_.num_key_value_heads = 8;
    config_.head_dim = 64;
    dir_ = testing_support::FreshFolder("load_decoder_test");
    tensorfile::NamedTensors tensors;
    auto add = [&](const std::string& name, std::vector<int64_t> shape) {
      tensors.emplace_back(name, at::ones(shape, at::kBFloat16));
    };
    add("model.embed_tokens.weight", {512, 512});
    add("model.norm.weight", {512});
    add("lm_head.weight", {512, 512});
    for (int64_t i = 0; i < layers; ++i) {
      const std::string p = "model.layers." + std::to_string(i) + ".";
      for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        add(p + "self_attn." + name + ".weight", {512, 512});
      }
      add(p + "mlp.gate_proj.weight", {2048, 512});
      add(p + "mlp.up_proj.weight", {2048, 512});
      add(p + "mlp.down_proj.weight", {512, 2048});
      add(p + "input_layernorm.weight", {512});
      add(p + "post_attention_layernorm.weight", {512});
    }
    EXPECT_TRUE(
        tensorfile::WriteSafetensors(dir_ / "model.safetensors", tensors).ok());
  }
  spec::ModelConfig config_;
  fs::path dir_;
};

TEST(LoadDecoderTest, PeakMemoryIsTheWeightsPlusLittle) {
  const SyntheticModel synthetic(20);
  const int64_t weight_bytes =
      fs::file_size(synthetic.dir_ / "model.safetensors");
  ASSERT_GT(weight_bytes, 150 << 20);
  auto weights = *tensorfile::Weights::Open(synthetic.dir_);
  const int64_t before = host::ProcessFootprintBytes();
  int64_t peak = 0;
  ASSERT_THAT(
      Decoder::Load(*weights, synthetic.config_, at::kCPU, at::kBFloat16,
                    [&](double) {
                      peak = std::max(peak, host::ProcessFootprintBytes());
                    }),
      IsOk());
  // The largest tensor is 2 MiB; 8 MiB allow for the allocator.
  EXPECT_LE(peak - before, weight_bytes + (8 << 20));
}

TEST(LoadDecoderTest,
     ReportsProgressAndNamesTheWeightThatIsMissingOrMisshapen) {
  const SyntheticModel synthetic(2);
  auto weights = *tensorfile::Weights::Open(synthetic.dir_);
  std::vector<double> seen;
  ASSERT_TRUE(Decoder::Load(*weights, synthetic.config_, at::kCPU,
                            at::kBFloat16, [&](double f) { seen.push_back(f); })
                  .ok());
  EXPECT_THAT(seen, testing::ElementsAre(0.5, 1.0));
  spec::ModelConfig more = synthetic.config_;
  more.num_hidden_layers = 3;
  EXPECT_THAT(Decoder::Load(*weights, more, at::kCPU, at::kFloat),
              Says("model.layers.2."));
  spec::ModelConfig wide = synthetic.config_;
  wide.intermediate_size = 4096;
  EXPECT_THAT(Decoder::Load(*weights, wide, at::kCPU, at::kFloat),
              Says("gate_proj"));
}

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

TEST(LoadEncoderTest, WhatAFileLacksIsDrawn) {
  const spec::ModelConfig config = EncoderConfigOf("bert");
  // As sentence-transformers stores MiniLM: BertModel's names, and a pooler.
  const auto headless = Stored(config, [](const std::string& name) {
    return name.starts_with("bert.") ? name.substr(5) : std::string();
  });
  EXPECT_THAT(Encoder::Load({headless.get()}, config).value()->fresh_modules(),
              ElementsAre("classifier"));
  // As BertForMaskedLM's: no pooler.
  const auto without_pooler = Stored(config, [](const std::string& name) {
    return name.starts_with("bert.pooler") || name.starts_with("classifier")
               ? std::string()
               : name;
  });
  EXPECT_THAT(
      Encoder::Load({without_pooler.get()}, config).value()->fresh_modules(),
      ElementsAre("bert.pooler.dense", "classifier"));
}

TEST(LoadEncoderTest, AMissingWeightOfTheNetworkIsAnError) {
  const spec::ModelConfig config = EncoderConfigOf("distilbert");
  const auto weights = Stored(config, [](const std::string& name) {
    return name.find("layer.1.ffn.lin2.bias") == std::string::npos
               ? name
               : std::string();
  });
  EXPECT_THAT(Encoder::Load({weights.get()}, config),
              Says("distilbert.transformer.layer.1.ffn.lin2.bias"));
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

constexpr uint64_t kSeed = 4321;  // of tests/golden/vit.py

at::Tensor Logits(const Classifier& model) {
  ClassifierInputs inputs;
  inputs.pixels = GoldenVit("vit")["pixels"];
  return model.Logits(inputs);
}

// The golden model under other names; "" leaves a weight out.
template <typename Rename>
absl::StatusOr<std::unique_ptr<Classifier>> LoadRenamed(
    const std::string& folder_name, const Rename& rename,
    bool ignore_mismatched_heads = false) {
  auto file = *tensorfile::SafetensorsFile::Open(VitFolder("vit") /
                                                 "model/model.safetensors");
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    const std::string renamed = rename(name);
    if (!renamed.empty()) tensors.emplace_back(renamed, *file->Load(name));
  }
  const auto folder = testing_support::FreshFolder(folder_name);
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  auto weights = tensorfile::Weights::Open(folder).value();
  return LoadVisionClassifier(
      {weights.get(), at::kCPU, at::kFloat, ignore_mismatched_heads},
      VitConfig("vit"));
}

TEST(LoadVisionClassifier, DrawsWhatTransformersDraws) {
  for (const char* name : {"vit", "vit_grey"}) {
    const GoldenVit golden(name);
    Seed(kSeed);
    auto model = LoadVisionClassifier({}, VitConfig(name)).value();
    EXPECT_TRUE(model->fresh_modules().empty());
    for (const NamedWeight& weight : model->NamedWeights()) {
      if (golden.Has("init." + weight.name)) {
        EXPECT_TRUE(at::equal(weight.tensor->flatten().slice(0, 0, 8),
                              golden["init." + weight.name]))
            << weight.name;
      } else {
        const bool norm = weight.name.ends_with("weight");
        EXPECT_TRUE(at::equal(*weight.tensor,
                              at::full_like(*weight.tensor, norm ? 1 : 0)))
            << weight.name;
      }
    }
  }
}

TEST(LoadVisionClassifier, ReadsNamesOfModules) {
  auto model = LoadRenamed("vit_modules", [](std::string name) {
                 for (const auto& [from, to] :
                      std::vector<std::pair<std::string, std::string>>{
                          {"encoder.layer", "layers"},
                          {"attention.attention.query", "attention.q_proj"},
                          {"attention.attention.key", "attention.k_proj"},
                          {"attention.attention.value", "attention.v_proj"},
                          {"attention.output.dense", "attention.o_proj"},
                          {"intermediate.dense", "mlp.fc1"},
                          {"output.dense", "mlp.fc2"}}) {
                   const size_t at = name.find(from);
                   if (at != std::string::npos)
                     name.replace(at, from.size(), to);
                 }
                 return name;
               }).value();
  EXPECT_TRUE(at::equal(Logits(*model), Logits(*LoadVit("vit"))));
}

// As ViTModel is saved: no prefix and no head.
TEST(LoadVisionClassifier, DrawsTheHeadThatABaseModelLacks) {
  auto model =
      LoadRenamed("vit_base", [](const std::string& name) {
        return name.rfind("vit.", 0) == 0 ? name.substr(4) : std::string();
      }).value();
  EXPECT_EQ(model->fresh_modules(), std::vector<std::string>{"classifier"});
  EXPECT_EQ(model->NamedWeights().size(),
            LoadVit("vit")->NamedWeights().size());
}

using testing::AllOf;
using testing::Not;

TEST(WarningsTest, AreThereForWhatIsNotAlikeAndNameTheFirstOfMany) {
  EXPECT_THAT(Warnings({}), IsEmpty());
  EXPECT_THAT(
      Warnings({{"a.bias", "b"}, {"c"}, true}),
      ElementsAre(AllOf(HasSubstr("has 2 tensors"), HasSubstr("a.bias, b")),
                  AllOf(HasSubstr("lacks 1 tensors"), HasSubstr(": c")),
                  HasSubstr("not tied")));
  LoadReport report;
  for (int i = 0; i < 5000; ++i) {
    report.unused.push_back("tensor" + std::to_string(i));
  }
  const std::vector<std::string> warnings = Warnings(report);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0],
              AllOf(HasSubstr("5000"), HasSubstr("tensor7 and "),
                    HasSubstr("4992 more"), Not(HasSubstr("tensor8"))));
}

TEST(IsOldBufferTest, IsOfTheFamilyThatHadIt) {
  using spec::Family;
  const char* rotary = "model.layers.3.self_attn.rotary_emb.inv_freq";
  EXPECT_TRUE(IsOldBuffer(rotary, Family::kDecoder));
  EXPECT_FALSE(IsOldBuffer(rotary, Family::kEncoder));
  for (const char* name : {"position_ids", "bert.embeddings.position_ids"}) {
    EXPECT_TRUE(IsOldBuffer(name, Family::kEncoder));
    EXPECT_FALSE(IsOldBuffer(name, Family::kDecoder));
    EXPECT_FALSE(IsOldBuffer(name, Family::kVision));
  }
  EXPECT_FALSE(IsOldBuffer("my_position_ids", Family::kEncoder));
}

std::unique_ptr<tensorfile::Weights> WeightReaderStored(
    const tensorfile::NamedTensors& tensors) {
  const auto folder = testing_support::FreshFolder("weight_reader_test");
  EXPECT_TRUE(
      tensorfile::WriteSafetensors(folder / "model.safetensors", tensors).ok());
  return *tensorfile::Weights::Open(folder);
}

TEST(WeightReaderTest, FindsTheOldNamesOfNorms) {
  const auto weights =
      WeightReaderStored({{"LayerNorm.gamma", at::full({2}, 3.0)},
                          {"LayerNorm.beta", at::full({2}, 4.0)}});
  WeightReader reader({weights.get()}, "bert.", 0.02);
  const LayerNorm norm = reader.MakeLayerNorm("bert.LayerNorm", 2, 1e-12);
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  EXPECT_TRUE(at::equal(norm.weight, at::full({2}, 3.0)));
  EXPECT_TRUE(at::equal(norm.bias, at::full({2}, 4.0)));
}

TEST(WeightReaderTest, AHeadOfAnotherShapeIsAnErrorUnlessIgnored) {
  const auto weights =
      WeightReaderStored({{"classifier.weight", at::ones({3, 4})},
                          {"classifier.bias", at::ones({3})}});
  WeightReader strict({weights.get()}, "", 0.02);
  strict.MakeHead("classifier", 2, 4, true);
  EXPECT_THAT(strict,
              Says(testing::AllOf(HasSubstr("[3, 4]"), HasSubstr("[2, 4]"),
                                  HasSubstr("ignore_mismatched_sizes"))));
  WeightReader lenient({weights.get(), at::kCPU, at::kFloat, true}, "", 0.02);
  EXPECT_EQ(lenient.MakeHead("classifier", 2, 4, true).out_features(), 2);
  EXPECT_THAT(lenient.fresh_modules(), ElementsAre("classifier"));
  WeightReader fitting({weights.get()}, "", 0.02);
  EXPECT_TRUE(at::equal(fitting.MakeHead("classifier", 3, 4, true).weight,
                        at::ones({3, 4})));
  EXPECT_THAT(fitting.fresh_modules(), IsEmpty());
}

TEST(WeightReaderTest, PaddingRowsCountAsPythonsIndices) {
  WeightReader reader({}, "", 0.02);
  EXPECT_EQ(reader.MakeEmbedding("e", 5, 2, -1).padding_row, 4);
  EXPECT_EQ(reader.MakeEmbedding("e", 5, 2, 5).padding_row, -1);
  EXPECT_EQ(reader.MakeEmbedding("e", 5, 2).padding_row, -1);
}

TEST(WeightReaderTest, QuantisesTheLinearsOfBlocksAsItReadsThem) {
  const std::string block = "model.layers.0.mlp.up_proj";
  const at::Tensor weight = at::randn({6, 64}), bias = at::randn({6});
  const auto weights = WeightReaderStored({{block + ".weight", weight},
                                           {block + ".bias", bias},
                                           {"lm_head.weight", weight}});
  WeightSource source{weights.get()};
  source.quantization.load_in_4bit = true;
  WeightReader reader(source, "", 0.02);
  const Linear linear = reader.MakeLinear(block, 6, 64, true);
  const Linear head = reader.MakeLinear("lm_head", 6, 64, false);
  ASSERT_TRUE(reader.status().ok()) << reader.status();
  ASSERT_NE(linear.quantized, nullptr);
  EXPECT_FALSE(linear.weight.defined());
  EXPECT_EQ(linear.in_features(), 64);
  EXPECT_EQ(linear.out_features(), 6);
  EXPECT_EQ(head.quantized, nullptr);
  const at::Tensor dense = linear.Dense(at::kFloat);
  EXPECT_TRUE(at::allclose(dense, weight, 0, 0.6));
  EXPECT_FALSE(at::equal(dense, weight));
  const at::Tensor x = at::randn({2, 3, 64});
  EXPECT_TRUE(at::equal(linear.Forward(x), at::linear(x, dense, bias)));
}

}  // namespace

}  // namespace mpsd::model
