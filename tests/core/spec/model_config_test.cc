// SPDX-License-Identifier: Apache-2.0
#include "core/spec/model_config.h"

#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/limits.h"
#include "core/spec/modules.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::spec {
namespace {

using testing::Each;

// config.json of released models, the fields without bearing left out.
constexpr char kLlama2_7b[] = R"({
  "architectures": ["LlamaForCausalLM"], "bos_token_id": 1,
  "hidden_act": "silu", "hidden_size": 4096, "intermediate_size": 11008,
  "max_position_embeddings": 4096, "model_type": "llama",
  "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": null, "tie_word_embeddings": false,
  "torch_dtype": "float16", "vocab_size": 32000})";
constexpr char kLlama32_1b[] = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "eos_token_id": [128001, 128008, 128009],
  "head_dim": 64, "hidden_act": "silu", "hidden_size": 2048,
  "intermediate_size": 8192, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32,
  "num_hidden_layers": 16, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0,
    "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
    "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "vocab_size": 128256})";
constexpr char kMistral7bV01[] = R"({
  "architectures": ["MistralForCausalLM"], "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 14336,
  "max_position_embeddings": 32768, "model_type": "mistral",
  "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-05, "rope_theta": 10000.0,
  "sliding_window": 4096, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "vocab_size": 32000})";
constexpr char kQwen25_05b[] = R"({
  "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0,
  "hidden_act": "silu", "hidden_size": 896, "intermediate_size": 4864,
  "max_position_embeddings": 32768, "max_window_layers": 21,
  "model_type": "qwen2", "num_attention_heads": 14, "num_hidden_layers": 24,
  "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
  "sliding_window": 32768, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_sliding_window": false,
  "vocab_size": 151936})";
constexpr char kQwen3_06b[] = R"({
  "architectures": ["Qwen3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu",
  "hidden_size": 1024, "intermediate_size": 3072,
  "max_position_embeddings": 40960, "max_window_layers": 28,
  "model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28,
  "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null,
  "rope_theta": 1000000, "sliding_window": null, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "use_sliding_window": false,
  "vocab_size": 151936})";
constexpr char kGemma3_1b[] = R"({
  "architectures": ["Gemma3ForCausalLM"], "attention_bias": false,
  "attention_dropout": 0.0, "attn_logit_softcapping": null,
  "final_logit_softcapping": null, "head_dim": 256,
  "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
  "intermediate_size": 6912, "max_position_embeddings": 32768,
  "model_type": "gemma3_text", "num_attention_heads": 4,
  "num_hidden_layers": 26, "num_key_value_heads": 1,
  "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000,
  "sliding_window": 512, "sliding_window_pattern": 6,
  "torch_dtype": "bfloat16", "vocab_size": 262144})";
constexpr char kOlmo3_7b[] = R"({
  "architectures": ["Olmo3ForCausalLM"], "hidden_act": "silu",
  "hidden_size": 4096, "intermediate_size": 11008,
  "max_position_embeddings": 65536, "model_type": "olmo3",
  "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 32, "rms_norm_eps": 1e-06,
  "rope_scaling": {"attention_factor": 1.2079441541679836, "beta_fast": 32.0,
    "beta_slow": 1.0, "factor": 8.0, "original_max_position_embeddings": 8192,
    "rope_type": "yarn"},
  "rope_theta": 500000, "sliding_window": 4096, "tie_word_embeddings": false,
  "torch_dtype": "bfloat16", "vocab_size": 100278})";
constexpr char kSmolLm2_135m[] = R"({
  "architectures": ["LlamaForCausalLM"], "hidden_act": "silu",
  "hidden_size": 576, "intermediate_size": 1536, "is_llama_config": true,
  "max_position_embeddings": 8192, "model_type": "llama",
  "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
  "rms_norm_eps": 1e-05, "rope_interleaved": false, "rope_scaling": null,
  "rope_theta": 100000, "tie_word_embeddings": true,
  "torch_dtype": "bfloat16", "vocab_size": 49152})";

ModelConfig Parse(std::string_view json) {
  return ParseModelConfig(json, "config.json").value();
}

// `base` with the fields of `patch`; null removes one.
std::string Patched(std::string_view base, std::string_view patch) {
  auto json = nlohmann::ordered_json::parse(base);
  json.merge_patch(nlohmann::ordered_json::parse(patch));
  return json.dump();
}

