// SPDX-License-Identifier: Apache-2.0
#include "core/spec/encoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/spec/model_config.h"

namespace mpsd::spec {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// config.json of released models, the fields without bearing left out.
constexpr char kBertBase[] = R"({
  "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1,
  "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768,
  "initializer_range": 0.02, "intermediate_size": 3072,
  "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
  "model_type": "bert", "num_attention_heads": 12, "num_hidden_layers": 12,
  "pad_token_id": 0, "position_embedding_type": "absolute",
  "type_vocab_size": 2, "vocab_size": 28996})";
constexpr char kRobertaBase[] = R"({
  "architectures": ["RobertaForMaskedLM"], "hidden_act": "gelu",
  "hidden_size": 768, "intermediate_size": 3072, "layer_norm_eps": 1e-05,
  "max_position_embeddings": 514, "model_type": "roberta",
  "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 1,
  "type_vocab_size": 1, "vocab_size": 50265})";
constexpr char kDistilSst2[] = R"({
  "activation": "gelu", "architectures": ["DistilBertForSequenceClassification"],
  "attention_dropout": 0.1, "dim": 768, "dropout": 0.15, "hidden_dim": 3072,
  "id2label": {"0": "NEGATIVE", "1": "POSITIVE"},
  "max_position_embeddings": 512, "model_type": "distilbert", "n_heads": 12,
  "n_layers": 6, "pad_token_id": 0, "seq_classif_dropout": 0.3,
  "sinusoidal_pos_embds": false, "vocab_size": 30522})";
constexpr char kVitTiny[] = R"({
  "architectures": ["ViTForImageClassification"], "hidden_act": "gelu",
  "hidden_size": 192, "image_size": [224, 224], "intermediate_size": 768,
  "layer_norm_eps": 1e-12, "model_type": "vit", "num_attention_heads": 3,
  "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16,
  "qkv_bias": true})";

