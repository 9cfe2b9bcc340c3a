// SPDX-License-Identifier: Apache-2.0
#include "core/model/class_loss.h"

#include <ATen/ATen.h>

#include <optional>

#include "core/base/check.h"

namespace mpsd::model {

at::Tensor SumClassLoss(spec::ProblemType type, const at::Tensor& logits,
                        const at::Tensor& targets, const at::Tensor& weights) {
  base::CheckEqual(logits.size(0), targets.size(0), "rows and their targets");
  const at::Tensor wide = logits.to(at::kFloat);
  std::optional<at::Tensor> w;
  if (weights.defined()) w = weights;
  if (type == spec::ProblemType::kSingleLabel) {
    return at::cross_entropy_loss(wide, targets, w, at::Reduction::Sum);
  }
  const at::Tensor wanted = targets.to(at::kFloat).reshape(wide.sizes());
  if (type == spec::ProblemType::kRegression) {
    return at::mse_loss(wide, wanted, at::Reduction::Sum);
  }
  return at::binary_cross_entropy_with_logits(wide, wanted, /*weight=*/{}, w,
                                              at::Reduction::Sum);
}

}  // namespace mpsd::model