struct Released {
  const char* json;
  int64_t parameters;  // as the model cards and Transformers count them
  int64_t head_dim;
  double rope_theta;
};

TEST(ParseModelConfig, CountsTheParametersOfReleasedModels) {
  for (const Released& model :
       std::vector<Released>{{kLlama2_7b, 6738415616, 128, 10000},
                             {kLlama32_1b, 1235814400, 64, 500000},
                             {kMistral7bV01, 7241732096, 128, 10000},
                             {kQwen25_05b, 494032768, 64, 1000000},
                             {kQwen3_06b, 596049920, 128, 1000000},
                             {kSmolLm2_135m, 134515008, 64, 100000},
                             {kGemma3_1b, 999885952, 256, 1000000},
                             {kOlmo3_7b, 7298011136, 128, 500000}}) {
    const ModelConfig config = Parse(model.json);
    EXPECT_EQ(ParameterCount(config), model.parameters);
    EXPECT_EQ(config.head_dim, model.head_dim);
    EXPECT_EQ(config.rope_theta, model.rope_theta);
  }
}

TEST(ParseModelConfig, ReadsTransformers5Spelling) {
  const ModelConfig config = Parse(Patched(kLlama32_1b, R"({
      "rope_scaling": null, "rope_theta": null, "torch_dtype": null,
      "dtype": "float32",
      "rope_parameters": {"rope_type": "llama3", "rope_theta": 500000.0,
        "factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192}})"));
  const ModelConfig old = Parse(kLlama32_1b);
  EXPECT_EQ(config.rope_theta, old.rope_theta);
  ASSERT_TRUE(config.rope_scaling);
  EXPECT_EQ(config.rope_scaling->factor, old.rope_scaling->factor);
  EXPECT_EQ(config.torch_dtype, "float32");
  EXPECT_EQ(Parse(Patched(kQwen3_06b, R"({"rope_theta": null,
      "rope_parameters": {"rope_type": "default", "rope_theta": 5e6}})"))
                .rope_theta,
            5e6);
}

TEST(ParseModelConfig, ReadsRopeScaling) {
  for (const char* key : {"type", "rope_type"}) {
    const ModelConfig config =
        Parse(Patched(kLlama2_7b, std::string("{\"rope_scaling\": {\"") + key +
                                      "\": \"linear\", \"factor\": 4}}"));
    EXPECT_EQ(config.linear_rope_factor, 4);
    EXPECT_FALSE(config.rope_scaling);
  }
  const ModelConfig dynamic = Parse(Patched(
      kLlama2_7b, R"({"rope_scaling": {"type": "dynamic", "factor": 2}})"));
  EXPECT_TRUE(dynamic.dynamic_rope);
  EXPECT_FALSE(dynamic.linear_rope_factor.has_value());
  EXPECT_FALSE(Parse(kLlama2_7b).dynamic_rope);
  // Without their number llama3's are the model's positions.
  const ModelConfig config = Parse(Patched(
      kLlama32_1b,
      R"({"rope_scaling": {"original_max_position_embeddings": null}})"));
  EXPECT_EQ(config.rope_scaling->original_max_position_embeddings, 131072);
}

TEST(ParseModelConfig, ReadsWhatLayersDifferIn) {
  const ModelConfig gemma = Parse(kGemma3_1b);
  EXPECT_EQ(gemma.sliding_window[4], 512);
  EXPECT_EQ(gemma.sliding_window[5], 0);
  EXPECT_EQ(gemma.rope[4], LayerRope::kLocal);
  EXPECT_EQ(gemma.rope[5], LayerRope::kMain);
  const ModelConfig olmo = Parse(kOlmo3_7b);
  EXPECT_EQ(olmo.sliding_window[3], 0);
  EXPECT_EQ(olmo.rope[0], LayerRope::kLocal);
  ASSERT_TRUE(olmo.yarn);
  EXPECT_NEAR(olmo.yarn->attention_factor, 0.1 * std::log(8) + 1, 1e-12);
  const ModelConfig smol = Parse(Patched(
      kSmolLm2_135m, R"({"model_type": "smollm3", "layer_types": null})"));
  EXPECT_EQ(smol.rope[2], LayerRope::kMain);
  EXPECT_EQ(smol.rope[3], LayerRope::kNone);
}

TEST(ParseModelConfig, ReadsWindows) {
  std::string null_window(kMistral7bV01);
  null_window.replace(null_window.find("4096, \"tie"), 4, "null");
  EXPECT_THAT(Parse(null_window).sliding_window, Each(0));
  EXPECT_THAT(Parse(Patched(kMistral7bV01, R"({"sliding_window": null})"))
                  .sliding_window,
              Each(4096));

  const ModelConfig qwen = Parse(Patched(
      kQwen25_05b, R"({"use_sliding_window": true, "sliding_window": 128})"));
  EXPECT_EQ(
      std::count(qwen.sliding_window.begin(), qwen.sliding_window.end(), 0),
      21);
  EXPECT_EQ(qwen.sliding_window[21], 128);

  const ModelConfig typed = Parse(Patched(kQwen25_05b, R"({
      "use_sliding_window": true, "sliding_window": 64,
      "num_hidden_layers": 2,
      "layer_types": ["sliding_attention", "full_attention"]})"));
  EXPECT_THAT(typed.sliding_window, ::testing::ElementsAre(64, 0));
}

struct ErrorCase {
  const char* base;
  std::string patch;
  absl::StatusCode code;
  std::string expected;  // after "config.json:1: "
};

constexpr auto kUnimplemented = absl::StatusCode::kUnimplemented;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

constexpr char kMlxFolder[] =
    ": this is a folder of MLX in 4 bits, which only mlx reads; name the model "
    "that it was made from, or write it out with `mlx_lm.convert "
    "--dequantize`, and let quantization_config.load_in_4bit in job.json "
    "quantise that";

TEST(ParseModelConfig, SaysWhatIsNotSupported) {
  const std::vector<ErrorCase> cases = {
      {kLlama2_7b, R"({"model_type": "qwen4"})", kUnimplemented,
       "model_type: \"qwen4\" is not supported; the nearest that is: qwen3; "
       "supported are llama (Llama 2 and 3, SmolLM), mistral, qwen2 (Qwen2 and "
       "2.5), qwen3, smollm3, granite, olmo2, olmo3, gemma2, gemma3_text, phi3 "
       "(Phi-3, 3.5 and 4-mini); bert (MiniLM too), roberta, xlm-roberta, "
       "camembert, electra, distilbert; vit"},
      {kLlama2_7b, R"({"model_type": "modernbert"})", kUnimplemented,
       "model_type: \"modernbert\" is not supported; the nearest that is: "
       "bert; supported are llama (Llama 2 and 3, SmolLM), mistral, qwen2 "
       "(Qwen2 and 2.5), qwen3, smollm3, granite, olmo2, olmo3, gemma2, "
       "gemma3_text, phi3 (Phi-3, 3.5 and 4-mini); bert (MiniLM too), "
       "roberta, xlm-roberta, camembert, electra, distilbert; vit"},
      {kLlama2_7b, R"({"model_type": "gemma2", "hidden_activation": "gelu"})",
       kUnimplemented,
       "hidden_activation: supported is \"gelu_pytorch_tanh\", found the "
       "string \"gelu\""},
      {kLlama2_7b, R"({"model_type": null})", kInvalid,
       "model_type: missing; expected the name of a model type"},
      {kLlama2_7b, R"({"hidden_act": "gelu"})", kUnimplemented,
       "hidden_act: supported is \"silu\", found the string \"gelu\""},
      {kLlama2_7b, R"({"quantization_config": {"bits": 4}})", kUnimplemented,
       "quantization_config: the only supported quantized base models are "
       "those of bitsandbytes in int8 and nf4; use the model in bfloat16 or "
       "float32"},
      {kLlama2_7b, R"({"quantization": {"group_size": 64, "bits": 4}})",
       kUnimplemented, std::string("quantization") + kMlxFolder},
      {kLlama2_7b, R"({"quantization_config": {"group_size": 64, "bits": 4}})",
       kUnimplemented, std::string("quantization_config") + kMlxFolder},
      {kLlama2_7b, R"({"rope_scaling": {"type": "dynamic"}})", kInvalid,
       "rope_scaling.factor: missing; expected a number > 0"},
      {kLlama2_7b, R"({"rope_parameters": {"rope_type": "ntk"}})",
       kUnimplemented,
       "rope_parameters: the rope type \"ntk\" is not supported; supported "
       "are default, dynamic, linear, llama3, longrope, yarn"},
      {kLlama2_7b, R"({"rope_scaling": {"type": "linear"}})", kInvalid,
       "rope_scaling.factor: missing; expected a number > 0"},
      {kLlama2_7b, R"({"attention_dropout": 0.1})", kUnimplemented,
       "attention_dropout: supported is 0, found 0.1"},
      {kLlama2_7b, R"({"partial_rotary_factor": 0.5})", kUnimplemented,
       "partial_rotary_factor: supported is 1, found 0.5"},
      {kLlama2_7b, R"({"hidden_size": null})", kInvalid,
       "hidden_size: missing; expected an integer >= 1 and <= 2147483648"},
      {kLlama2_7b, R"({"hidden_size": "big"})", kInvalid,
       "hidden_size: expected an integer >= 1 and <= 2147483648, found the "
       "string \"big\""},
      {kLlama2_7b, R"({"num_key_value_heads": 5})", kInvalid,
       "num_key_value_heads: expected a divisor of num_attention_heads (32), "
       "found 5"},
      {kLlama2_7b, R"({"head_dim": 7})", kInvalid,
       "head_dim: expected an even number, found 7"},
      {kQwen25_05b, R"({"layer_types": ["full_attention"]})", kInvalid,
       "layer_types: expected one for each of the num_hidden_layers layers"},
      {kQwen25_05b,
       R"({"num_hidden_layers": 1, "layer_types": ["sliding_attention"]})",
       kInvalid,
       "layer_types: sliding_attention needs use_sliding_window and "
       "sliding_window"},
      {kQwen25_05b,
       R"({"num_hidden_layers": 1, "layer_types": ["linear_attention"]})",
       kUnimplemented,
       "layer_types: \"linear_attention\" is not supported; supported are "
       "full_attention, sliding_attention"},
  };
  for (const ErrorCase& c : cases) {
    EXPECT_THAT(ParseModelConfig(Patched(c.base, c.patch), "config.json"),
                Fails(c.code, testing::StrEq("config.json:1: " + c.expected)))
        << c.patch;
  }
  EXPECT_EQ(ParseModelConfig("[]", "c").status().code(), kInvalid);
  EXPECT_EQ(ParseModelConfig("{", "c").status().code(), kInvalid);
}

// A size at its limit, which other fields may then not fit, and one past it.
TEST(ParseModelConfig, SizesHaveBounds) {
  struct Bound {
    const char* base;
    const char* field;
    int64_t limit;
  };
  const Bound bounds[] = {
      {kLlama2_7b, "num_hidden_layers", limits::kModelLayers},
      {kLlama2_7b, "vocab_size", limits::kModelSize},
      {kLlama2_7b, "hidden_size", limits::kModelSize},
      {kLlama2_7b, "intermediate_size", limits::kModelSize},
      {kLlama2_7b, "num_attention_heads", limits::kModelSize},
      {kLlama2_7b, "num_key_value_heads", limits::kModelSize},
      {kLlama2_7b, "head_dim", limits::kModelSize},
      {kLlama2_7b, "max_position_embeddings", limits::kModelSize},
      {kLlama2_7b, "num_labels", limits::kModelSize},
      {kLlama2_7b, "pad_token_id", limits::kModelSize},
      {kMistral7bV01, "sliding_window", limits::kModelSize},
  };
  for (const auto& [base, field, limit] : bounds) {
    const auto message = [&](int64_t value) {
      return std::string(
          ParseModelConfig(
              Patched(base, nlohmann::json({{field, value}}).dump()), "c")
              .status()
              .message());
    };
    const std::string fault =
        "<= " + std::to_string(limit) + ", found " + std::to_string(limit + 1);
    EXPECT_EQ(message(limit).find("<= "), std::string::npos) << message(limit);
    EXPECT_THAT(message(limit + 1), ::testing::HasSubstr(fault));
    EXPECT_THAT(message(limit + 1),
                ::testing::StartsWith(std::string("c:1: ") + field));
  }
}

TEST(ParseModelConfig, HeadsTogetherHaveABound) {
  const auto fits = [](int64_t heads, int64_t head_dim) {
    nlohmann::json sizes = {{"num_attention_heads", heads},
                            {"num_key_value_heads", 1},
                            {"head_dim", head_dim}};
    return ParseModelConfig(Patched(kLlama2_7b, sizes.dump()), "c").status();
  };
  EXPECT_TRUE(fits(1 << 15, 1 << 16).ok());
  EXPECT_THAT(
      fits((1 << 15) + 1, 1 << 16),
      Says(::testing::StartsWith("c:1: head_dim: expected at most 2147483648"
                                 " together with num_attention_heads")));
  EXPECT_THAT(fits(1 << 15, 0), Says("head_dim"));
}

TEST(ParseModelConfig, LabelsHaveABound) {
  const auto read = [](size_t labels) {
    nlohmann::json config = nlohmann::json::parse(kLlama2_7b);
    for (size_t i = 0; i < labels; ++i) {
      config["id2label"][std::to_string(i)] = "name " + std::to_string(i);
      config["label2id"]["name " + std::to_string(i)] = i;
    }
    return ParseModelConfig(config.dump(), "c");
  };
  const auto most = read(limits::kModelLabels).value();
  EXPECT_EQ(most.head.num_labels, limits::kModelLabels);
  EXPECT_EQ(most.head.label_names.back(), "name 99999");
  EXPECT_THAT(read(limits::kModelLabels + 1),
              Says("an object of more than 100000 names"));
}

// However many blocks there are, as the sum over each module.
TEST(ParameterCount, IsTheSumOverTheModules) {
  for (const char* base :
       {kLlama2_7b, kLlama32_1b, kMistral7bV01, kQwen25_05b}) {
    for (const int64_t layers : {1, 2, 33}) {
      nlohmann::json patch = {{"num_hidden_layers", layers},
                              {"layer_types", nullptr}};
      const auto config = *ParseModelConfig(Patched(base, patch.dump()), "c");
      int64_t sum = 0;
      for (const Module& module : Modules(config)) {
        const bool tied =
            module.name == "lm_head" && config.tie_word_embeddings;
        if (!tied) sum += module.parameters();
      }
      EXPECT_EQ(ParameterCount(config), sum);
    }
  }
}

// Sums of the largest sizes that are allowed do not overflow.
TEST(ParameterCount, HasAnEnd) {
  nlohmann::json sizes = {{"num_hidden_layers", limits::kModelLayers},
                          {"vocab_size", limits::kModelSize},
                          {"hidden_size", limits::kModelSize},
                          {"intermediate_size", limits::kModelSize},
                          {"num_attention_heads", limits::kModelSize / 2},
                          {"num_key_value_heads", limits::kModelSize / 2},
                          {"mlp_bias", true},
                          {"attention_bias", true},
                          {"head_dim", 2}};
  const auto config = *ParseModelConfig(Patched(kLlama2_7b, sizes.dump()), "c");
  EXPECT_EQ(ParameterCount(config), std::numeric_limits<int64_t>::max());
}

TEST(ReadModelConfig, ReadsAShortRegularFile) {
  const auto folder = FreshFolder("model_config");
  const auto path = folder / "config.json";
  const auto fails = [&](absl::StatusCode code, const std::string& text) {
    EXPECT_THAT(ReadModelConfig(folder.string()), Fails(code, text));
  };
  fails(absl::StatusCode::kNotFound, path.string());
  std::string padded = kLlama2_7b;
  padded.resize(limits::kModelFileBytes, ' ');
  std::ofstream(path) << padded;
  EXPECT_TRUE(ReadModelConfig(folder.string()).ok());
  std::ofstream(path, std::ios::app) << ' ';
  fails(kInvalid, "longer than 16777216 bytes");
  fs::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  fails(kInvalid, "config.json: not a regular file");
}

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

std::string Replaced(std::string json, const std::string& from,
                     const std::string& to) {
  EXPECT_NE(json.find(from), std::string::npos) << from;
  return json.replace(json.find(from), from.size(), to);
}

std::string With(std::string json, const std::string& field) {
  return json.insert(json.rfind('}'), ", " + field);
}

void ExpectError(const std::string& json, const std::string& text) {
  auto config = ParseModelConfig(json, "config.json");
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config, Says(text));
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

TEST(EncoderConfig, RobertaCountsPositionsAfterPadding) {
  const ModelConfig c = Parse(kRobertaBase);
  EXPECT_EQ(c.encoder.first_position, 2);
  EXPECT_FALSE(c.encoder.pooler);
  EXPECT_EQ(c.encoder.type_vocab_size, 1);
  // RobertaForSequenceClassification with two labels: 124,647,170.
  ModelConfig classifier = c;
  classifier.num_labels = 2;
  EXPECT_EQ(ParameterCount(classifier), 124'647'170);
}

// Parameters of Transformers' classes for sequence classification.
TEST(EncoderConfig, ReadsElectraAndXlmRoberta) {
  ModelConfig electra = Parse(R"({
    "embedding_size": 128, "hidden_size": 256, "intermediate_size": 1024,
    "model_type": "electra", "num_attention_heads": 4, "num_hidden_layers": 12,
    "vocab_size": 30522})");
  electra.num_labels = 2;
  EXPECT_EQ(ParameterCount(electra), 13'549'314);
  ModelConfig roberta =
      Parse(Replaced(Replaced(kRobertaBase, "\"roberta\"", "\"xlm-roberta\""),
                     "50265", "250002"));
  roberta.num_labels = 2;
  EXPECT_EQ(roberta.encoder.first_position, 2);
  EXPECT_EQ(ParameterCount(roberta), 278'045'186);
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
  {
    const ModelConfig c = Parse(With(
        kBertBase,
        R"("id2label": {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"})"));
    EXPECT_EQ(c.head.num_labels, 3);
    EXPECT_TRUE(c.head.label_names.empty());
  }
}

