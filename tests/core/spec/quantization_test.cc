// SPDX-License-Identifier: Apache-2.0
#include "core/spec/quantization.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

using testing::HasSubstr;

constexpr char kQ[] = "model.layers.3.self_attn.q_proj";

QuantizationSpec Four() {
  QuantizationSpec spec;
  spec.load_in_4bit = true;
  return spec;
}

ModelConfig Decoder() {
  ModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 100;
  config.hidden_size = 64;
  config.intermediate_size = 128;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 4;
  config.head_dim = 16;
  return config;
}

TEST(QuantizesTest, TakesTheLinearsOfBlocks) {
  EXPECT_FALSE(Quantizes(QuantizationSpec(), kQ));
  EXPECT_TRUE(Quantizes(Four(), kQ));
  EXPECT_FALSE(Quantizes(Four(), "lm_head"));
  EXPECT_FALSE(Quantizes(Four(), "score"));
}

TEST(QuantizesTest, SkipsNamesAndEndsOfNames) {
  QuantizationSpec spec = Four();
  spec.llm_int8_skip_modules = {"q_proj", "model.layers.2", "self_attn.k"};
  EXPECT_FALSE(Quantizes(spec, kQ));
  EXPECT_FALSE(Quantizes(spec, "model.layers.2.mlp.up_proj"));
  EXPECT_TRUE(Quantizes(spec, "model.layers.20.mlp.up_proj"));
  EXPECT_TRUE(Quantizes(spec, "model.layers.3.self_attn.k_proj"));
}

absl::StatusOr<QuantizationSpec> Stored(const std::string& json) {
  return ReadStoredQuantization(*ParseJson(json, "config.json"));
}

TEST(ReadStoredQuantizationTest, ReadsWhatBitsandbytesWrites) {
  const auto nf4 = Stored(R"({"quant_method": "bitsandbytes",
      "load_in_4bit": true, "load_in_8bit": false,
      "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true})");
  ASSERT_TRUE(nf4.ok());
  EXPECT_TRUE(nf4->load_in_4bit);
  EXPECT_TRUE(nf4->bnb_4bit_use_double_quant);
  const auto int8 =
      Stored(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})");
  ASSERT_TRUE(int8.ok());
  EXPECT_TRUE(int8->load_in_8bit);
}

TEST(ReadStoredQuantizationTest, RefusesOthers) {
  for (const char* json :
       {R"({"quant_method": "gptq", "bits": 4})", R"({"bits": 4})",
        R"({"quant_method": "bitsandbytes"})",
        R"({"quant_method": "bitsandbytes", "load_in_4bit": true,
            "bnb_4bit_quant_type": "fp4"})"}) {
    EXPECT_EQ(Stored(json).status().code(), absl::StatusCode::kUnimplemented)
        << json;
  }
}

TEST(CheckQuantizationTest, IsForDecodersAndLora) {
  TrainSpec job;
  job.quantization_config = Four();
  EXPECT_TRUE(CheckQuantization(job, Decoder()).ok());
  ModelConfig bert = Decoder();
  bert.family = Family::kEncoder;
  EXPECT_EQ(CheckQuantization(job, bert).code(),
            absl::StatusCode::kUnimplemented);
  job.fine_tune_type = FineTuneType::kFull;
  EXPECT_EQ(CheckQuantization(job, Decoder()).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(CheckQuantizationTest, AStoredModelIsTakenAsItIs) {
  ModelConfig stored = Decoder();
  stored.quantization = Four();
  TrainSpec job;
  EXPECT_TRUE(CheckQuantization(job, stored).ok());
  job.quantization_config = Four();
  EXPECT_THAT(std::string(CheckQuantization(job, stored).message()),
              HasSubstr("stored quantized"));
}

TEST(CheckQuantizationTest, AQuantizedLinearCannotBeTrainedWhole) {
  TrainSpec job;
  job.quantization_config = Four();
  job.lora.modules_to_save = {"lm_head"};
  EXPECT_TRUE(CheckQuantization(job, Decoder()).ok());
  job.lora.modules_to_save = {"up_proj"};
  EXPECT_THAT(
      std::string(CheckQuantization(job, Decoder()).message()),
      HasSubstr("model.layers.0.mlp.up_proj is quantized and cannot be"));
  job.quantization_config.llm_int8_skip_modules = {"up_proj"};
  EXPECT_TRUE(CheckQuantization(job, Decoder()).ok());
}

TEST(QuantizedBytesTest, CountsCodesAndScales) {
  constexpr double kValues = 64 * 256 * 10;
  QuantizationSpec spec = Four();
  EXPECT_EQ(QuantizedBytes(spec, kValues, 10), kValues / 2 + 4 * kValues / 64);
  spec.bnb_4bit_use_double_quant = true;
  EXPECT_EQ(QuantizedBytes(spec, kValues, 10),
            kValues / 2 + kValues / 64 + 4 * 10);
  spec.load_in_8bit = true;
  EXPECT_EQ(QuantizedBytes(spec, kValues, 10), kValues + 4 * 10);
}

}  // namespace
}  // namespace mpsd::spec
