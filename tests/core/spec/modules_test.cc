// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "core/base/limits.h"
#include "core/spec/python_regex.h"
#include "core/spec/quantization.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "tests/core/status_matchers.h"

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

ModelConfig EncoderModulesTiny(const std::string& type) {
  ModelConfig c;
  c.family = Family::kEncoder;
  c.model_type = type;
  c.vocab_size = 50;
  c.hidden_size = 16;
  c.intermediate_size = 32;
  c.num_hidden_layers = 1;
  c.num_attention_heads = 2;
  c.max_position_embeddings = 20;
  c.encoder.network = type;
  c.encoder.embedding_size = c.hidden_size;
  c.encoder.type_vocab_size = type == "distilbert" ? 0 : 2;
  c.encoder.pooler = type == "bert";
  c.num_labels = 3;
  return c;
}

TEST(EncoderModules, AllLinearLeavesTheHeadOutAndErrorsListThisModelsLayers) {
  const ModelConfig config = EncoderModulesTiny("bert");
  LoraSpec lora;
  lora.target_modules = LoraSpec::AllLinear();
  auto targets = MatchTargets(EffectiveLora(lora, config), config).value();
  EXPECT_EQ(targets.size(), 7);  // six of the layer, the pooler
  EXPECT_EQ(targets.back().name, "bert.pooler.dense");
  lora.target_modules = std::vector<std::string>{"q_proj"};
  const auto none = MatchTargets(lora, config);
  EXPECT_THAT(none, Says("attention.self.query"));
  EXPECT_THAT(none, Says("in bert.encoder.layer.0 to bert.encoder.layer.0, and "
                         "bert.pooler.dense, classifier"));
}

bool FullMatch(std::string_view pattern, std::string_view name) {
  const auto regex = PythonRegex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  return regex.ok() && regex->FullMatch(name);
}

struct Case {
  std::string pattern;
  std::string name;
  bool matches;  // what Python's re.fullmatch says
};

const char kQ[] = "model.layers.12.self_attn.q_proj";

TEST(PythonRegex, MatchesAsFullmatchDoes) {
  const Case cases[] = {
      {R"(.*\.(q|v)_proj)", kQ, true},
      {"q_proj", kQ, false},
      {R"(^model\.layers\.(1[0-9]|2\d)\..*q_proj$)", kQ, true},
      {R"(model\.layers\.\d\..*)", kQ, false},
      {R"((?:.*)(?!k)._proj)", kQ, true},
      {R"((?:.*)(?!q)._proj)", kQ, false},
      {R"((?!.*self_attn).*)", kQ, false},
      {R"((?=model).*proj)", kQ, true},
      {R"(.*self_attn.*?)", kQ, true},
      {R"([\w.]{10,40})", kQ, true},
      {R"([\w.]{40})", kQ, false},
      {R"([^\d]+12[^\d]+)", kQ, true},
      {R"((?P<layer>.*)q_proj\Z)", kQ, true},
      {R"(\A.*\bq_proj)", kQ, true},
      {R"(.*\Bproj)", kQ, true},
      {R"(.*\bproj)", kQ, false},
      {"lm_head|.*q_proj", kQ, true},
      {"lm_head|.*q_proj", "lm_head", true},
      {"q|q_proj2", "q_proj", false},
      {"", "", true},
      {"", "q", false},
      {R"(.*(?<!k)_proj)", kQ, true},
      {R"(.*(?<!q)_proj)", kQ, false},
      {"(?i)Q_PROJ", "q_proj", true},
      {"(a|ab)(c|bcd)", "abcd", true},
      {"a{2,}", "a", false},
      {"a{x}", "a{x}", true},
      {"[]a]+", "]a", true},
      {"[a-]+", "a-", true},
      {R"(\x71_proj)", "q_proj", true},
      {"(a*)*b", "aaab", true},
      {"(a|)+", "aa", true},
      {"(a?){3}b", "ab", true},
      {"(|a)+b", "aab", true}};
  for (const Case& c : cases) {
    EXPECT_EQ(FullMatch(c.pattern, c.name), c.matches) << c.pattern;
  }
}

