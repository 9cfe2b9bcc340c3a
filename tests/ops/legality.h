// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_OPS_LEGALITY_H_
#define MPSD_TESTS_OPS_LEGALITY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/ops/fake_mps.h"

// What MPS computes wrongly, aborts on or has not, of one kernel's call.
namespace mpsd::ops {

// GEMMs with as many products a sum or more: wrong on M1 and M2 (pytorch
// #177116, #195163).
inline constexpr int64_t kGemmInner = 32'767;
// A tensor must have fewer elements and bytes (pytorch#149261, #197636).
inline constexpr int64_t kMaxElements = int64_t{1} << 31;
inline constexpr int64_t kMaxBytes = int64_t{1} << 32;

// One sentence a fault:
//   float64 or complex numbers on the device; it has none
//   an int64 product of matrices
//   GEMMs with kGemmInner products a sum
//   tensors of kMaxElements or kMaxBytes
//   floating dtypes mixed in one call (pytorch#190054)
//   something written in place that is not contiguous, copy_ excepted: kernels
//     have left such targets as they were (pytorch#118115, #165267, #176171)
//   an fp32 product whose left side is a transposed view (pytorch#193487)
std::vector<std::string> Faults(const Kernel& kernel);

// Whether the host waits for the device: numbers or shapes are read back, or
// copied there without non_blocking (MPSStream::copy_and_sync then commits and
// waits, whatever had been encoded before).
bool Synchronises(const Kernel& kernel);

// Whether it is a copy from the host to the device.
bool Uploads(const Kernel& kernel);

// "aten::mm [8, 4] float, [4, 2] float"; equal for calls that MPS can run with
// one compiled graph.
std::string Signature(const Kernel& kernel);

}  // namespace mpsd::ops

#endif  // MPSD_TESTS_OPS_LEGALITY_H_
