// SPDX-License-Identifier: Apache-2.0
#include "core/lora/gguf.h"

#include <ATen/ATen.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/file.h"
#include "core/ckpt/safetensors.h"
#include "core/lora/merge.h"
#include "tests/core/scratch_folder.h"

// What llama.cpp computes from such files, for every family and tokenizer, is
// shown live (tests/live/export).

namespace mpsd::gguf {
namespace {

const fs::path kGolden = fs::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden";

// A file of which only the tensors are read.
class Reader {
 public:
  explicit Reader(const fs::path& file) : bytes_(*base::ReadFile(file)) {}

  // As stored, in fp32; rows and columns as in the model's file.
  at::Tensor Tensor(const std::string& name) {
    const size_t info = bytes_.find(name) + name.size();
    uint32_t dimensions = 0, type = 0;
    std::vector<int64_t> sizes(2, 1);
    uint64_t offset = 0;
    std::memcpy(&dimensions, &bytes_[info], 4);
    std::memcpy(sizes.data(), &bytes_[info + 4], 8 * dimensions);
    std::memcpy(&type, &bytes_[info + 4 + 8 * dimensions], 4);
    std::memcpy(&offset, &bytes_[info + 8 + 8 * dimensions], 8);
    const std::vector<int64_t> shape = {sizes[1], sizes[0]};
    void* data = &bytes_[Data() + offset];
    if (type == 0) return at::from_blob(data, shape, at::kFloat).squeeze(0);
    if (type == 1) return at::from_blob(data, shape, at::kHalf).to(at::kFloat);
    EXPECT_EQ(type, 8);
    const at::Tensor blocks =
        at::from_blob(data, {sizes[1] * sizes[0] / 32, 34}, at::kByte);
    const at::Tensor scale =
        blocks.slice(1, 0, 2).contiguous().view(at::kHalf).to(at::kFloat);
    return (blocks.slice(1, 2).contiguous().view(at::kChar) * scale)
        .view(shape);
  }

 private:
  // Tensors begin after the last info, at a multiple of 32.
  size_t Data() const {
    const std::string last = "output_norm.weight";
    return (bytes_.find(last) + last.size() + 4 + 8 + 4 + 8 + 31) / 32 * 32;
  }

  std::string bytes_;
};

// The model of tests/golden/smollm, its tokenizer splitting texts as GPT-2's
// does: llama.cpp knows none that does not split.
fs::path Smollm(const fs::path& folder) {
  fs::copy(kGolden / "smollm" / "model", folder / "model");
  const fs::path path = folder / "model" / "tokenizer.json";
  auto tokenizer = nlohmann::json::parse(*base::ReadFile(path));
  tokenizer["pre_tokenizer"]["use_regex"] = true;
  std::ofstream(path) << tokenizer.dump();
  return folder / "model";
}

at::Tensor Weight(const std::string& name) {
  const auto weights = *tensorfile::Weights::Open(kGolden / "smollm" / "model");
  return *weights->Load(name, weights->Find(name)->shape, at::kCPU, at::kFloat);
}

TEST(GgufTest, MatricesAreRoundedAndQueriesAndKeysReordered) {
  const fs::path folder = FreshFolder("gguf");
  const fs::path file = folder / "model.gguf";
  EXPECT_EQ(Write(Smollm(folder), file, Type::kF16), absl::OkStatus());
  Reader reader(file);
  const at::Tensor up = Weight("model.layers.1.mlp.up_proj.weight");
  EXPECT_TRUE(at::equal(reader.Tensor("blk.1.ffn_up.weight"),
                        up.to(at::kHalf).to(at::kFloat)));
  EXPECT_TRUE(at::equal(reader.Tensor("blk.0.ffn_norm.weight"),
                        Weight("model.layers.0.post_attention_layernorm."
                               "weight")));
  // Heads of eight rows: 0 4 1 5 2 6 3 7.
  const at::Tensor q = Weight("model.layers.0.self_attn.q_proj.weight");
  const at::Tensor pairs = reader.Tensor("blk.0.attn_q.weight");
  EXPECT_TRUE(at::equal(pairs[1], q[4].to(at::kHalf).to(at::kFloat)));
  EXPECT_TRUE(at::equal(pairs[10], q[9].to(at::kHalf).to(at::kFloat)));
}

// Half a step, and the rounding of the scale to fp16.
TEST(GgufTest, BlocksOf32AreWithinAStep) {
  const fs::path folder = FreshFolder("gguf");
  const fs::path file = folder / "model.gguf";
  EXPECT_EQ(Write(Smollm(folder), file, Type::kQ8_0), absl::OkStatus());
  // 64 columns; those of the other matrices, 48, are no blocks.
  const at::Tensor down = Weight("model.layers.0.mlp.down_proj.weight");
  const at::Tensor steps = down.view({-1, 32}).abs().amax(1) / 127;
  const at::Tensor error =
      (Reader(file).Tensor("blk.0.ffn_down.weight") - down).abs();
  EXPECT_TRUE((error.view({-1, 32}).amax(1) <= 0.6 * steps).all().item<bool>());
  EXPECT_GT(error.max().item<double>(), 0);
}

TEST(GgufTest, WhatLlamaCppComputesInAnotherWayIsNamed) {
  const fs::path file = FreshFolder("gguf") / "model.gguf";
  for (const auto& [model, why] :
       {std::pair{"bert", "model_type bert"},
        {"llama_classes", "LlamaForSequenceClassification"},
        {"gemma2", "query_pre_attn_scalar"},
        {"smollm3", "its layers without rope"},
        {"olmo3", "rope_theta of sliding_attention"},
        {"smollm", "its tokenizer's pre_tokenizer"}}) {
    const absl::Status status =
        Write(kGolden / model / "model", file, Type::kF16);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(why));
  }
  EXPECT_FALSE(fs::exists(file));
}

// mlx-lm computes x + scale · (x lora_a) lora_b with one rank for all.
TEST(MlxAdapterTest, EveryModuleHasTheLargestRankAndOneScale) {
  const fs::path out = FreshFolder("mlx") / "adapter";
  const fs::path golden = kGolden / "mistral";  // with patterns of rank, alpha
  EXPECT_EQ(merge::WriteMlxAdapter(golden / "model", golden / "adapter", out),
            absl::OkStatus());
  const auto adapted =
      *merge::AdaptedModel::Open(golden / "model", golden / "adapter");
  const auto file =
      *tensorfile::SafetensorsFile::Open(out / "adapters.safetensors");
  const auto config = nlohmann::json::parse(
      *base::ReadFile(out / "adapter_config.json"))["lora_parameters"];
  EXPECT_EQ(config["rank"], 6);
  for (const auto& target : adapted.targets()) {
    const auto change = *adapted.WeightChange(target);
    const at::Tensor a = *file->Load(target.name + ".lora_a");
    const at::Tensor b = *file->Load(target.name + ".lora_b");
    EXPECT_EQ(a.size(1), 6);
    EXPECT_TRUE(at::allclose(a.matmul(b).t() * config["scale"].get<double>(),
                             change.b.matmul(change.a) * change.scaling));
  }
}

}  // namespace
}  // namespace mpsd::gguf
