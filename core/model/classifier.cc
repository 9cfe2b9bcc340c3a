// SPDX-License-Identifier: Apache-2.0
#include "core/model/classifier.h"

#include "core/model/decoder_classifier.h"
#include "core/model/encoder.h"
#include "core/model/vit.h"

namespace mpsd::model {

absl::StatusOr<std::unique_ptr<Classifier>> Classifier::Load(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress) {
  switch (config.family) {
    case spec::Family::kDecoder:
      return DecoderClassifier::Load(source, config, progress);
    case spec::Family::kEncoder:
      return Encoder::Load(source, config, progress);
    case spec::Family::kVision:
      return LoadVisionClassifier(source, config, progress);
  }
  return absl::InternalError("a family of models that is none");
}

}  // namespace mpsd::model
