// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_WORKER_GATES_H_
#define MPSD_CORE_WORKER_GATES_H_

#include <ATen/core/Tensor.h>

#include <ostream>
#include <string>
#include <string_view>

namespace mpsd::worker {

// Runs mpsd-worker --gates: reports what torch and the machine have, for mpsd's
// doctor. Prints two JSON objects, a line each, so that a device whose product
// ends the process leaves the first line:
//
//   {"worker_version", "protocol_version", "torch_version", "built_against",
//    "backends": [{"name", "built", "available", "device", "problem"}],
//    "environment": {NAME: VALUE}}
//   {"matmul": {"asked_device", "result_device", "right", "seconds"}}
//
// Returns the exit code: 0 if both were printed, independent of their contents;
// 1 if the product threw.
int RunGates(std::ostream& out, std::ostream& err);

// The version of torch in the text of at::show_config(); "" if the text has
// none.
std::string TorchVersionIn(std::string_view config);

// The operands of the product on the CPU, integers in fp32, and whether
// `product`, on the CPU, is theirs: exactly, since no sum reaches 2^24.
at::Tensor LeftOperand();
at::Tensor RightOperand();
bool IsRightProduct(const at::Tensor& product);

}  // namespace mpsd::worker

#endif  // MPSD_CORE_WORKER_GATES_H_
