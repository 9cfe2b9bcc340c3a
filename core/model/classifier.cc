// SPDX-License-Identifier: Apache-2.0
#include "core/model/classifier.h"

#include <ATen/ATen.h>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "core/device/device.h"
#include "core/model/encoder.h"
#include "core/model/layers.h"
#include "core/model/vit.h"

namespace mpsd::model {

at::Tensor Classifier::Run(const Linear& linear, const at::Tensor& x) const {
  return ForwardTogether({&linear}, x, {device::TraitsOf(x.device())}).front();
}

at::Tensor Classifier::RunActivated(const Linear& linear,
                                    const at::Tensor& x) const {
  LinearCall call{device::TraitsOf(x.device())};
  call.gelu = GeluOf(config_.encoder.hidden_act);
  const at::Tensor y = ForwardTogether({&linear}, x, call).front();
  return call.gelu != nullptr ? y : Activate(y, config_.encoder.hidden_act);
}

std::vector<at::Tensor> Classifier::RunHeads(
    const std::vector<const Linear*>& linears, const at::Tensor& x,
    int64_t rows) const {
  LinearCall call{device::TraitsOf(x.device())};
  call.rows = rows;
  call.head_dim = config_.head_dim;
  return ForwardTogether(linears, x, call);
}

Dropout Classifier::HiddenDropout(int64_t rows, int64_t length) const {
  return {training_ ? config_.encoder.hidden_dropout_prob : 0, rows, length};
}

bool Classifier::DrawsDropout(const EncoderLayer& l) const {
  const spec::EncoderConfig& e = config_.encoder;
  const bool own = training_ && (e.hidden_dropout_prob > 0 ||
                                 e.attention_probs_dropout_prob > 0);
  return own || l.q.draws() || l.k.draws() || l.v.draws() || l.o.draws() ||
         l.up.draws() || l.down.draws();
}

absl::StatusOr<std::unique_ptr<Classifier>> Classifier::Load(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  base::CheckLess(0, config.num_labels, "labels of a classifier");
  switch (config.family) {
    case spec::Family::kDecoder:
      return DecoderClassifier::Load(source, config, progress);
    case spec::Family::kEncoder:
      return Encoder::Load(source, config, progress);
    case spec::Family::kVision:
      return LoadVisionClassifier(source, config, progress);
  }
  return absl::InternalError("an unknown model family");
}

absl::StatusOr<std::unique_ptr<DecoderClassifier>> DecoderClassifier::Load(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  ASSIGN_OR_RETURN(auto decoder, Decoder::Load(source, config, progress));
  return std::unique_ptr<DecoderClassifier>(
      new DecoderClassifier(std::move(decoder)));
}

// The position of each row's scored token, int64 [rows]: the last that is not
// padding. Transformers looks for pad_token_id, so a text that ends in this
// token is scored before it; the product with `real` leaves the positions of
// other tokens, of which the largest is the last.
at::Tensor DecoderClassifier::LastTokens(const ClassifierInputs& inputs) const {
  if (!config_.pad_token_id) return inputs.lengths - 1;
  const at::Tensor index =
      at::arange(inputs.input_ids.size(1), inputs.input_ids.options());
  const at::Tensor real = (inputs.input_ids != *config_.pad_token_id)
                              .logical_and(index < inputs.lengths.unsqueeze(1));
  return (index * real).amax(1);
}

at::Tensor DecoderClassifier::Logits(const ClassifierInputs& inputs) const {
  decoder_->set_options(options_);
  decoder_->set_commit(commit());
  const at::Tensor& ids = inputs.input_ids;
  DecoderInputs texts;
  texts.input_ids = ids;
  const at::Tensor hidden = decoder_->Hidden(texts);
  const at::Tensor row = at::arange(ids.size(0), ids.options());
  const at::Tensor picked =
      hidden.reshape({-1, hidden.size(2)})
          .index_select(0, row * ids.size(1) + LastTokens(inputs));
  return decoder_->head().Forward(picked);
}

}  // namespace mpsd::model
