// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/spec/modules.h"
#include "core/spec/targets.h"

namespace mpsd::spec {
namespace {

using testing::ElementsAre;

ModelConfig Tiny() {
  ModelConfig c;
  c.family = Family::kVision;
  c.model_type = "vit";
  c.hidden_size = 16;
  c.intermediate_size = 32;
  c.num_hidden_layers = 1;
  c.num_attention_heads = 2;
  c.vision.image_size = 32;
  c.vision.patch_size = 16;
  c.num_labels = 3;
  return c;
}

TEST(VisionModules, AreNamedAsTransformers5NamesThem) {
  std::vector<std::string> names;
  for (const Module& m : Modules(Tiny())) names.push_back(m.name);
  EXPECT_THAT(
      names,
      ElementsAre(
          "vit.embeddings.cls_token", "vit.embeddings.position_embeddings",
          "vit.embeddings.patch_embeddings.projection",
          "vit.layers.0.attention.q_proj", "vit.layers.0.attention.k_proj",
          "vit.layers.0.attention.v_proj", "vit.layers.0.attention.o_proj",
          "vit.layers.0.layernorm_before", "vit.layers.0.layernorm_after",
          "vit.layers.0.mlp.fc1", "vit.layers.0.mlp.fc2", "vit.layernorm",
          "classifier"));
}

TEST(StoredName, IsThatOfTheFile) {
  const ModelConfig vit = Tiny();
  auto stored = [&](const char* name) { return StoredName(vit, name); };
  EXPECT_EQ(stored("vit.layers.11.attention.q_proj.weight"),
            "vit.encoder.layer.11.attention.attention.query.weight");
  EXPECT_EQ(stored("vit.layers.0.attention.o_proj.bias"),
            "vit.encoder.layer.0.attention.output.dense.bias");
  EXPECT_EQ(stored("vit.layers.0.mlp.fc1.weight"),
            "vit.encoder.layer.0.intermediate.dense.weight");
  EXPECT_EQ(stored("vit.layers.0.mlp.fc2"), "vit.encoder.layer.0.output.dense");
  EXPECT_EQ(stored("vit.layers.0.layernorm_after.bias"),
            "vit.encoder.layer.0.layernorm_after.bias");
  EXPECT_EQ(stored("vit.layernorm.weight"), "vit.layernorm.weight");
  EXPECT_EQ(stored("classifier.weight"), "classifier.weight");
  EXPECT_EQ(StoredName(ModelConfig(), "vit.layers.0.mlp.fc1"),
            "vit.layers.0.mlp.fc1");
}

TEST(VisionModules, TheHeadIsTrainedWholeBesideLora) {
  const ModelConfig config = Tiny();
  auto saved = MatchModulesToSave(EffectiveLora({}, config), config);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ASSERT_EQ(saved->size(), 1);
  EXPECT_EQ((*saved)[0].name, "classifier");
  auto targets = MatchTargets(EffectiveLora({}, config), config);
  ASSERT_TRUE(targets.ok()) << targets.status();
  EXPECT_EQ((*targets)[0].name, "vit.layers.0.attention.q_proj");
}

}  // namespace
}  // namespace mpsd::spec
