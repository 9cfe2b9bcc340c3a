// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_PACKING_H_
#define MPSD_CORE_DATA_PACKING_H_

#include <cstdint>
#include <vector>

namespace mpsd::data {

// Best-fit decreasing, as TRL's packing_strategy "bfd": the longest first, each
// into the fullest row that has space for it, else into a new row; of rows with
// equal space the row that has had this space longest. `lengths[i]` is in [1,
// capacity]. Returns, per row, the indices of its samples. Among equal lengths
// the order of `order` (a permutation of the indices) decides; the number of
// rows depends only on the lengths.
std::vector<std::vector<int64_t>> PackBestFit(
    const std::vector<int64_t>& lengths, const std::vector<int64_t>& order,
    int64_t capacity);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_PACKING_H_
