// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/base/file.h"
#include "core/spec/quantization.h"

namespace mpsd::spec {

// "rope_scaling" / "rope_parameters" of rope_type "llama3"
// (transformers, modeling_rope_utils.py, _compute_llama3_parameters).
struct Llama3RopeScaling {
  double factor = 8;
  double low_freq_factor = 1;
  double high_freq_factor = 4;
  int64_t original_max_position_embeddings = 8192;
};

// rope_type "yarn" (_compute_yarn_parameters).
struct YarnRopeScaling {
  double factor = 1;
  double attention_factor = 1;  // multiplies cosines and sines
  double beta_fast = 32, beta_slow = 1;
  double original_max_position_embeddings = 8192;
  bool truncate = true;
};

// rope_type "longrope" (_compute_longrope_parameters): divisors of the
// frequencies, for batches whose longest row, or packed segment, has at most
// `original_max_position_embeddings` tokens and for longer ones.
struct LongRopeScaling {
  std::vector<double> short_factor, long_factor;  // [rotary_size / 2]
  double attention_factor = 1;  // multiplies cosines and sines
  int64_t original_max_position_embeddings = 4096;
};

// The rotary embedding of a decoder's layer.
enum class LayerRope {
  kMain,
  kLocal,  // unscaled, with local_rope_theta
  kNone,
};

// The names of the norms of a decoder's layer; "": the layer lacks it.
struct LayerNorms {
  std::string attention = "input_layernorm";  // of attention's input
  std::string attention_output;
  std::string mlp = "post_attention_layernorm";  // of the MLP's input
  std::string mlp_output;
};

enum class Family {
  kDecoder,  // causal: the rows of kFamilies in model_config.cc
  kEncoder,  // text: bert, roberta, electra, distilbert
  kVision,   // vit
};

// Fields that only encoders and vision transformers have.
struct EncoderConfig {
  // "bert", "roberta" (XLM-RoBERTa and CamemBERT too), "electra",
  // "distilbert" or "vit": the prefix of its weights' names.
  std::string network;
  int64_t embedding_size = 0;  // text: hidden_size, but in ELECTRA
  double layer_norm_eps = 1e-12;
  std::string hidden_act = "gelu";  // "gelu", "gelu_new", "relu", "silu"
  double hidden_dropout_prob = 0;
  double attention_probs_dropout_prob = 0;
  // Dropout before the classifier: the config's, else the family's default.
  double classifier_dropout = 0;
  int64_t type_vocab_size = 0;  // 0: no token types (DistilBERT)
  // The first token's position: pad_token_id + 1 in RoBERTa, where padding does
  // not count; 0 elsewhere.
  int64_t first_position = 0;
  bool pooler = false;  // BERT: tanh(dense(first token)) before the classifier
};

// Fields that only vision transformers have.
struct VisionConfig {
  int64_t image_size = 224;  // height and width
  int64_t patch_size = 16;
  int64_t num_channels = 3;
  bool qkv_bias = true;
  int64_t patches() const {
    return (image_size / patch_size) * (image_size / patch_size);
  }
};

// config.json's description of a classification head.
struct HeadConfig {
  // The names of id2label by id; empty if id2label has only Transformers'
  // generated "LABEL_0", "LABEL_1" ….
  std::vector<std::string> label_names;
  std::optional<int64_t> num_labels;  // length of id2label, or num_labels
  std::string problem_type;           // as in Transformers, or ""
};

// A network as its config.json describes it.
struct ModelConfig {
  Family family = Family::kDecoder;
  std::string model_type;  // "llama", "bert" …
  std::vector<std::string> architectures;
  EncoderConfig encoder;  // kEncoder and kVision
  VisionConfig vision;    // kVision only
  HeadConfig head;
  std::optional<int64_t> pad_token_id;
  double initializer_range = 0.02;  // standard deviation of new weights
  // The outputs of the classification head that the network gets instead of a
  // language-model head; 0: none. The task decides this number; the file has no
  // such field.
  int64_t num_labels = 0;

  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_hidden_layers = 0;
  int64_t num_attention_heads = 0;
  int64_t num_key_value_heads = 0;  // divides num_attention_heads
  int64_t head_dim = 0;             // default: hidden_size / heads
  int64_t max_position_embeddings = 0;

