// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/model/decoder.h"

namespace mpsd::model {

// Fills a Decoder weight by weight; keeps the first error.
class DecoderLoader {
 public:
  DecoderLoader(const tensorfile::Weights& weights,
                const spec::ModelConfig& config, at::Device device,
                at::ScalarType dtype,
                const std::function<void(double)>& progress)
      : weights_(weights),
        c_(config),
        device_(device),
        dtype_(dtype),
        progress_(progress) {}

  absl::StatusOr<std::unique_ptr<Decoder>> Load() {
    std::unique_ptr<Decoder> model(new Decoder(c_, device_));
    model->embedding_ =
        Tensor("model.embed_tokens.weight", {c_.vocab_size, c_.hidden_size});
    model->layers_.resize(c_.num_hidden_layers);
    for (int64_t i = 0; i < c_.num_hidden_layers && status_.ok(); ++i) {
      LoadLayer(i, model->layers_[i]);
      if (progress_) progress_(double(i + 1) / c_.num_hidden_layers);
    }
    model->norm_ = Norm("model.norm", c_.hidden_size);
    LoadHead(*model);
    if (!status_.ok()) return status_;
    return model;
  }

 private:
  void LoadLayer(int64_t i, DecoderLayer& layer) {
    const std::string p = absl::StrCat("model.layers.", i, ".");
    const std::string a = p + "self_attn.", m = p + "mlp.";
    const int64_t q_size = c_.num_attention_heads * c_.head_dim;
    const int64_t kv_size = c_.num_key_value_heads * c_.head_dim;
    layer.input_norm = Norm(p + "input_layernorm", c_.hidden_size);
    layer.post_attention_norm =
        Norm(p + "post_attention_layernorm", c_.hidden_size);
    layer.q = MakeLinear(a + "q_proj", q_size, c_.hidden_size, c_.qkv_bias);
    layer.k = MakeLinear(a + "k_proj", kv_size, c_.hidden_size, c_.qkv_bias);
    layer.v = MakeLinear(a + "v_proj", kv_size, c_.hidden_size, c_.qkv_bias);
    layer.o = MakeLinear(a + "o_proj", c_.hidden_size, q_size, c_.o_bias);
    if (c_.qk_norm) {
      layer.q_norm = Norm(a + "q_norm", c_.head_dim);
      layer.k_norm = Norm(a + "k_norm", c_.head_dim);
    }
    const int64_t inner = c_.intermediate_size;
    layer.gate =
        MakeLinear(m + "gate_proj", inner, c_.hidden_size, c_.mlp_bias);
    layer.up = MakeLinear(m + "up_proj", inner, c_.hidden_size, c_.mlp_bias);
    layer.down =
        MakeLinear(m + "down_proj", c_.hidden_size, inner, c_.mlp_bias);
    if (!c_.sliding_window.empty()) layer.window = c_.sliding_window[i];
  }

  void LoadHead(Decoder& model) {
    model.head_.name = "lm_head";
    model.head_.weight =
        c_.tie_word_embeddings
            ? model.embedding_
            : Tensor("lm_head.weight", {c_.vocab_size, c_.hidden_size});
  }

  at::Tensor Tensor(const std::string& name, at::IntArrayRef shape) {
    if (!status_.ok()) return {};
    auto tensor = weights_.Load(name, shape, device_, dtype_);
    if (!tensor.ok()) {
      status_ = tensor.status();
      return {};
    }
    return *std::move(tensor);
  }

  Linear MakeLinear(const std::string& name, int64_t out, int64_t in,
                    bool bias) {
    Linear linear;
    linear.name = name;
    linear.weight = Tensor(name + ".weight", {out, in});
    if (bias) linear.bias = Tensor(name + ".bias", {out});
    return linear;
  }

  RmsNorm Norm(const std::string& name, int64_t size) {
    return {name, Tensor(name + ".weight", {size}), c_.rms_norm_eps};
  }

  const tensorfile::Weights& weights_;
  const spec::ModelConfig& c_;
  const at::Device device_;
  const at::ScalarType dtype_;
  const std::function<void(double)>& progress_;
  absl::Status status_;
};

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Load(
    const tensorfile::Weights& weights, const spec::ModelConfig& config,
    at::Device device, at::ScalarType dtype,
    const std::function<void(double)>& progress) {
  return DecoderLoader(weights, config, device, dtype, progress).Load();
}

}  // namespace mpsd::model
