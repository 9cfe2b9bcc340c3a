// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_DECODER_CLASSIFIER_H_
#define MPSD_CORE_MODEL_DECODER_CLASSIFIER_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"

namespace mpsd::model {

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

#endif  // MPSD_CORE_MODEL_DECODER_CLASSIFIER_H_