TEST(EncoderConfig, RefusesWhatIsMissingWrongOrAnotherNetwork) {
  ExpectError(
      With(kRobertaBase, R"("position_embedding_type": "relative_key")"),
      "position_embedding_type: supported is \"absolute\"");
  ExpectError(With(kRobertaBase, R"("is_decoder": true)"), "is_decoder");
  ExpectError(With(kRobertaBase, R"("quantization_config": {"bits": 4})"),
              "quantization_config");
  ExpectError(Replaced(kBertBase, "\"gelu\"", "\"mish\""),
              "hidden_act: supported are gelu");
  ExpectError(R"({"model_type": "bert"})",
              "hidden_size: missing; expected an integer >= 1");
  ExpectError(R"({"model_type": "distilbert", "vocab_size": 9})",
              "dim: missing");
  ExpectError(Replaced(kBertBase, "\"num_attention_heads\": 12",
                       "\"num_attention_heads\": 7"),
              "num_attention_heads: expected a divisor of hidden_size");
  ExpectError(With(kBertBase, R"("id2label": {"0": "a", "2": "b"})"),
              "id2label: expected a name for each id from 0 to 1");
  ExpectError(Replaced(kVitTiny, "[224, 224]", "[224, 192]"),
              "image_size: expected an integer >= 1 and <= 32768, or two equ");
}

