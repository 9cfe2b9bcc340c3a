// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/base/ignore_index.h"
#include "core/data/token_arrays.h"

namespace mpsd::data {

// A micro-batch on the host. Vectors are row-major [rows, length] unless noted;
// vectors that the task does not use are empty.
struct Batch {
  int64_t rows = 0;
  int64_t length = 0;  // see PaddedLength; 1 for images
  std::vector<int64_t> input_ids;
  int64_t tokens = 0;  // without padding; rows for images
  // The divisor of the summed loss of these rows for a mean: label tokens,
  // rows, rows × labels, or the sum of the rows' class weights.
  double loss_weight = 0;
  // [rows], or a pair of answers each, indices in the source; empty if packed.
  std::vector<int64_t> samples;

  // --- language modelling
  // Not shifted: labels[i] is input_ids[i] or kIgnoreIndex. The first token of
  // a segment has kIgnoreIndex, so that after the causal shift no segment
  // predicts the next one.
  std::vector<int64_t> labels;
  // Counted from 0 in each segment. In rows that are not packed padding
  // continues the count, so that all rows have the same positions; in packed
  // rows padding has 0.
  std::vector<int64_t> position_ids;
  std::vector<int64_t> segment_ids;  // 0-based per row; padding: -1
  int64_t label_tokens = 0;          // labels other than kIgnoreIndex
  bool packed = false;               // rows may contain several segments
  // [rows], of preferences: the answers' log-probabilities under the reference;
  // empty: not known yet, as zeros.
  std::vector<float> reference;

  // --- classification
  std::vector<int64_t> lengths;         // [rows], tokens of texts
  std::vector<int64_t> token_type_ids;  // pairs, if the model has types
  std::vector<int64_t> classes;         // [rows], single-label problems
  std::vector<float> targets;  // [rows, outputs]: regression, multi-label
  // fp32 [rows, channels, height, width] on the host; undefined for texts.
  at::Tensor pixels;
};

// The padded lengths of batches: 32, 48, 64, 96, 128, 192 … (powers of two and
// the midpoints between them) below max_length, and max_length. Few, so that a
// backend that compiles per shape compiles little; padding stays below a third.
std::vector<int64_t> LengthBuckets(int64_t max_length);

// The length to which a batch is padded.
enum class Padding {
  kBuckets,          // the smallest bucket: for MPS, which compiles each shape
  kMultipleOfEight,  // for CUDA, whose matrix units process eight at a time
  kLongest,          // no further than the longest row
};

// `length` must be at most max_length, and so is the result.
int64_t PaddedLength(int64_t length, int64_t max_length, Padding padding);

// A language-modelling batch, whose row i has the samples rows[i] one after the
// other, padded to PaddedLength of the longest row. Samples are cut at
// max_length; together a row's samples must fit it.
Batch MakeBatch(const TokenArrays& samples,
                const std::vector<std::vector<int64_t>>& rows,
                int64_t max_length, int32_t pad_id, bool packed,
                Padding padding = Padding::kBuckets);

}  // namespace mpsd::data
