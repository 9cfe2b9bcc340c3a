// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_SELFTEST_NUMERIC_CHECK_H_
#define MPSD_CORE_SELFTEST_NUMERIC_CHECK_H_

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>

#include "core/selftest/checks.h"
#include "core/selftest/compare.h"

namespace mpsd::selftest {

// The tolerated error, relative to the largest number of a result. fp32 allows
// for another order of summation; bf16 for its own rounding (2⁻⁹), which adds
// up in gradients summed in bf16.
inline constexpr double kFloatTolerance = 1e-4;
inline constexpr double kBfloat16Tolerance = 3e-2;

// Compares `function` on the device with `reference` on the CPU; null: with
// `function` itself on the CPU.
struct Numeric {
  std::string kernel, shape;
  std::function<Tensors()> inputs;  // made when the check runs
  Function function;
  Function reference = nullptr;
};

// The check in `dtype`, whose name it adds to the shape.
Check MakeCheck(Numeric numeric, at::ScalarType dtype);

// Adds the check in fp32 and in bf16.
void AddBoth(const Numeric& numeric, std::vector<Check>& checks);

}  // namespace mpsd::selftest

#endif  // MPSD_CORE_SELFTEST_NUMERIC_CHECK_H_
