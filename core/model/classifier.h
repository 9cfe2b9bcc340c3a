// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_CLASSIFIER_H_
#define MPSD_CORE_MODEL_CLASSIFIER_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
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

  // The layer's Forward; on the CPU as a single node of autograd (cpu_nodes.h).
  // Not with kTiled attention: the CPU then simulates MPS, in tests.
  at::Tensor Run(const Linear& linear, const at::Tensor& x) const;
  at::Tensor Run(const Embedding& embedding, const at::Tensor& ids) const;
};

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_CLASSIFIER_H_
