// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_COMPARE_H_
#define MPSD_CORE_SELFTEST_COMPARE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

// Compares a computation on a device with the same on the CPU in fp32.
namespace mpsd::selftest {

using Tensors = std::vector<at::Tensor>;
using Function = std::function<Tensors(const Tensors&)>;

// The greatest difference between two tensors, divided by the greatest
// magnitude in `expected`; infinite if the shapes differ or a number is finite
// on only one side.
double RelativeError(const at::Tensor& actual, const at::Tensor& expected);

// The worst RelativeError of the results of `function` on `device`, with its
// floating inputs in `dtype`, against `reference` on the CPU in fp32. Both get
// the same numbers: `inputs` (on the CPU) are rounded to `dtype` first.
double ErrorOf(const Function& function, const Function& reference,
               const Tensors& inputs, at::Device device, at::ScalarType dtype);

// The results of `function`, followed by the gradients of Σ cos(i) ·
// results[0][i] over its elements, by every floating input.
Function WithGradients(Function function);

// Normally distributed numbers on the CPU that depend only on `seed`.
at::Tensor Normal(at::IntArrayRef shape, uint64_t seed, double deviation = 1);
// Whole numbers from 0 to limit − 1.
at::Tensor Integers(at::IntArrayRef shape, int64_t limit, uint64_t seed);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_COMPARE_H_
