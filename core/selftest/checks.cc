// SPDX-License-Identifier: Apache-2.0
#include "core/selftest/checks.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/sha256.h"

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

std::vector<Check> AllChecks(const Sizes& sizes, const device::Device& device) {
  std::vector<Check> all = MatrixChecks(sizes);
  const auto add = [&all](std::vector<Check> checks) {
    all.insert(all.end(), std::make_move_iterator(checks.begin()),
               std::make_move_iterator(checks.end()));
  };
  add(LayerChecks(sizes));
  add(AttentionChecks(sizes, device.traits().attends_fused()));
  add(LossChecks(sizes));
  add(ExplicitChecks(sizes, device.traits()));
  add(DeviceChecks(sizes));
  add(DecoderChecks(sizes));
  add(ClassifierChecks(sizes));
  return all;
}

std::string Coverage(const std::vector<Check>& checks) {
  std::string text;
  for (const Check& c : checks) {
    absl::StrAppend(&text, c.kernel, "|", c.shape, "|", c.tolerance, "\n");
  }
  return base::Sha256Hex(text);
}

Check MakeCheck(Numeric numeric, at::ScalarType dtype) {
  const bool narrow = dtype == at::kBFloat16;
  Check check;
  check.kernel = numeric.kernel;
  check.shape =
      absl::StrCat(numeric.shape, narrow ? ", bfloat16" : ", float32");
  check.tolerance = narrow ? kBfloat16Tolerance : kFloatTolerance;
  check.error = [n = std::move(numeric), dtype](device::Device& device) {
    return ErrorOf(n.function, n.reference ? n.reference : n.function,
                   n.inputs(), device.torch_device(), dtype);
  };
  return check;
}

void AddBoth(const Numeric& numeric, std::vector<Check>& checks) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    checks.push_back(MakeCheck(numeric, dtype));
  }
}

}  // namespace mpsd::selftest
