// SPDX-License-Identifier: Apache-2.0
#include "core/model/tied_head.h"

#include <ATen/ATen.h>

#include "core/base/status_macros.h"

namespace mpsd::model {

absl::StatusOr<TiedHead> FindTiedHead(const tensorfile::Weights& weights,
                                      const std::string& embedding,
                                      at::ScalarType dtype) {
  const tensorfile::TensorEntry* rows = weights.Find(embedding);
  const tensorfile::TensorEntry* head = weights.Find(kHeadWeight);
  if (head == nullptr) return TiedHead::kEmbedding;
  if (rows == nullptr) return TiedHead::kHead;
  // Equal bytes need no loading. Different bytes may still be equal values, if
  // one of the tensors has another dtype in the file.
  if (weights.SameBytes(embedding, kHeadWeight)) return TiedHead::kEmbedding;
  if (rows->shape != head->shape) return TiedHead::kBoth;
  ASSIGN_OR_RETURN(const auto a,
                   weights.Load(embedding, rows->shape, at::kCPU, dtype));
  ASSIGN_OR_RETURN(const auto b,
                   weights.Load(kHeadWeight, head->shape, at::kCPU, dtype));
  return at::equal(a, b) ? TiedHead::kEmbedding : TiedHead::kBoth;
}

}  // namespace mpsd::model
