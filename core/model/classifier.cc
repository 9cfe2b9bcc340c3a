// SPDX-License-Identifier: Apache-2.0
#include "core/model/classifier.h"

#include "core/base/check.h"
#include "core/device/traits.h"
#include "core/model/cpu_nodes.h"
#include "core/model/decoder_classifier.h"
#include "core/model/encoder.h"
#include "core/model/vit.h"

namespace mpsd::model {

at::Tensor Classifier::Run(const Linear& linear, const at::Tensor& x) const {
  const bool node = options_.attention == attention::AttentionKernel::kFused &&
                    CpuLinearTakes(linear, x);
  return node ? CpuLinear(linear, x) : linear.Forward(x);
}

at::Tensor Classifier::Run(const Embedding& embedding,
                           const at::Tensor& ids) const {
  const at::Tensor& w = embedding.weight;
  const bool node = options_.attention == attention::AttentionKernel::kFused &&
                    device::TraitsOf(w.device()).one_node_layers &&
                    w.scalar_type() == dtype_ && dtype_ == at::kFloat;
  return node ? CpuEmbedding(embedding, ids) : embedding.Forward(ids, dtype_);
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

}  // namespace mpsd::model
