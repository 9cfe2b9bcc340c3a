// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/host/platform.h"
#include "core/model/decoder.h"
#include "core/tensorfile/safetensors.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::model {
namespace {

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
  auto model = Decoder::Load(
      *weights, synthetic.config_, at::kCPU, at::kBFloat16,
      [&](double) { peak = std::max(peak, host::ProcessFootprintBytes()); });
  ASSERT_TRUE(model.ok()) << model.status();
  // The largest tensor is 2 MiB; 8 MiB allow for the allocator.
  EXPECT_LE(peak - before, weight_bytes + (8 << 20));
}

TEST(LoadDecoderTest, ReportsProgressToTheEnd) {
  const SyntheticModel synthetic(2);
  auto weights = *tensorfile::Weights::Open(synthetic.dir_);
  std::vector<double> seen;
  ASSERT_TRUE(Decoder::Load(*weights, synthetic.config_, at::kCPU,
                            at::kBFloat16, [&](double f) { seen.push_back(f); })
                  .ok());
  EXPECT_THAT(seen, testing::ElementsAre(0.5, 1.0));
}

TEST(LoadDecoderTest, NamesTheWeightThatIsMissingOrMisshapen) {
  const SyntheticModel synthetic(1);
  auto weights = *tensorfile::Weights::Open(synthetic.dir_);
  spec::ModelConfig more = synthetic.config_;
  more.num_hidden_layers = 2;
  EXPECT_THAT(std::string(Decoder::Load(*weights, more, at::kCPU, at::kFloat)
                              .status()
                              .message()),
              testing::HasSubstr("model.layers.1."));
  spec::ModelConfig wide = synthetic.config_;
  wide.intermediate_size = 4096;
  EXPECT_THAT(std::string(Decoder::Load(*weights, wide, at::kCPU, at::kFloat)
                              .status()
                              .message()),
              testing::HasSubstr("gate_proj"));
}

}  // namespace
}  // namespace mpsd::model
