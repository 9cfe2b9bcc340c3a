// SPDX-License-Identifier: Apache-2.0
#include "core/spec/targets.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/limits.h"
#include "core/spec/python_regex.h"
#include "tests/core/status_matchers.h"

namespace mpsd::spec {
namespace {

using ::testing::ElementsAre;
using testing_support::Says;
using Names = std::vector<std::string>;

ModelConfig Tiny() {
  ModelConfig c;
  c.model_type = "llama";
  c.vocab_size = 10;
  c.hidden_size = 8;
  c.intermediate_size = 12;
  c.num_hidden_layers = 2;
  c.num_attention_heads = 4;
  c.num_key_value_heads = 2;
  c.head_dim = 2;
  return c;
}

LoraSpec Targeting(LoraSpec::Targets targets) {
  LoraSpec lora;
  lora.target_modules = std::move(targets);
  return lora;
}

Names MatchedNames(const LoraSpec& lora) {
  const auto matches = MatchTargets(lora, Tiny());
  EXPECT_TRUE(matches.ok()) << matches.status();
  Names names;
  if (!matches.ok()) return names;
  for (const TargetMatch& match : *matches) names.push_back(match.name);
  return names;
}

std::string Error(const LoraSpec& lora) {
  const auto matches = MatchTargets(lora, Tiny());
  EXPECT_TRUE(absl::IsInvalidArgument(matches.status()));
  return std::string(matches.status().message());
}

constexpr char kThereAre[] =
    "the linear layers of this model are self_attn.q_proj, self_attn.k_proj, "
    "self_attn.v_proj, self_attn.o_proj, mlp.gate_proj, mlp.up_proj, "
    "mlp.down_proj in model.layers.0 to model.layers.1, and lm_head";

TEST(MatchTargets, AreNamedByListRegexOrAllLinear) {
  EXPECT_THAT(MatchedNames(LoraSpec()),
              ElementsAre("model.layers.0.self_attn.q_proj",
                          "model.layers.0.self_attn.v_proj",
                          "model.layers.1.self_attn.q_proj",
                          "model.layers.1.self_attn.v_proj"));
  EXPECT_THAT(MatchedNames(Targeting(Names{"model.layers.1.mlp.up_proj",
                                           "lm_head", "0.self_attn.k_proj"})),
              ElementsAre("model.layers.0.self_attn.k_proj",
                          "model.layers.1.mlp.up_proj", "lm_head"));
  EXPECT_THAT(MatchedNames(Targeting(std::string(R"(.*\.1\..*(k|o)_proj)"))),
              ElementsAre("model.layers.1.self_attn.k_proj",
                          "model.layers.1.self_attn.o_proj"));
  EXPECT_EQ(Error(Targeting(std::string("q_proj"))),
            std::string("lora.target_modules: the regular expression "
                        "\"q_proj\" matches no linear layer as a whole; write "
                        "[\"q_proj\"] or \".*q_proj\" for every q_proj; ") +
                kThereAre);
  const Names names = MatchedNames(Targeting(LoraSpec::AllLinear()));
  EXPECT_EQ(names.size(), 14u);
  EXPECT_EQ(names.back(), "model.layers.1.mlp.down_proj");
  LoraSpec lora = Targeting(Names{"q_proj", "lm_head"});
  lora.modules_to_save = {"lm_head", "layers.0"};
  EXPECT_THAT(MatchedNames(lora),
              ElementsAre("model.layers.1.self_attn.q_proj"));
}

TEST(MatchTargets, GivesRankScaleAndShape) {
  LoraSpec lora = Targeting(Names{"v_proj"});
  lora.r = 4;
  lora.lora_alpha = 32;
  EXPECT_EQ((*MatchTargets(lora, Tiny()))[0],
            (TargetMatch{"model.layers.0.self_attn.v_proj", 4, 32, 8, 8, 4}));
  lora.use_rslora = true;
  EXPECT_EQ((*MatchTargets(lora, Tiny()))[0].scaling, 16);
}

TEST(MatchTargets, AnUnmatchedEntryIsAnError) {
  EXPECT_EQ(Error(Targeting(Names{"q_proj", "v_prj"})),
            std::string("lora.target_modules: \"v_prj\" matches no linear "
                        "layer; ") +
                kThereAre + "; did you mean \"v_proj\"?");
  EXPECT_EQ(Error(Targeting(Names{"embed_tokens"})),
            std::string("lora.target_modules: \"embed_tokens\" matches no "
                        "linear layer; ") +
                kThereAre +
                "; \"embed_tokens\" can be trained whole through "
                "modules_to_save");
  EXPECT_EQ(Error(Targeting(Names{"proj"})),
            std::string("lora.target_modules: \"proj\" matches no linear "
                        "layer; ") +
                kThereAre);
}

TEST(MatchTargets, KeepsOnlyTheLayersAskedFor) {
  LoraSpec lora;
  lora.layers_to_transform = {1};
  EXPECT_THAT(MatchedNames(lora),
              ElementsAre("model.layers.1.self_attn.q_proj",
                          "model.layers.1.self_attn.v_proj"));
  lora.layers_to_transform = std::vector<int64_t>();
  EXPECT_EQ(MatchedNames(lora).size(), 4u);
  lora.layers_to_transform = {2};
  EXPECT_EQ(Error(lora),
            "lora.layers_to_transform: there is no layer 2; expected numbers "
            "from 0 to 1");
  lora = Targeting(Names{"lm_head"});
  lora.layers_to_transform = {0};
  EXPECT_EQ(Error(lora),
            "lora.target_modules: layers_to_transform and modules_to_save "
            "leave no linear layer to adapt");
}

TEST(MatchTargets, TheFirstPatternThatMatchesCounts) {
  LoraSpec lora = Targeting(Names{"q_proj", "v_proj"});
  lora.rank_pattern = {{"layers.1.self_attn.q_proj", 2}, {"q_proj", 16}};
  lora.alpha_pattern = {{"^model.layers.0.*", 64}};
  const auto matches = *MatchTargets(lora, Tiny());
  EXPECT_EQ(matches[0].r, 16);
  EXPECT_EQ(matches[0].alpha, 64);
  EXPECT_EQ(matches[0].scaling, 4);
  EXPECT_EQ(matches[1].r, 8);
  EXPECT_EQ(matches[1].alpha, 64);
  EXPECT_EQ(matches[2].r, 2);
  EXPECT_EQ(matches[2].alpha, 8);
  lora.rank_pattern = {{"q_proj", 16}, {"layers.1.self_attn.q_proj", 2}};
  EXPECT_EQ((*MatchTargets(lora, Tiny()))[2].r, 16);
}

TEST(CheckPatternKeys, AKeyThatMatchesNothingIsRefused) {
  LoraSpec lora = Targeting(Names{"q_proj", "v_proj"});
  lora.rank_pattern = {{"q_proj", 4}, {"layers.1.self_attn.v_proj", 2}};
  // Behind another key, and yet of a layer.
  lora.alpha_pattern = {{"^model.layers.*", 4}, {"q_proj", 8}};
  EXPECT_TRUE(CheckPatternKeys(lora, Tiny()).ok());
  lora.rank_pattern["q_porj"] = 2;
  EXPECT_EQ(CheckPatternKeys(lora, Tiny()).message(),
            "lora.rank_pattern: \"q_porj\" matches no layer that is adapted; "
            "those are q_proj, v_proj (see target_modules); did you mean "
            "\"q_proj\"?");
  lora.rank_pattern = {};
  lora.alpha_pattern["k_proj"] = 2;  // there, and not adapted
  EXPECT_THAT(CheckPatternKeys(lora, Tiny()),
              Says("lora.alpha_pattern: \"k_proj\" matches no layer"));
  EXPECT_TRUE(MatchTargets(lora, Tiny()).ok()) << "an adapter's own may";
}

// Keys that are names take a way of their own.
TEST(MatchTargets, AKeyThatIsANameMatchesAsItsRegexDoes) {
  LoraSpec all = Targeting(LoraSpec::AllLinear());
  const auto modules = MatchTargets(all, Tiny());
  for (const std::string key :
       {"q_proj", "self_attn.q_proj", "layers.1.mlp.up_proj", "proj", "_proj",
        "model.layers.0.self_attn.k_proj", ".q_proj", "self_attn.", "o.proj",
        "model.layers...self_attn.v_proj", "x.model.layers.0.mlp.up_proj",
        "..........", "mlp-up_proj"}) {
    LoraSpec lora = all;
    lora.r = 8;
    lora.rank_pattern = {{key, 3}};
    const auto regex = PythonRegex::Compile(PatternKeyRegex(key)).value();
    const auto matches = MatchTargets(lora, Tiny()).value();
    for (size_t i = 0; i < matches.size(); ++i) {
      EXPECT_EQ(matches[i].r, regex.FullMatch((*modules)[i].name) ? 3 : 8)
          << key << " " << (*modules)[i].name;
    }
  }
}

// A list of every name, and a key of its own for each of them.
TEST(MatchTargets, NamesAreLookedUp) {
  ModelConfig large = Tiny();
  large.num_hidden_layers = 500;
  Names names;
  LoraSpec lora = Targeting(LoraSpec::AllLinear());
  const auto all = MatchTargets(lora, large);
  for (const TargetMatch& match : *all) names.push_back(match.name);
  lora.target_modules = names;
  lora.layers_to_transform.emplace();
  for (int64_t i = 0; i < 500; ++i) lora.layers_to_transform->push_back(i);
  for (size_t i = 0; i < names.size(); i += 2) lora.rank_pattern[names[i]] = 4;
  const auto matches = MatchTargets(lora, large).value();
  EXPECT_EQ(matches.size(), 3500u);
  EXPECT_EQ(matches[2].r, 4);
  EXPECT_EQ(matches[3].r, 8);
  EXPECT_TRUE(CheckPatternKeys(lora, large).ok());
}

TEST(MatchTargets, PatternsThatTakeTooLongAreRefused) {
  ModelConfig large = Tiny();
  large.num_hidden_layers = limits::kModelLayers;
  std::string slow;
  for (int i = 0; i < 40; ++i) slow += "(.*.*)*";
  const auto error = [&](const LoraSpec& lora) {
    const auto matches = MatchTargets(lora, large);
    EXPECT_TRUE(absl::IsInvalidArgument(matches.status()));
    return std::string(matches.status().message());
  };
  const std::string words =
      ": takes more than 20000000 steps to match with the modules of this "
      "model; write fewer or simpler patterns";
  EXPECT_EQ(error(Targeting(slow)), "lora.target_modules" + words);
  LoraSpec lora = Targeting(LoraSpec::AllLinear());
  lora.rank_pattern = {{slow + "x", 2}};
  EXPECT_EQ(error(lora), "lora.rank_pattern" + words);
  lora.rank_pattern = {};
  for (int i = 0; i < 4096; ++i) {
    lora.alpha_pattern["name" + std::to_string(i)] = 2;
  }
  EXPECT_EQ(error(lora), "lora.alpha_pattern" + words);
  // What people write is far from it, whatever the model.
  EXPECT_TRUE(MatchTargets(Targeting(".*self_attn.(q|v)_proj"), Tiny()).ok());
  large.num_hidden_layers = 1000;
  EXPECT_TRUE(MatchTargets(Targeting(".*self_attn.(q|v)_proj"), large).ok());
}

TEST(MatchModulesToSave, MatchesSuffixesAsPeftDoes) {
  LoraSpec lora;
  lora.modules_to_save = {"embed_tokens", "lm_head"};
  auto saved = MatchModulesToSave(lora, Tiny()).value();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].name, "model.embed_tokens");
  EXPECT_EQ(saved[1].name, "lm_head");
  lora.modules_to_save = {"norm"};
  EXPECT_EQ(MatchModulesToSave(lora, Tiny())->size(), 5u);
  lora.modules_to_save = {"classifier"};
  EXPECT_EQ(MatchModulesToSave(lora, Tiny()).status().message(),
            "lora.modules_to_save: no module with weights ends in "
            "\"classifier\"; there are model.embed_tokens, model.norm, "
            "lm_head, and in each layer self_attn.q_proj and so on");
}

}  // namespace
}  // namespace mpsd::spec
