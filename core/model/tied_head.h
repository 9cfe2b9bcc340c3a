// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_TIED_HEAD_H_
#define MPSD_CORE_MODEL_TIED_HEAD_H_

#include <c10/core/ScalarType.h>

#include <string>

#include "absl/status/statusor.h"
#include "core/ckpt/weights.h"

namespace mpsd::model {

// The name of a language model's head.
inline constexpr char kHeadWeight[] = "lm_head.weight";

// Which weights a language model reads if config.json says tie_word_embeddings:
// the tensors in its file decide (transformers 5.23, modeling_utils.py,
// tie_weights).
enum class TiedHead {
  kEmbedding,  // the embedding, also used as the head; both, if equal
  kHead,       // the head, also used as the embedding
  kBoth,       // both, with different values: untied
};

// `embedding` is the embedding's name in the file. Values are compared in
// `dtype`.
absl::StatusOr<TiedHead> FindTiedHead(const tensorfile::Weights& weights,
                                      const std::string& embedding,
                                      at::ScalarType dtype);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_TIED_HEAD_H_