  // The rest is for decoders only.
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  std::optional<Llama3RopeScaling> rope_scaling;
  std::optional<double> linear_rope_factor;  // rope_type "linear"
  // rope_type "dynamic": equal to "default" up to max_position_embeddings;
  // longer inputs are rejected (see CheckTask).
  bool dynamic_rope = false;
  std::optional<YarnRopeScaling> yarn;
  std::optional<LongRopeScaling> longrope;
  double partial_rotary_factor = 1;  // the part of a head that is rotated
  double local_rope_theta = 10000;
  bool tie_word_embeddings = false;
  bool qkv_bias = false;            // q, k, v projections (Qwen2)
  bool o_bias = false;              // o_proj (Llama's attention_bias: all four)
  bool mlp_bias = false;            // Llama's mlp_bias
  std::string hidden_act = "silu";  // of the gate; or "gelu_pytorch_tanh"
  bool qk_norm = false;             // RMSNorm of q and k, per head (Qwen3) …
  bool qk_norm_whole = false;       // … or of all heads together (OLMo 2)
  // q, k and v are one linear, and so are gate and up (Phi-3).
  bool fused = false;
  LayerNorms norms;
  bool norms_add_one = false;           // norms multiply by 1 + w (Gemma)
  double embedding_scale = 1;           // multiplies the embeddings …
  bool rounds_embedding_scale = false;  // … rounded to their dtype (Gemma)
  double attention_scale = 0;  // multiplies scores; 0: 1 / sqrt(head_dim)
  double residual_scale = 1;   // multiplies what attention and MLP add
  double logits_scale = 1;     // multiplies a language model's logits
  // c of c · tanh(x / c) for scores and for a language model's logits; 0: none.
  double attention_softcap = 0, logits_softcap = 0;
  std::vector<LayerRope> rope;  // per layer; empty: kMain for all
  // Tokens that a query sees, including itself; per layer, 0 = all before it.
  std::vector<int64_t> sliding_window;
  std::string torch_dtype;  // "bfloat16", "float32" … as stored, or ""
  // How the file quantises the linears of the blocks; absent: not at all.
  std::optional<QuantizationSpec> quantization;

  int64_t q_size() const { return num_attention_heads * head_dim; }
  int64_t kv_size() const { return num_key_value_heads * head_dim; }
  // The most tokens of a row for which the model has positions.
  int64_t max_row_tokens() const {
    return max_position_embeddings - encoder.first_position;
  }
  int64_t rotary_size() const {
    return static_cast<int64_t>(head_dim * partial_rotary_factor);
  }
  int64_t q_norm_size() const { return qk_norm_whole ? q_size() : head_dim; }
  int64_t k_norm_size() const { return qk_norm_whole ? kv_size() : head_dim; }
  // The norms of the outputs of attention and MLP, per layer.
  int64_t output_norms() const {
    return !norms.attention_output.empty() + !norms.mlp_output.empty();
  }
  int64_t input_norms() const {
    return !norms.attention.empty() + !norms.mlp.empty();
  }
};

// Parses config.json, of Transformers 4 ("rope_theta", "rope_scaling",
// "torch_dtype") or 5 ("rope_parameters", "dtype"). An absent field has the
// default of Transformers' config class, except the sizes of the network, which
// are required. Unimplemented for an architecture or option mpsd does not have
// (naming it and those it has); InvalidArgument for a missing or ill-typed
// field, or one beyond core/base/limits.h, naming it and its line. `origin`
// names the file in errors. CheckTask in train_spec.h says which tasks a family
// supports.
absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json,
                                             std::string_view origin);
// Reads MODEL_DIR/config.json; opens nothing outside `within`, if not null.
absl::StatusOr<ModelConfig> ReadModelConfig(
    const std::string& model_dir, const base::ReadRoots* within = nullptr);

// The number of parameters of the base model, counting tied embeddings once; at
// most the largest int64_t.
int64_t ParameterCount(const ModelConfig& config);

}  // namespace mpsd::spec