ModelConfig Parse(const std::string& json) {
  auto config = ParseModelConfig(json, "config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : ModelConfig();
}

std::string With(std::string json, const std::string& field) {
  return json.insert(json.rfind('}'), ", " + field);
}

void ExpectError(const std::string& json, const std::string& text) {
  auto config = ParseModelConfig(json, "config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(std::string(config.status().message()), HasSubstr(text));
}

TEST(EncoderConfig, ReadsBert) {
  const ModelConfig c = Parse(kBertBase);
  EXPECT_EQ(c.family, Family::kEncoder);
  EXPECT_EQ(c.hidden_size, 768);
  EXPECT_EQ(c.head_dim, 64);
  EXPECT_EQ(c.num_key_value_heads, 12);
  EXPECT_TRUE(c.encoder.pooler);
  EXPECT_EQ(c.encoder.type_vocab_size, 2);
  EXPECT_EQ(c.encoder.classifier_dropout, 0.1);
  EXPECT_EQ(c.encoder.first_position, 0);
  EXPECT_FALSE(c.head.num_labels.has_value());
  // BertModel's 108,310,272 parameters: embeddings, 12 layers, no pooler.
  EXPECT_EQ(ParameterCount(c), 108'310'272 - (768 * 768 + 768));
}

TEST(EncoderConfig, RobertaCountsPositionsBehindPadding) {
  const ModelConfig c = Parse(kRobertaBase);
  EXPECT_EQ(c.encoder.first_position, 2);
  EXPECT_FALSE(c.encoder.pooler);
  EXPECT_EQ(c.encoder.type_vocab_size, 1);
  // RobertaForSequenceClassification with two labels: 124,647,170.
  ModelConfig classifier = c;
  classifier.num_labels = 2;
  EXPECT_EQ(ParameterCount(classifier), 124'647'170);
}

TEST(EncoderConfig, ReadsDistilBertsNames) {
  const ModelConfig c = Parse(kDistilSst2);
  EXPECT_EQ(c.hidden_size, 768);
  EXPECT_EQ(c.intermediate_size, 3072);
  EXPECT_EQ(c.num_hidden_layers, 6);
  EXPECT_EQ(c.encoder.hidden_dropout_prob, 0.15);
  EXPECT_EQ(c.encoder.classifier_dropout, 0.3);
  EXPECT_EQ(c.encoder.type_vocab_size, 0);
  EXPECT_THAT(c.head.label_names, ElementsAre("NEGATIVE", "POSITIVE"));
  ModelConfig classifier = c;
  classifier.num_labels = 2;
  EXPECT_EQ(ParameterCount(classifier), 66'955'010);
}

TEST(EncoderConfig, ReadsVit) {
  const ModelConfig c = Parse(kVitTiny);
  EXPECT_EQ(c.family, Family::kVision);
  EXPECT_EQ(c.vision.image_size, 224);
  EXPECT_EQ(c.vision.patches(), 196);
  EXPECT_EQ(c.max_position_embeddings, 197);
  EXPECT_EQ(c.encoder.hidden_dropout_prob, 0);
  ModelConfig classifier = c;
  classifier.num_labels = 1000;
  EXPECT_EQ(ParameterCount(classifier), 5'717'416);  // timm's vit_tiny_patch16
}

TEST(EncoderConfig, LabelsThatTransformersMadeUpAreNoNames) {
  const ModelConfig c = Parse(
      With(kBertBase,
           R"("id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})"));
  EXPECT_EQ(c.head.num_labels, 3);
  EXPECT_TRUE(c.head.label_names.empty());
}

TEST(EncoderConfig, RefusesWhatWouldBeAnotherNetwork) {
  ExpectError(
      With(kRobertaBase, R"("position_embedding_type": "relative_key")"),
      "position_embedding_type: supported is \"absolute\"");
  ExpectError(With(kRobertaBase, R"("is_decoder": true)"), "is_decoder");
  ExpectError(With(kRobertaBase, R"("quantization_config": {"bits": 4})"),
              "quantization_config");
  std::string act = kBertBase;
  act.replace(act.find("\"gelu\""), 6, "\"mish\"");
  ExpectError(act, "hidden_act: supported are gelu");
}

TEST(EncoderConfig, NamesWhatIsMissingOrWrong) {
  ExpectError(R"({"model_type": "bert"})",
              "hidden_size: missing; expected an integer >= 1");
  ExpectError(R"({"model_type": "distilbert", "vocab_size": 9})",
              "dim: missing");
  std::string heads = kBertBase;
  heads.replace(heads.find("\"num_attention_heads\": 12"), 25,
                "\"num_attention_heads\": 7 ");
  ExpectError(heads, "num_attention_heads: expected a divisor of hidden_size");
  ExpectError(With(kBertBase, R"("id2label": {"0": "a", "2": "b"})"),
              "id2label: expected a name for each id from 0 to 1");
  std::string sides = kVitTiny;
  sides.replace(sides.find("[224, 224]"), 10, "[224, 192]");
  ExpectError(sides,
              "image_size: expected an integer >= 1 and <= 32768, or two equ");
}

TEST(EncoderConfig, SizesHaveBounds) {
  const auto replaced = [](std::string json, const std::string& from,
                           const std::string& to) {
    EXPECT_NE(json.find(from), std::string::npos) << from;
    return json.replace(json.find(from), from.size(), to);
  };
  ExpectError(replaced(kBertBase, "\"num_hidden_layers\": 12",
                       "\"num_hidden_layers\": 10001"),
              "num_hidden_layers: expected an integer >= 1 and <= 10000");
  ExpectError(replaced(kBertBase, "\"max_position_embeddings\": 512",
                       "\"max_position_embeddings\": 2147483649"),
              "max_position_embeddings: expected an integer >= 1 and <= 2147");
  ExpectError(replaced(kBertBase, "\"type_vocab_size\": 2",
                       "\"type_vocab_size\": 2147483649"),
              "type_vocab_size: expected an integer >= 0 and <= 2147483648");
  ExpectError(replaced(kVitTiny, "[224, 224]", "[32769, 32769]"),
              "image_size: expected an integer >= 1 and <= 32768, or two");
  ExpectError(replaced(kVitTiny, "[224, 224]", "32769"),
              "image_size: expected an integer >= 1 and <= 32768, found");
  const std::string wide = replaced(kVitTiny, "[224, 224]", "32768");
  ExpectError(
      replaced(wide, "\"num_channels\": 3", "\"num_channels\": 2147483648"),
      "num_channels: expected at most 2147483648 values of a patch");
}

}  // namespace
}  // namespace mpsd::spec