TEST(PythonRegex, TakesBoundedTime) {
  const std::string name(200, 'a');
  EXPECT_FALSE(FullMatch("((a*)*)*[bc]", name));
  EXPECT_FALSE(FullMatch("(.*)*(.*)*(.*)*[xy]", name));
  EXPECT_FALSE(FullMatch("a*", std::string(PythonRegex::kMaxName + 1, 'a')));
  EXPECT_TRUE(FullMatch("a*", std::string(PythonRegex::kMaxName, 'a')));
  int64_t steps = 0;
  const std::string nested = "(?=.*(?=.*(?=.*(?=.*[xy]))))a*";
  EXPECT_FALSE(PythonRegex::Compile(nested)->FullMatch(name, &steps));
  EXPECT_GT(steps, limits::kMatchSteps) << "too complex, which is said";
}

TEST(PythonRegex, ErrorsGiveTheReason) {
  const std::pair<std::string, std::string> cases[] = {
      {"(q)\\1", "\"(q)\\1\" has a back reference, which is not supported"},
      {"a{,2}", "\"a{,2}\" has \"{,\", which is not supported"},
      {"(*UTF)q", "has \"(*\", which is not supported"},
      {"q**", "is wrong at byte 2: quantifier does not follow"},
      {"(q", "is wrong at byte 2: missing closing parenthesis"},
      {"((a{0,9999}){0,9999}){0,9999}b", "regular expression is too large"},
      {std::string(400, '('), "parentheses are too deeply nested"},
      {std::string(1001, 'q'), "expression is longer than 1000 bytes"}};
  for (const auto& [pattern, reason] : cases) {
    EXPECT_THAT(PythonRegex::Compile(pattern).status(), Says(reason))
        << pattern;
  }
}

constexpr char kQuantizationQ[] = "model.layers.3.self_attn.q_proj";

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

TEST(QuantizesTest, TakesTheLinearsOfBlocksButSkipsNamesAndTheirEnds) {
  EXPECT_FALSE(Quantizes(QuantizationSpec(), kQuantizationQ));
  EXPECT_TRUE(Quantizes(Four(), kQuantizationQ));
  EXPECT_FALSE(Quantizes(Four(), "lm_head"));
  EXPECT_FALSE(Quantizes(Four(), "score"));
  QuantizationSpec spec = Four();
  spec.llm_int8_skip_modules = {"q_proj", "model.layers.2", "self_attn.k"};
  EXPECT_FALSE(Quantizes(spec, kQuantizationQ));
  EXPECT_FALSE(Quantizes(spec, "model.layers.2.mlp.up_proj"));
  EXPECT_TRUE(Quantizes(spec, "model.layers.20.mlp.up_proj"));
  EXPECT_TRUE(Quantizes(spec, "model.layers.3.self_attn.k_proj"));
}

absl::StatusOr<QuantizationSpec> Stored(const std::string& json) {
  return ReadStoredQuantization(*ParseJson(json, "config.json"));
}

TEST(ReadStoredQuantizationTest, ReadsWhatBitsandbytesWritesAndRefusesOthers) {
  const auto nf4 = *Stored(R"({"quant_method": "bitsandbytes",
      "load_in_4bit": true, "load_in_8bit": false,
      "bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": true})");
  EXPECT_TRUE(nf4.load_in_4bit);
  EXPECT_TRUE(nf4.bnb_4bit_use_double_quant);
  const auto int8 =
      *Stored(R"({"quant_method": "bitsandbytes", "load_in_8bit": true})");
  EXPECT_TRUE(int8.load_in_8bit);
  for (const char* json :
       {R"({"quant_method": "gptq", "bits": 4})", R"({"bits": 4})",
        R"({"quant_method": "bitsandbytes"})",
        R"({"quant_method": "bitsandbytes", "load_in_4bit": true,
            "bnb_4bit_quant_type": "fp4"})"}) {
    EXPECT_TRUE(absl::IsUnimplemented(Stored(json).status())) << json;
  }
}

