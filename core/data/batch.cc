// SPDX-License-Identifier: Apache-2.0
#include "core/data/batch.h"

#include <algorithm>
#include <numeric>

#include "core/base/check.h"

namespace mpsd::data {
namespace {

int64_t LongestRow(const TokenArrays& samples,
                   const std::vector<std::vector<int64_t>>& rows,
                   int64_t max_length) {
  int64_t longest = 0;
  for (const std::vector<int64_t>& row : rows) {
    int64_t length = 0;
    for (int64_t index : row) {
      base::CheckIndex(index, samples.size(), "a sample of a row");
      length += std::min(samples.length(index), max_length);
    }
    longest = std::max(longest, length);
  }
  return std::min(longest, max_length);
}

// Writes `length` tokens of `samples` from position `from` into `batch` at
// `at`. The first token is never a label, because after the causal shift the
// token before it would predict it: that is another segment's last.
void Place(const TokenArrays& samples, int64_t from, int64_t length,
           int64_t segment, int64_t at, Batch& batch) {
  for (int64_t i = 0; i < length; ++i) {
    const bool label = i > 0 && samples.mark(from + i);
    batch.input_ids[at + i] = samples.id(from + i);
    if (label) batch.labels[at + i] = batch.input_ids[at + i];
    batch.position_ids[at + i] = i;
    batch.segment_ids[at + i] = segment;
    batch.label_tokens += label ? 1 : 0;
  }
  batch.tokens += length;
}

}  // namespace

std::vector<int64_t> LengthBuckets(int64_t max_length) {
  std::vector<int64_t> buckets;
  for (int64_t power = 32; power < max_length; power *= 2) {
    buckets.push_back(power);
    if (power + power / 2 < max_length) buckets.push_back(power + power / 2);
  }
  buckets.push_back(max_length);
  return buckets;
}

int64_t PaddedLength(int64_t length, int64_t max_length, Padding padding) {
  base::CheckAtMost(length, max_length, "a row and max_length");
  if (padding == Padding::kLongest) return length;
  if (padding == Padding::kMultipleOfEight) {
    return std::min((length + 7) / 8 * 8, max_length);
  }
  const std::vector<int64_t> buckets = LengthBuckets(max_length);
  return *std::lower_bound(buckets.begin(), buckets.end(), length);
}

Batch MakeBatch(const TokenArrays& samples,
                const std::vector<std::vector<int64_t>>& rows,
                int64_t max_length, int32_t pad_id, bool packed,
                Padding padding) {
  Batch batch;
  batch.packed = packed;
  batch.rows = static_cast<int64_t>(rows.size());
  batch.length =
      PaddedLength(LongestRow(samples, rows, max_length), max_length, padding);
  const size_t cells = static_cast<size_t>(batch.rows * batch.length);
  batch.input_ids.assign(cells, pad_id);
  batch.labels.assign(cells, base::kIgnoreIndex);
  batch.position_ids.assign(cells, 0);
  batch.segment_ids.assign(cells, -1);
  for (int64_t row = 0; row < batch.rows; ++row) {
    int64_t at = row * batch.length;
    int64_t left = batch.length;
    for (size_t segment = 0; segment < rows[row].size(); ++segment) {
      const int64_t index = rows[row][segment];
      const int64_t length =
          std::min({samples.length(index), left, max_length});
      base::CheckAtMost(std::min(samples.length(index), max_length), left,
                        "a sample and what is left of its row");
      Place(samples, samples.begin(index), length,
            static_cast<int64_t>(segment), at, batch);
      at += length;
      left -= length;
    }
    // In packed rows the padding is a segment of its own with position 0. In
    // others positions continue into the padding: all rows then share one table
    // of rotations, and no real token sees the padding.
    if (packed) continue;
    base::CheckEqual(rows[row].size(), 1, "samples of an unpacked row");
    batch.samples.push_back(rows[row][0]);
    const auto positions = batch.position_ids.begin() + row * batch.length;
    std::iota(positions, positions + batch.length, 0);
  }
  batch.loss_weight = static_cast<double>(batch.label_tokens);
  return batch;
}

}  // namespace mpsd::data
