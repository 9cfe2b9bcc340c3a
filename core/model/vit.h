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

// ViT for image classification (transformers 5.23, models/vit/modeling_vit.py):
// patches and a class token with positions, the blocks, a norm, and the head on
// the class token alone. A block, whose norms come before attention and MLP:
//   h = x + drop(o(attention(q n₁x, k n₁x, v n₁x)))
//   y = h + drop(down(act(up n₂h)))                     up, down: fc1, fc2
// The head reads no other token, so the last block computes only the class
// token after its attention. In training on the CPU every dropout mask equals
// that of Transformers with its sdpa attention and the same seed.
//
// Images must have the config's image_size and channels, as core/data makes
// them; others raise a c10::Error.
class Vit : public Classifier {
 public:
  at::Tensor Logits(const ClassifierInputs& inputs) const override;
  std::vector<Linear*> Linears() override;
  std::vector<NamedWeight> NamedWeights() override;

 private:
  using Classifier::Classifier;
  friend class VitLoader;

  // The patches' embedding: a convolution whose stride equals its kernel size,
  // computed as a linear of each patch.
  at::Tensor EmbedPatches(const at::Tensor& pixels) const;
  at::Tensor Embed(const at::Tensor& pixels) const;
  at::Tensor RunLayer(const EncoderLayer& layer, const at::Tensor& x,
                      const Dropout& dropout, bool first_only) const;
  // Returns [rows, heads, length or 1, head_dim].
  at::Tensor Attend(const EncoderLayer& layer, const at::Tensor& x,
                    int64_t rows, bool first_only) const;

  at::Tensor class_token_;  // [1, 1, hidden]
  at::Tensor positions_;    // [1, patches + 1, hidden]
  Linear patches_;          // its weight [hidden, channels, patch, patch]
  std::vector<EncoderLayer> layers_;
  LayerNorm norm_;
  Linear head_;
};

// As Classifier::Load, for config.family kVision. Finds weights by their names
// in files (spec::StoredName) and by those of modules.
absl::StatusOr<std::unique_ptr<Classifier>> LoadVisionClassifier(
    const WeightSource& source, const spec::ModelConfig& config,
    const std::function<void(double)>& progress = nullptr);

}  // namespace mpsd::model
