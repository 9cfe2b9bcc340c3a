// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_MODEL_TOKEN_LAYOUT_H_
#define MPSD_CORE_MODEL_TOKEN_LAYOUT_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace mpsd::attention {

// How the tokens of one micro-batch are arranged in rows, and which of them see
// each other.
struct TokenLayout {
  int64_t rows = 0, length = 0;
  at::Device device = at::kCPU;  // where attention runs
  at::Tensor segment_ids;  // int64 [rows, length] for packed rows, or undefined
  // For packed rows, on the host: SegmentLengths of segment_ids; else empty.
  std::vector<int64_t> segment_lengths = {};
};

// The lengths of the segments of all rows in order; each row's padding counts
// as a segment, so they add up to rows · length. `segment_ids` [rows, length]
// are on the CPU.
std::vector<int64_t> SegmentLengths(const at::Tensor& segment_ids);

}  // namespace mpsd::attention

#endif  // MPSD_CORE_MODEL_TOKEN_LAYOUT_H_
