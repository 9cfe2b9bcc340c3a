// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_BATCH_H_
#define MPSD_CORE_DATA_BATCH_H_

#include <cstdint>
#include <vector>

#include "core/data/dataset.h"

namespace mpsd::data {

inline constexpr int32_t kIgnoreIndex = -100;

// A micro-batch. The vectors are row-major [rows, length].
struct Batch {
  int64_t rows = 0;
  int64_t length = 0;  // one of LengthBuckets
  std::vector<int64_t> input_ids;
  // Not shifted: labels[i] is input_ids[i] or kIgnoreIndex. The first token of
  // a segment has kIgnoreIndex, so that after the causal shift no segment
  // predicts the next one.
  std::vector<int64_t> labels;
  std::vector<int64_t> position_ids;  // from 0 in each segment; padding: 0
  std::vector<int64_t> segment_ids;   // 0-based per row; padding: -1
  int64_t tokens = 0;                 // without padding
  int64_t label_tokens = 0;           // labels other than kIgnoreIndex
  bool packed = false;                // rows may hold several segments
};

// The padded lengths that batches have: 32, 48, 64, 96, 128, 192 … (powers of
// two and the middles between them) below max_length, and max_length. Few, so
// that a backend that compiles per shape compiles little; the padding stays
// below a third.
std::vector<int64_t> LengthBuckets(int64_t max_length);

// The batch whose row i holds the samples rows[i] one after the other, padded
// to the smallest bucket that fits the longest row. Samples are cut at
// max_length; a row's samples must fit it together.
Batch MakeBatch(const Dataset& dataset,
                const std::vector<std::vector<int64_t>>& rows,
                int64_t max_length, int32_t pad_id, bool packed);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_BATCH_H_
