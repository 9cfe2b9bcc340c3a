// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_BATCH_H_
#define MPSD_CORE_DATA_BATCH_H_

#include <cstdint>
#include <vector>

namespace mpsd::data {

// Of a label that does not count, as torch's cross_entropy.
inline constexpr int32_t kIgnoreIndex = -100;

// One micro-batch, right-padded; each vector is [rows, length], row by row.
struct Batch {
  int64_t rows = 0;
  int64_t length = 0;
  std::vector<int64_t> input_ids;
  // Not shifted: input_ids where the token is a label, else kIgnoreIndex; the
  // first token of every sequence is kIgnoreIndex.
  std::vector<int64_t> labels;
  std::vector<int64_t> position_ids;  // from 0 in every sequence
  std::vector<int64_t> segment_ids;   // 0-based in a row; -1 at padding
  int64_t tokens = 0;        // non-padding
  int64_t label_tokens = 0;  // labels that are not kIgnoreIndex
  bool packed = false;       // some row holds several sequences
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_BATCH_H_
