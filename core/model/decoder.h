// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ckpt/safetensors.h"
#include "core/model/attention.h"
#include "core/model/attention_plan.h"
#include "core/model/cache.h"
#include "core/model/layers.h"
#include "core/model/network.h"
#include "core/model/weight_reader.h"
#include "core/spec/model_config.h"

namespace mpsd::model {

// One decoder block, s being config.residual_scale:
//   h = x + s · m₁(o(attention(rope(q(n₁ x)), rope(k(n₁ x)), v(n₁ x))))
//   y = h + s · m₂(down(act(gate(n₂ h)) ∘ up(n₂ h)))
// Each norm may be absent. With config.fused the linear q also makes k and v,
// and gate makes up; k, v and up are then empty.
struct DecoderLayer {
  std::optional<RmsNorm> attention_norm, attention_out_norm;  // n₁, m₁
  std::optional<RmsNorm> mlp_norm, mlp_out_norm;              // n₂, m₂
  Linear q, k, v, o;
  std::optional<RmsNorm> q_norm, k_norm;  // before rope
  Linear gate, up, down;
  int64_t window = 0;  // sliding attention; 0: full
  spec::LayerRope rope = spec::LayerRope::kMain;
};

struct DecoderInputs {
  at::Tensor input_ids;  // int64 [rows, length]
  // int64 [rows or 1, length], counted from 0 in each row (undefined means that
  // too) or, in packed rows, in each segment. Positions of padding do not
  // matter.
  at::Tensor position_ids;
  at::Tensor segment_ids;  // int64 [rows, length] for packed rows, or undefined
  // For packed rows: attention::SegmentLengths of segment_ids.
  std::vector<int64_t> segment_lengths = {};
  // For generation, or null. An empty cache takes the keys and values of
  // left-padded prompts, whose padding is a segment of its own; later inputs
  // are one token per row, which sees the tokens of the cache.
  KeyValueCache* cache = nullptr;

  attention::TokenLayout layout() const;
  // The tokens of the longest row or packed segment.
  int64_t longest() const;
};

// A causal language model with its Hugging Face weights.
class Decoder : public Network {
 public:
  // Reads each weight into its place on `device`; the peak is the weights plus
  // one tensor. `progress` (may be null) gets 0..1.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(
      const tensorfile::Weights& weights, const spec::ModelConfig& config,
      at::Device device, at::ScalarType dtype,
      const std::function<void(double)>& progress = nullptr);
  // The same from any source. Without weights the network is drawn at random.
  // With config.num_labels the head is the linear "score" of a classifier
  // (classifier.h).
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(
      const WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress = nullptr);

  // The embeddings, scaled: [.., hidden_size].
  at::Tensor Embed(const at::Tensor& ids) const;
  // The output of the final norm, times config.logits_scale below a language
  // model's head: [rows, length, hidden_size].
  at::Tensor Hidden(const DecoderInputs& inputs) const;
  // [rows, length, vocab_size]. For tests and tools; training uses losses.h,
  // which never has all logits in memory.
  at::Tensor Logits(const DecoderInputs& inputs) const;

  const Embedding& embedding() const { return embedding_; }
  const std::vector<DecoderLayer>& layers() const { return layers_; }
  const RmsNorm& norm() const { return norm_; }
  const Linear& head() const { return head_; }
  // The cosines and sines for layers with `rope`.
  RotaryTable Table(spec::LayerRope rope, const at::Tensor& positions,
                    int64_t longest = 0) const;
  // What multiplies the embeddings.
  double embedding_scale() const;
  // What multiplies the input of the head.
  double head_scale() const {
    return config_.num_labels > 0 ? 1 : config_.logits_scale;
  }

  std::vector<Linear*> Linears() override;
  std::vector<NamedWeight> NamedWeights() override;

 private:
  Decoder(const spec::ModelConfig& config, const WeightSource& source)
      : Network(config, source.dtype),
        rotary_(config, source.device),
        local_rotary_(config, source.device, spec::LayerRope::kLocal) {}
  // x + residual_scale · norm(added)
  at::Tensor Add(const at::Tensor& x, const at::Tensor& added,
                 const std::optional<RmsNorm>& norm) const;
  // What a layer's attention sees besides its input.
  struct Context {
    RotaryTable table;
    at::Tensor segments;
    KeyValueCache* cache;
  };
  at::Tensor RunLayer(size_t index, const at::Tensor& x,
                      const Context& context) const;
  at::Tensor Attend(size_t index, const at::Tensor& x,
                    const Context& context) const;
  friend class DecoderLoader;

  Embedding embedding_;
  std::vector<DecoderLayer> layers_;
  RmsNorm norm_;
  Linear head_;
  Rotary rotary_, local_rotary_;
};

}  // namespace mpsd::model
