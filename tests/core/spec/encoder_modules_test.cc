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

ModelConfig Tiny(const std::string& type) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.model_type = type;
  c.vocab_size = 50;
  c.hidden_size = 16;
  c.intermediate_size = 32;
  c.num_hidden_layers = 1;
  c.num_attention_heads = 2;
  c.max_position_embeddings = 20;
  c.encoder.type_vocab_size = type == "distilbert" ? 0 : 2;
  c.encoder.pooler = type == "bert";
  c.num_labels = 3;
  return c;
}

std::vector<std::string> Names(const ModelConfig& config) {
  std::vector<std::string> names;
  for (const Module& m : Modules(config)) names.push_back(m.name);
  return names;
}

std::vector<std::string> Saved(const ModelConfig& config) {
  std::vector<std::string> names;
  auto saved = MatchModulesToSave(EffectiveLora({}, config), config);
  EXPECT_TRUE(saved.ok()) << saved.status();
  for (const Module& m : *saved) names.push_back(m.name);
  return names;
}

// As named_modules() of BertForSequenceClassification has them.
TEST(EncoderModules, Bert) {
  EXPECT_THAT(Names(Tiny("bert")),
              ElementsAre("bert.embeddings.word_embeddings",
                          "bert.embeddings.position_embeddings",
                          "bert.embeddings.token_type_embeddings",
                          "bert.embeddings.LayerNorm",
                          "bert.encoder.layer.0.attention.self.query",
                          "bert.encoder.layer.0.attention.self.key",
                          "bert.encoder.layer.0.attention.self.value",
                          "bert.encoder.layer.0.attention.output.dense",
                          "bert.encoder.layer.0.attention.output.LayerNorm",
                          "bert.encoder.layer.0.intermediate.dense",
                          "bert.encoder.layer.0.output.dense",
                          "bert.encoder.layer.0.output.LayerNorm",
                          "bert.pooler.dense", "classifier"));
  EXPECT_THAT(Saved(Tiny("bert")), ElementsAre("classifier"));
}

TEST(EncoderModules, RobertasHeadIsTwoLinears) {
  EXPECT_THAT(Saved(Tiny("roberta")),
              ElementsAre("classifier.dense", "classifier.out_proj"));
}

// PEFT compares suffixes: "classifier" takes pre_classifier along.
TEST(EncoderModules, DistilBertsPreClassifierIsSavedToo) {
  EXPECT_THAT(Saved(Tiny("distilbert")),
              ElementsAre("pre_classifier", "classifier"));
}

TEST(EncoderModules, DefaultTargetsAreQueriesAndValues) {
  for (const char* type : {"bert", "roberta", "distilbert"}) {
    const ModelConfig config = Tiny(type);
    auto targets = MatchTargets(EffectiveLora({}, config), config);
    ASSERT_TRUE(targets.ok()) << targets.status();
    EXPECT_EQ(targets->size(), 2) << type;
  }
}

TEST(EncoderModules, AllLinearLeavesTheHeadOut) {
  const ModelConfig config = Tiny("bert");
  LoraSpec lora;
  lora.target_modules = LoraSpec::AllLinear();
  auto targets = MatchTargets(EffectiveLora(lora, config), config);
  ASSERT_TRUE(targets.ok());
  EXPECT_EQ(targets->size(), 7);  // six of the layer, the pooler
  EXPECT_EQ(targets->back().name, "bert.pooler.dense");
}

TEST(EncoderModules, ErrorsListThisModelsLayers) {
  const ModelConfig config = Tiny("bert");
  LoraSpec lora;
  lora.target_modules = std::vector<std::string>{"q_proj"};
  const auto targets = MatchTargets(lora, config);
  EXPECT_THAT(std::string(targets.status().message()),
              testing::HasSubstr("attention.self.query"));
  EXPECT_THAT(
      std::string(targets.status().message()),
      testing::HasSubstr("in bert.encoder.layer.0 to bert.encoder.layer.0, and "
                         "bert.pooler.dense, classifier"));
}

}  // namespace
}  // namespace mpsd::spec
