// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_DECODER_H_
#define MPSD_CORE_MODEL_DECODER_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/attention.h"
#include "core/model/layers.h"
#include "core/spec/model_config.h"
#include "core/tensorfile/weights.h"

namespace mpsd::model {

// One decoder block of the Llama family:
//   h = x + o(attention(rope(q(n₁ x)), rope(k(n₁ x)), v(n₁ x)))
//   y = h + down(silu(gate(n₂ h)) ∘ up(n₂ h))
struct DecoderLayer {
  RmsNorm input_norm, post_attention_norm;
  Linear q, k, v, o;
  std::optional<RmsNorm> q_norm, k_norm;  // per head, before rope (Qwen3)
  Linear gate, up, down;
  int64_t window = 0;  // sliding attention; 0: full
};

struct DecoderInputs {
  at::Tensor input_ids;     // int64 [rows, length]
  at::Tensor position_ids;  // int64 [rows, length]
  at::Tensor segment_ids;  // int64 [rows, length] for packed rows, or undefined
};

struct DecoderOptions {
  AttentionKernel attention = AttentionKernel::kFused;
  // Keep only each block's input; run the block again in the backward.
  bool activation_checkpointing = false;
};

// A causal language model by its Hugging Face weights. Parameters are frozen as
// loaded; core/lora hangs adapters on the linears. Not thread-safe.
class Decoder {
 public:
  // Reads each weight straight into its place on `device`; the peak is the
  // weights plus one tensor. `progress` (may be null) gets 0..1.
  static absl::StatusOr<std::unique_ptr<Decoder>> Load(
      const tensorfile::Weights& weights, const spec::ModelConfig& config,
      at::Device device, at::ScalarType dtype,
      const std::function<void(double)>& progress = nullptr);

  // The output of the final norm, [rows, length, hidden_size].
  at::Tensor Hidden(const DecoderInputs& inputs) const;
  // [rows, length, vocab_size]; for tests and tools, training uses head_loss.
  at::Tensor Logits(const DecoderInputs& inputs) const;

  const spec::ModelConfig& config() const { return config_; }
  const Linear& head() const { return head_; }
  void set_options(const DecoderOptions& options) { options_ = options; }

  // Every linear, in the order of the checkpoint's module tree, lm_head last.
  std::vector<Linear*> Linears();
  // Every weight by its full name, for modules_to_save. A tied lm_head is
  // listed apart from the embedding.
  struct NamedWeight {
    std::string name;
    at::Tensor* tensor;
  };
  std::vector<NamedWeight> NamedWeights();

 private:
  explicit Decoder(const spec::ModelConfig& config, at::Device device)
      : config_(config), rotary_(config, device) {}
  at::Tensor RunLayer(const DecoderLayer& layer, const at::Tensor& x,
                      const RotaryTable& table,
                      const at::Tensor& segments) const;
  at::Tensor Attend(const DecoderLayer& layer, const at::Tensor& x,
                    const RotaryTable& table, const at::Tensor& segments) const;
  friend class DecoderLoader;

  spec::ModelConfig config_;
  DecoderOptions options_;
  at::Tensor embedding_;  // [vocab_size, hidden_size]
  std::vector<DecoderLayer> layers_;
  RmsNorm norm_;
  Linear head_;
  Rotary rotary_;
};

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_DECODER_H_
