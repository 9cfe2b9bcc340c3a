// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_TIED_HEAD_H_
#define MPSD_CORE_MODEL_TIED_HEAD_H_

#include <c10/core/ScalarType.h>

#include <string>

#include "absl/status/statusor.h"
#include "core/tensorfile/weights.h"

namespace mpsd::model {

// The name of a language model's head.
inline constexpr char kHeadWeight[] = "lm_head.weight";

// What a language model whose config.json says tie_word_embeddings reads, by
// the tensors of its file (transformers 5.23, modeling_utils.py, tie_weights).
enum class TiedHead {
  kEmbedding,  // the embedding alone, or both alike: it is the head too
  kHead,       // the head alone: it is the embedding too
  kBoth,       // both, of different values: they are not tied
};

// `embedding` is what the file calls that weight. Values are compared in
// `dtype`.
absl::StatusOr<TiedHead> FindTiedHead(const tensorfile::Weights& weights,
                                      const std::string& embedding,
                                      at::ScalarType dtype);

}  // namespace mpsd::model

#endif  // MPSD_CORE_MODEL_TIED_HEAD_H_
