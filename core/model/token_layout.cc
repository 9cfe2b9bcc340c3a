// SPDX-License-Identifier: Apache-2.0
#include "core/model/token_layout.h"

#include "core/base/check.h"

namespace mpsd::attention {

std::vector<int64_t> SegmentLengths(const at::Tensor& segment_ids) {
  base::CheckEqual(segment_ids.dim(), 2, "dimensions of segment_ids");
  const at::Tensor ids = segment_ids.contiguous();
  const int64_t* id = ids.const_data_ptr<int64_t>();
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < ids.numel(); ++i) {
    if (i % ids.size(1) == 0 || id[i] != id[i - 1]) lengths.push_back(0);
    ++lengths.back();
  }
  return lengths;
}

}  // namespace mpsd::attention
