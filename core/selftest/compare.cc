// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/compare.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace mpsd::selftest {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

Tensors Moved(const Tensors& inputs, at::Device device, at::ScalarType dtype) {
  Tensors moved;
  for (const at::Tensor& t : inputs) {
    moved.push_back(t.is_floating_point() ? t.to(device, dtype) : t.to(device));
  }
  return moved;
}

// The inputs as the device sees them, in fp32.
Tensors Rounded(const Tensors& inputs, at::ScalarType dtype) {
  Tensors rounded;
  for (const at::Tensor& t : inputs) {
    rounded.push_back(t.is_floating_point() ? t.to(dtype).to(at::kFloat) : t);
  }
  return rounded;
}

}  // namespace

double RelativeError(const at::Tensor& actual, const at::Tensor& expected) {
  if (actual.sizes() != expected.sizes()) return kInfinite;
  if (expected.numel() == 0) return 0;
  const at::Tensor a = actual.detach().cpu().to(at::kDouble).contiguous();
  const at::Tensor e = expected.detach().cpu().to(at::kDouble).contiguous();
  const double scale = std::max(e.abs().max().item<double>(), 1e-30);
  const double error = (a - e).abs().max().item<double>() / scale;
  return error == error ? error : kInfinite;  // NaN is not a small error
}

double ErrorOf(const Function& function, const Function& reference,
               const Tensors& inputs, at::Device device, at::ScalarType dtype) {
  const Tensors actual = function(Moved(inputs, device, dtype));
  const Tensors expected = reference(Rounded(inputs, dtype));
  if (actual.size() != expected.size()) return kInfinite;
  double error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error = std::max(error, RelativeError(actual[i], expected[i]));
  }
  return error;
}

Function WithGradients(Function function) {
  return [function = std::move(function)](const Tensors& inputs) {
    at::AutoGradMode grad(true);
    Tensors leaves;
    for (const at::Tensor& t : inputs) {
      leaves.push_back(
          t.is_floating_point() ? t.detach().clone().requires_grad_(true) : t);
    }
    Tensors results = function(leaves);
    const at::Tensor& first = results.front();
    // The gradient comes from a weighted sum: under a plain one, swapped
    // numbers would go unnoticed.
    const at::Tensor weights = at::arange(first.numel(), at::kFloat)
                                   .cos()
                                   .view(first.sizes())
                                   .to(first.device(), first.scalar_type());
    first.backward(weights);
    for (const at::Tensor& leaf : leaves) {
      if (leaf.grad().defined()) results.push_back(leaf.grad());
    }
    return results;
  };
}

at::Tensor Normal(at::IntArrayRef shape, uint64_t seed, double deviation) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::empty(shape, at::kFloat).normal_(0, deviation, generator);
}

at::Tensor Integers(at::IntArrayRef shape, int64_t limit, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  return at::empty(shape, at::kLong).random_(0, limit, generator);
}

}  // namespace mpsd::selftest
