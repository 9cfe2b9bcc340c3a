// SPDX-License-Identifier: Apache-2.0
#include "core/model/decoder_classifier.h"

#include <ATen/ATen.h>

#include "core/base/status_macros.h"

namespace mpsd::model {

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
