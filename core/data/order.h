// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace mpsd::data {

// SplitMix64 (Steele, Lea, Flood 2014): the same numbers on every platform.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next();
  // Uniform in [0, bound), without bias; bound > 0.
  uint64_t Below(uint64_t bound);

 private:
  uint64_t state_;
};

// 0 … count-1 in the order of an epoch: Fisher–Yates from the back, with
// Random(seed's first number + epoch). Depends only on its arguments; the same
// on every platform and in every version.
std::vector<int64_t> ShuffledOrder(int64_t count, uint64_t seed, int64_t epoch);

// `order` with samples of similar length next to each other: the order is cut
// into pieces of up to 50 batches, each piece is sorted from long to short, and
// the longest sample of all comes first, so that a job that does not fit into
// memory fails at once (transformers 5.23, trainer_pt_utils.py,
// get_length_grouped_indices). `lengths` is indexed by sample; `batch` is the
// number of samples per step.
std::vector<int64_t> GroupByLength(std::vector<int64_t> order,
                                   const std::vector<int64_t>& lengths,
                                   int64_t batch);

// The numbers 0 … count-1 in this order.
std::vector<int64_t> PlainOrder(int64_t count);

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
