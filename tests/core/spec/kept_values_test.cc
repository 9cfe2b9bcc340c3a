// SPDX-License-Identifier: Apache-2.0
#include "core/spec/kept_values.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

using backend::Choice;
using backend::TraitsOf;

class KeptValues : public testing::Test {
 protected:
  KeptValues() {
    model_.family = Family::kEncoder;
    model_.model_type = "bert";
    model_.hidden_size = 64;
    model_.intermediate_size = 256;
    model_.num_hidden_layers = 2;
    model_.num_attention_heads = model_.num_key_value_heads = 4;
    model_.head_dim = 16;
    model_.vocab_size = 100;
    model_.max_position_embeddings = 512;
    model_.num_labels = 2;
    spec_.task = Task::kSeqCls;
    spec_.training.max_length = 128;
    spec_.training.bf16 = false;
    spec_.fine_tune_type = FineTuneType::kFull;
  }
  double All(Choice device) const {
    return KeptPerToken(spec_, model_, TraitsOf(device)).all;
  }

  TrainSpec spec_;
  ModelConfig model_;
};

TEST_F(KeptValues, CudasAttentionKeepsNoMaskOfItsDropout) {
  const double cuda = All(Choice::kCuda), mps = All(Choice::kMps),
               cpu = All(Choice::kCpu);
  model_.encoder.attention_probs_dropout_prob = 0.1;
  constexpr double kLayers = 2, kHeads = 4, kLength = 128;
  EXPECT_EQ(All(Choice::kCuda), cuda);
  EXPECT_EQ(All(Choice::kMps), mps + kLayers * kHeads * kLength * (4 + 4 + 1));
  // The CPU's masks are the factors themselves.
  EXPECT_EQ(All(Choice::kCpu), cpu + kLayers * kHeads * kLength * (4 + 4 + 4));
}

TEST_F(KeptValues, MpsAloneKeepsInputsOfFrozenLinears) {
  spec_.fine_tune_type = FineTuneType::kLora;
  spec_.lora.target_modules = std::vector<std::string>{"query", "value"};
  // The MLP's inputs of the first layer; the last has one token there.
  constexpr double kUnkept = (64 + 256) * 4;
  EXPECT_EQ(All(Choice::kCuda), All(Choice::kMps) - kUnkept);
  spec_.lora.target_modules = std::vector<std::string>{"query", "dense"};
  EXPECT_EQ(All(Choice::kCuda), All(Choice::kMps));
}

}  // namespace
}  // namespace mpsd::spec