TEST(CheckQuantizationTest, IsForDecodersAndLoraAndTakesAStoredModelAsItIs) {
  TrainSpec job;
  job.quantization_config = Four();
  EXPECT_TRUE(CheckQuantization(job, Decoder()).ok());
  ModelConfig bert = Decoder();
  bert.family = Family::kEncoder;
  EXPECT_TRUE(absl::IsUnimplemented(CheckQuantization(job, bert)));
  job.fine_tune_type = FineTuneType::kFull;
  EXPECT_TRUE(absl::IsInvalidArgument(CheckQuantization(job, Decoder())));
  ModelConfig stored = Decoder();
  stored.quantization = Four();
  EXPECT_TRUE(CheckQuantization({}, stored).ok());
  EXPECT_THAT(CheckQuantization(job, stored), Says("stored quantized"));
  // A quantized linear cannot be trained whole.
  job.fine_tune_type = FineTuneType::kLora;
  job.lora.modules_to_save = {"lm_head"};
  EXPECT_TRUE(CheckQuantization(job, Decoder()).ok());
  job.lora.modules_to_save = {"up_proj"};
  EXPECT_THAT(CheckQuantization(job, Decoder()),
              Says("model.layers.0.mlp.up_proj is quantized and cannot be"));
  job.quantization_config.llm_int8_skip_modules = {"up_proj"};
  EXPECT_TRUE(CheckQuantization(job, Decoder()).ok());
}

using ::testing::ElementsAre;
using NameList = std::vector<std::string>;

ModelConfig TinyLlama() {
  ModelConfig c = Tiny();
  c.model_type = "llama";
  c.head_dim = 2;
  c.qk_norm = c.qkv_bias = false;
  return c;
}

LoraSpec Targeting(LoraSpec::Targets targets) {
  LoraSpec lora;
  lora.target_modules = std::move(targets);
  return lora;
}

NameList MatchedNames(const LoraSpec& lora) {
  const auto matches = MatchTargets(lora, TinyLlama());
  EXPECT_TRUE(matches.ok()) << matches.status();
  NameList names;
  if (!matches.ok()) return names;
  for (const TargetMatch& match : *matches) names.push_back(match.name);
  return names;
}

