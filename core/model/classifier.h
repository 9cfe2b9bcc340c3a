// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/decoder.h"
#include "core/model/layers.h"
#include "core/model/network.h"
#include "core/model/weight_reader.h"

namespace mpsd::model {

// A micro-batch of texts or of images, on the model's device.
struct ClassifierInputs {
  // Texts, padded at the right.
  at::Tensor input_ids;       // int64 [rows, length]
  at::Tensor lengths;         // int64 [rows], tokens without padding
  at::Tensor token_type_ids;  // int64 [rows, length], or undefined: all 0
  bool padded = true;         // false: every row is `length` long
  // Images.
  at::Tensor pixels;  // fp32 [rows, channels, height, width]
};

// One block of a text encoder or a vision transformer. `mlp_norm` comes after
// the MLP's sum in the former, and before the MLP in the latter.
struct EncoderLayer {
  Linear q, k, v, o;
  LayerNorm attention_norm;
  Linear up, down;
  LayerNorm mlp_norm;
};

// A network with a classification head: a text encoder, a decoder with a head
// on its last token, or a vision transformer.
class Classifier : public Network {
 public:
  // The logits, [rows, config().num_labels].
  virtual at::Tensor Logits(const ClassifierInputs& inputs) const = 0;

  // By config.family; config.num_labels must be set. Weights that the head
  // needs and the file lacks are drawn from the CPU generator and listed in
  // fresh_modules(); any other missing weight is an error. `progress` (may be
  // null) gets 0..1.
  static absl::StatusOr<std::unique_ptr<Classifier>> Load(
      const WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress = nullptr);

 protected:
  using Network::Network;

  // Blocks compute with tokens x [rows · length, hidden_size].

  // By ForwardTogether: the linear; activated; the heads of several linears.
  at::Tensor Run(const Linear& linear, const at::Tensor& x) const;
  at::Tensor RunActivated(const Linear& linear, const at::Tensor& x) const;
  std::vector<at::Tensor> RunHeads(const std::vector<const Linear*>& linears,
                                   const at::Tensor& x, int64_t rows) const;

  // The first token of each row, [rows, hidden_size].
  static at::Tensor First(const at::Tensor& x, int64_t rows) {
    return x.view({rows, -1, x.size(1)}).select(1, 0);
  }
  // The first query of attention's result, [rows, heads, 1, head_dim]. Narrowed
  // by tokens, so that its gradient has the layout of other layers': cuDNN's
  // backward reads each by the strides of the first.
  static at::Tensor FirstQuery(const at::Tensor& out) {
    return out.transpose(1, 2).narrow(1, 0, 1).transpose(1, 2);
  }
  // The config's dropout of hidden states, which is off outside of training.
  Dropout HiddenDropout(int64_t rows, int64_t length) const;
  bool DrawsDropout(const EncoderLayer& layer) const;
};

// A decoder with the linear "score" on one token of each row, as Transformers'
// LlamaForSequenceClassification (5.23, modeling_layers.py,
// GenericForSequenceClassification): the last token that is not the config's
// pad_token_id, or the row's last token if the config has no pad_token_id.
class DecoderClassifier : public Classifier {
 public:
  // As Classifier::Load.
  static absl::StatusOr<std::unique_ptr<DecoderClassifier>> Load(
      const WeightSource& source, const spec::ModelConfig& config,
      const std::function<void(double)>& progress = nullptr);

  at::Tensor Logits(const ClassifierInputs& inputs) const override;
  std::vector<Linear*> Linears() override { return decoder_->Linears(); }
  std::vector<NamedWeight> NamedWeights() override {
    return decoder_->NamedWeights();
  }

 private:
  explicit DecoderClassifier(std::unique_ptr<Decoder> decoder)
      : Classifier(decoder->config(), decoder->dtype()),
        decoder_(std::move(decoder)) {
    fresh_ = decoder_->fresh_modules();
    report_ = decoder_->load_report();
  }
  at::Tensor LastTokens(const ClassifierInputs& inputs) const;

  const std::unique_ptr<Decoder> decoder_;
};

}  // namespace mpsd::model
