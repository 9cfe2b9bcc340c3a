// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/classifier.h"
#include "core/model/layers.h"

namespace mpsd::model {

// BERT, RoBERTa, ELECTRA and DistilBERT with their heads for sequence
// classification (transformers 5.23, models/*/modeling_*.py). A block,
// whose norms come after the sums:
//   h = norm(x + drop(o(attention(q x, k x, v x))))     DistilBERT: no drop
//   y = norm(h + drop(down(act(up h))))
// The heads:
//   BERT        out(drop(tanh(dense x₀)))      dense: the pooler
//   RoBERTa     out(drop(tanh(dense(drop x₀))))
//   ELECTRA     out(drop(gelu(dense(drop x₀))))
//   DistilBERT  out(drop(relu(dense x₀)))      dense: pre_classifier
// x₀ is the last block's first token. The head reads no other token, so the
// last block computes only x₀ after its attention. In training on the CPU every
// dropout mask equals that of Transformers with its sdpa attention and the same
// seed.
//
// Rows have at most max_position_embeddings tokens. RoBERTa's positions count
// the tokens that are not pad_token_id, from pad_token_id + 1.
class Encoder : public Classifier {
 public:
  // As Classifier::Load.
  static absl::StatusOr<std::unique_ptr<Encoder>> Load(
      const WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress = nullptr);

  at::Tensor Logits(const ClassifierInputs& inputs) const override;
  std::vector<Linear*> Linears() override;
  std::vector<NamedWeight> NamedWeights() override;

 private:
  using Classifier::Classifier;
  friend class EncoderLoader;

  at::Tensor Embed(const ClassifierInputs& inputs) const;
  at::Tensor PositionIds(const at::Tensor& input_ids) const;
  at::Tensor RunLayer(const EncoderLayer& layer, const at::Tensor& x,
                      const Dropout& dropout, const at::Tensor& keys,
                      bool first_only) const;
  // Returns [rows, heads, length or 1, head_dim].
  at::Tensor Attend(const EncoderLayer& layer, const at::Tensor& x,
                    int64_t rows, const at::Tensor& keys,
                    bool first_only) const;
  at::Tensor Head(const at::Tensor& first) const;
  bool is(const char* network) const {
    return config_.encoder.network == network;
  }
  bool projects() const {
    return config_.encoder.embedding_size != config_.hidden_size;
  }

  Embedding words_, positions_, types_;  // types_: empty in DistilBERT
  LayerNorm embedding_norm_;
  Linear project_;  // ELECTRA, whose embeddings may be narrower; else empty
  std::vector<EncoderLayer> layers_;
  Linear dense_, out_;
};

}  // namespace mpsd::model
