// SPDX-License-Identifier: Apache-2.0
#include "core/model/inner_product.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

namespace mpsd::products {
namespace {

// Below this many rows oneDNN gains nothing. Heads have few rows, and a
// gradient summed over few rows is most sensitive to the order of summation.
constexpr int64_t kFewRows = 64;

// An operator that torch registers for its compiler.
const std::optional<c10::OperatorHandle>& OneDnn() {
  static const std::optional<c10::OperatorHandle> handle =
      c10::Dispatcher::singleton().findSchema(
          {"mkldnn::_linear_pointwise", ""});
  return handle;
}

}  // namespace

at::Tensor InnerProduct(const at::Tensor& x, const at::Tensor& w,
                        const std::optional<at::Tensor>& bias) {
  const auto& handle = OneDnn();
  if (!handle || x.size(0) < kFewRows) return at::linear(x, w, bias);
  torch::jit::Stack stack;
  stack.emplace_back(x);
  stack.emplace_back(w);
  stack.emplace_back(bias);
  stack.emplace_back(std::string("none"));
  stack.emplace_back(c10::List<std::optional<at::Scalar>>());
  stack.emplace_back(std::string());
  handle->callBoxed(stack);
  return stack.front().toTensor();
}

}  // namespace mpsd::products
