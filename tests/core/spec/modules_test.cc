// SPDX-License-Identifier: Apache-2.0
#include "core/spec/modules.h"

#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

ModelConfig Tiny() {
  ModelConfig c;
  c.model_type = "qwen3";
  c.vocab_size = 10;
  c.hidden_size = 8;
  c.intermediate_size = 12;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 6;
  c.qk_norm = true;
  c.qkv_bias = true;
  return c;
}

TEST(Modules, AreNamedAndShapedAsInTransformers) {
  const std::vector<Module> modules = Modules(Tiny());
  ASSERT_EQ(modules.size(), 1 + 2 * 11 + 2u);
  EXPECT_EQ(modules.front().name, "model.embed_tokens");
  EXPECT_EQ(modules.front().parameters(), 80);
  EXPECT_EQ(modules[1].name, "model.layers.0.self_attn.q_proj");
  EXPECT_EQ(modules[1].out_features, 24);
  EXPECT_EQ(modules[1].parameters(), 8 * 24 + 24);
  EXPECT_EQ(modules[4].name, "model.layers.0.self_attn.o_proj");
  EXPECT_EQ(modules[4].in_features, 24);
  EXPECT_EQ(modules[4].parameters(), 24 * 8);
  EXPECT_EQ(modules[5].name, "model.layers.0.self_attn.q_norm");
  EXPECT_EQ(modules[5].parameters(), 6);
  EXPECT_EQ(modules[12].layer, 1);
  EXPECT_EQ(modules.back().name, "lm_head");
  EXPECT_EQ(modules.back().layer, -1);
}

TEST(Modules, HeadNormsOnlyWhereTheModelHasThem) {
  ModelConfig config = Tiny();
  config.qk_norm = false;
  EXPECT_EQ(Modules(config).size(), 1 + 2 * 9 + 2u);
}

}  // namespace
}  // namespace mpsd::spec