std::string Error(const LoraSpec& lora) {
  const auto matches = MatchTargets(lora, TinyLlama());
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
  EXPECT_THAT(
      MatchedNames(Targeting(NameList{"model.layers.1.mlp.up_proj", "lm_head",
                                      "0.self_attn.k_proj"})),
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
  const NameList names = MatchedNames(Targeting(LoraSpec::AllLinear()));
  EXPECT_EQ(names.size(), 14u);
  EXPECT_EQ(names.back(), "model.layers.1.mlp.down_proj");
  LoraSpec lora = Targeting(NameList{"q_proj", "lm_head"});
  lora.modules_to_save = {"lm_head", "layers.0"};
  EXPECT_THAT(MatchedNames(lora),
              ElementsAre("model.layers.1.self_attn.q_proj"));
}

TEST(MatchTargets, GivesRankScaleAndShape) {
  LoraSpec lora = Targeting(NameList{"v_proj"});
  lora.r = 4;
  lora.lora_alpha = 32;
  EXPECT_EQ((*MatchTargets(lora, TinyLlama()))[0],
            (TargetMatch{"model.layers.0.self_attn.v_proj", 4, 32, 8, 8, 4}));
  lora.use_rslora = true;
  EXPECT_EQ((*MatchTargets(lora, TinyLlama()))[0].scaling, 16);
}

TEST(MatchTargets, AnUnmatchedEntryIsAnError) {
  EXPECT_EQ(Error(Targeting(NameList{"q_proj", "v_prj"})),
            std::string("lora.target_modules: \"v_prj\" matches no linear "
                        "layer; ") +
                kThereAre + "; did you mean \"v_proj\"?");
  EXPECT_EQ(Error(Targeting(NameList{"embed_tokens"})),
            std::string("lora.target_modules: \"embed_tokens\" matches no "
                        "linear layer; ") +
                kThereAre +
                "; \"embed_tokens\" can be trained whole through "
                "modules_to_save");
  EXPECT_EQ(Error(Targeting(NameList{"proj"})),
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
  lora = Targeting(NameList{"lm_head"});
  lora.layers_to_transform = {0};
  EXPECT_EQ(Error(lora),
            "lora.target_modules: layers_to_transform and modules_to_save "
            "leave no linear layer to adapt");
}

TEST(MatchTargets, TheFirstPatternThatMatchesCounts) {
  LoraSpec lora = Targeting(NameList{"q_proj", "v_proj"});
  lora.rank_pattern = {{"layers.1.self_attn.q_proj", 2}, {"q_proj", 16}};
  lora.alpha_pattern = {{"^model.layers.0.*", 64}};
  const auto matches = *MatchTargets(lora, TinyLlama());
  EXPECT_EQ(matches[0].r, 16);
  EXPECT_EQ(matches[0].alpha, 64);
  EXPECT_EQ(matches[0].scaling, 4);
  EXPECT_EQ(matches[1].r, 8);
  EXPECT_EQ(matches[1].alpha, 64);
  EXPECT_EQ(matches[2].r, 2);
  EXPECT_EQ(matches[2].alpha, 8);
  lora.rank_pattern = {{"q_proj", 16}, {"layers.1.self_attn.q_proj", 2}};
  EXPECT_EQ((*MatchTargets(lora, TinyLlama()))[2].r, 16);
}

TEST(CheckPatternKeys, AKeyThatMatchesNothingIsRefused) {
  LoraSpec lora = Targeting(NameList{"q_proj", "v_proj"});
  lora.rank_pattern = {{"q_proj", 4}, {"layers.1.self_attn.v_proj", 2}};
  // After another key, and yet of a layer.
  lora.alpha_pattern = {{"^model.layers.*", 4}, {"q_proj", 8}};
  EXPECT_TRUE(CheckPatternKeys(lora, TinyLlama()).ok());
  lora.rank_pattern["q_porj"] = 2;
  EXPECT_EQ(CheckPatternKeys(lora, TinyLlama()).message(),
            "lora.rank_pattern: \"q_porj\" matches no layer that is adapted; "
            "those are q_proj, v_proj (see target_modules); did you mean "
            "\"q_proj\"?");
  lora.rank_pattern = {};
  lora.alpha_pattern["k_proj"] = 2;  // there, and not adapted
  EXPECT_THAT(CheckPatternKeys(lora, TinyLlama()),
              Says("lora.alpha_pattern: \"k_proj\" matches no layer"));
  EXPECT_TRUE(MatchTargets(lora, TinyLlama()).ok()) << "an adapter's own may";
}

// Keys that are names take a way of their own.
TEST(MatchTargets, AKeyThatIsANameMatchesAsItsRegexDoes) {
  LoraSpec all = Targeting(LoraSpec::AllLinear());
  const auto modules = MatchTargets(all, TinyLlama());
  for (const std::string key :
       {"q_proj", "self_attn.q_proj", "layers.1.mlp.up_proj", "proj", "_proj",
        "model.layers.0.self_attn.k_proj", ".q_proj", "self_attn.", "o.proj",
        "model.layers...self_attn.v_proj", "x.model.layers.0.mlp.up_proj",
        "..........", "mlp-up_proj"}) {
    LoraSpec lora = all;
    lora.r = 8;
    lora.rank_pattern = {{key, 3}};
    const auto regex = PythonRegex::Compile(PatternKeyRegex(key)).value();
    const auto matches = MatchTargets(lora, TinyLlama()).value();
    for (size_t i = 0; i < matches.size(); ++i) {
      EXPECT_EQ(matches[i].r, regex.FullMatch((*modules)[i].name) ? 3 : 8)
          << key << " " << (*modules)[i].name;
    }
  }
}

// A list of every name, and a key of its own for each of them.
TEST(MatchTargets, NamesAreLookedUp) {
  ModelConfig large = TinyLlama();
  large.num_hidden_layers = 500;
  NameList names;
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
  ModelConfig large = TinyLlama();
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
  // What people write is far from it, for every model.
  EXPECT_TRUE(
      MatchTargets(Targeting(".*self_attn.(q|v)_proj"), TinyLlama()).ok());
  large.num_hidden_layers = 1000;
  EXPECT_TRUE(MatchTargets(Targeting(".*self_attn.(q|v)_proj"), large).ok());
}

TEST(MatchModulesToSave, MatchesSuffixesAsPeftDoes) {
  LoraSpec lora;
  lora.modules_to_save = {"embed_tokens", "lm_head"};
  auto saved = MatchModulesToSave(lora, TinyLlama()).value();
  ASSERT_EQ(saved.size(), 2u);
  EXPECT_EQ(saved[0].name, "model.embed_tokens");
  EXPECT_EQ(saved[1].name, "lm_head");
  lora.modules_to_save = {"norm"};
  EXPECT_EQ(MatchModulesToSave(lora, TinyLlama())->size(), 5u);
  lora.modules_to_save = {"classifier"};
  EXPECT_EQ(MatchModulesToSave(lora, TinyLlama()).status().message(),
            "lora.modules_to_save: no module with weights ends in "
            "\"classifier\"; there are model.embed_tokens, model.norm, "
            "lm_head, and in each layer self_attn.q_proj and so on");
}

}  // namespace
}  // namespace mpsd::spec
