// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_OPERATORS_H_
#define MPSD_TESTS_OPS_OPERATORS_H_

#include <ATen/core/dispatch/Dispatcher.h>

#include <string>

// Operators told apart as kernels are: by overload and dtypes.
namespace mpsd::ops {

// "aten::mm(Float, Float)": the overload and the dtype of each tensor argument;
// of a list each dtype once, "host" for a tensor that is not on the device.
std::string TypedName(const c10::OperatorHandle& op,
                      c10::ArrayRef<c10::IValue> inputs);

// Whether a call makes or moves numbers. Not so those that return nothing but
// views of their arguments, that change a tensor's shape alone, or that take
// memory without filling it.
bool MakesNumbers(const c10::OperatorHandle& op,
                  c10::ArrayRef<c10::IValue> inputs);

// Whether its results are drawn.
bool DrawsRandomNumbers(const c10::OperatorHandle& op);

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_OPERATORS_H_
