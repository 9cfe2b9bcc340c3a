// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/model/quant.h"
#include "core/spec/model_config.h"

namespace mpsd::model {

// The term scaling · B A drop(x) of a linear layer's output.
struct LowRank {
  at::Tensor a, b;  // [r, in], [out, r]
  double scaling = 1;
  double dropout = 0;  // its probability now; 0 outside of training
};

// The interface through which core/lora attaches an adapter to a linear layer;
// core/model knows nothing else of adapters.
class LinearAdapter {
 public:
  virtual ~LinearAdapter() = default;
  // The layer's output for input `x` [.., in], given the frozen layer's own
  // output `base` [.., out]; same shape and dtype as `base`.
  virtual at::Tensor Apply(const at::Tensor& base, const at::Tensor& x) = 0;
  // Whether Apply would draw random numbers, as dropout does.
  virtual bool draws() const { return true; }
  // The term that Apply adds to `base`; absent if it is not low-rank.
  virtual std::optional<LowRank> low_rank() const { return std::nullopt; }
};

// Layers whose weights are trained are single nodes of autograd. A node itself
// adds the gradient of a weight to its .grad in fp32, if that exists
// (optim::ParameterSet gives one to all), without autograd's accumulating node.

// y = x Wᵀ + b, in x's dtype.
struct Linear {
  std::string name;   // as in the checkpoint, without ".weight"
  at::Tensor weight;  // [out, in]; of patches [out, channels, height, width]
  at::Tensor bias;    // [out], or undefined
  std::unique_ptr<LinearAdapter> adapter;  // or null
  // For a weight of another dtype than x. True: the weight is cast, like a
  // mixed-precision master weight. False: the product is computed in the
  // weight's dtype, as PEFT does with modules_to_save.
  bool compute_in_input_dtype = false;
  // A quantised frozen weight instead of `weight`, which is then undefined;
  // else null.
  std::shared_ptr<const quant::QuantizedWeight> quantized = nullptr;
  // Only of a language model's trained head: `weight` in the network's dtype,
  // if that is another; the loss multiplies by it.
  at::Tensor copy = {};
  // Only of a language model's head: the logits are softcap · tanh(y /
  // softcap), which SumCrossEntropy and the explicit step compute; 0: y.
  double softcap = 0;

  at::Tensor Forward(const at::Tensor& x) const;
  // The weight in `dtype`, or `copy` if that has it. Each call decodes a
  // quantised weight again.
  at::Tensor Dense(at::ScalarType dtype) const;
  bool draws() const { return adapter != nullptr && adapter->draws(); }
  int64_t in_features() const {
    return quantized ? quantized->columns() : weight.size(1);
  }
  int64_t out_features() const {
    return quantized ? quantized->rows() : weight.size(0);
  }
};

// Looks up rows of a table. The row `padding_row` gets no gradient
// (nn.Embedding's padding_idx).
struct Embedding {
  std::string name;
  at::Tensor weight;  // [rows, width]
  int64_t padding_row = -1;

  // ids: int64 of any shape; returns [.., width] in `dtype`.
  at::Tensor Forward(const at::Tensor& ids, at::ScalarType dtype) const;
};

// nn.Dropout in training, for x [tokens, width]: all tokens of `rows` rows of
// `length`, or only the first of each. If random numbers are drawn in order (on
// the CPU), the first token gets the mask that it would get among all tokens.
struct Dropout {
  double probability = 0;
  int64_t rows = 0, length = 0;

  // The dropped x + residual, and the mask, undefined if probability is 0.
  std::pair<at::Tensor, at::Tensor> Apply(const at::Tensor& x,
                                          const at::Tensor& residual) const;
  // The gradient by x.
  at::Tensor Backward(const at::Tensor& dy, const at::Tensor& mask) const;
};

struct Normed {
  at::Tensor y, sum;
};

// (x − mean) / sqrt(variance + eps) · w + b in x's dtype; mean and variance in
// fp32.
struct LayerNorm {
  std::string name;
  at::Tensor weight, bias;  // [size]
  double eps = 1e-12;

  at::Tensor Forward(const at::Tensor& x) const;
  // sum = dropout(x) + residual, and y, its norm.
  Normed OfSum(const at::Tensor& x, const at::Tensor& residual,
               const Dropout& dropout) const;
};

// x · rsqrt(mean(x²) + eps) · w, the mean in fp32, as LlamaRMSNorm
// (transformers, models/llama/modeling_llama.py).
struct RmsNorm {
  std::string name;
  at::Tensor weight;  // [size]
  double eps = 1e-6;
  // Only of a trained norm: `weight` in the network's dtype, if that is
  // another; the explicit step multiplies by it.
  at::Tensor copy = {};
  // 1 + w as loaded, if the norm multiplies by 1 + w instead (Gemma's, in fp32
  // before it rounds); else undefined.
  at::Tensor one_more = {};

  // What is multiplied by, in the network's dtype, without a graph.
  at::Tensor Factor() const;
  at::Tensor Forward(const at::Tensor& x) const;
};

// softcap · tanh(x / softcap), or x if softcap is 0.
at::Tensor Capped(const at::Tensor& x, double softcap);

// at::gelu's approximation for an activation of that name in config.json's
// hidden_act; null if the activation is no GELU.
const char* GeluOf(const std::string& hidden_act);
// Transformers' ACT2FN by this name.
at::Tensor Activate(const at::Tensor& x, const std::string& hidden_act);

// cos and sin of every position, [rows, 1, length, rotary_size], in `dtype`;
// undefined for a layer without rotation.
struct RotaryTable {
  at::Tensor cos;
  at::Tensor sin;
};

// Rotary position embedding: the inverse frequencies of a config, with its
// scaling (transformers, modeling_rope_utils.py).
class Rotary {
 public:
  Rotary(const spec::ModelConfig& config, at::Device device,
         spec::LayerRope rope = spec::LayerRope::kMain);
  // positions: int64 [rows, length], of which `longest` decides longrope.
  RotaryTable Table(const at::Tensor& positions, at::ScalarType dtype,
                    int64_t longest = 0) const;
  // x: [rows, heads, length, head_dim], of which the first rotary_size are
  // rotated, by halves as Hugging Face stores them.
  static at::Tensor Apply(const at::Tensor& x, const RotaryTable& table);

 private:
  at::Tensor inverse_frequencies_;  // fp32 [rotary_size / 2]
  at::Tensor long_frequencies_;     // of longrope, beyond original_; or none
  int64_t original_ = 0;
  double factor_ = 1;  // of cosines and sines
};

// How ForwardTogether computes.
struct LinearCall {
  device::Traits traits;  // of x's device, or of one to imitate
  // If head_dim is not 0, each output is [rows, heads, length, head_dim].
  int64_t rows = 0, head_dim = 0;
  const char* gelu = nullptr;  // applied to the outputs: as GeluOf returns it
};

// The outputs of linears that share the input x, [tokens, in] or attention's
// result [rows, heads, length, head_dim]: Forward of each, up to rounding and
// with the same random numbers. One product computes all of them if their
// weights are adjacent in memory, and so are their biases and gradients. On the
// CPU in fp32 an adapter is part of its linear's node, and oneDNN multiplies by
// the weight if torch was built with it.
std::vector<at::Tensor> ForwardTogether(
    const std::vector<const Linear*>& linears, const at::Tensor& x,
    const LinearCall& call);

}  // namespace mpsd::model