TEST(EncoderConfig, SizesHaveBounds) {
  ExpectError(Replaced(kBertBase, "\"num_hidden_layers\": 12",
                       "\"num_hidden_layers\": 10001"),
              "num_hidden_layers: expected an integer >= 1 and <= 10000");
  ExpectError(Replaced(kBertBase, "\"max_position_embeddings\": 512",
                       "\"max_position_embeddings\": 2147483649"),
              "max_position_embeddings: expected an integer >= 1 and <= 2147");
  ExpectError(Replaced(kBertBase, "\"type_vocab_size\": 2",
                       "\"type_vocab_size\": 2147483649"),
              "type_vocab_size: expected an integer >= 0 and <= 2147483648");
  ExpectError(Replaced(kVitTiny, "[224, 224]", "[32769, 32769]"),
              "image_size: expected an integer >= 1 and <= 32768, or two");
  ExpectError(Replaced(kVitTiny, "[224, 224]", "32769"),
              "image_size: expected an integer >= 1 and <= 32768, found");
  const std::string wide = Replaced(kVitTiny, "[224, 224]", "32768");
  ExpectError(
      Replaced(wide, "\"num_channels\": 3", "\"num_channels\": 2147483648"),
      "num_channels: expected at most 2147483648 values of a patch");
}

}  // namespace
}  // namespace mpsd::spec
