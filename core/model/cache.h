// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "core/model/attention.h"
#include "core/spec/model_config.h"

namespace mpsd::model {

// The keys and values of the tokens that a decoder has seen, for generation:
// DecoderInputs::cache. Rows are left-padded, so that their next tokens are in
// the same place. All memory is allocated at once.
class KeyValueCache {
 public:
  // `begins` int64 [rows], on the device: the place of each row's first token.
  // Each row has room for `capacity` tokens with its padding.
  KeyValueCache(const spec::ModelConfig& config, at::Tensor begins,
                int64_t capacity, at::ScalarType dtype);
  // Bytes that a cache of these sizes has.
  static int64_t Bytes(const spec::ModelConfig& config, int64_t rows,
                       int64_t capacity, at::ScalarType dtype);

  // The stored tokens of a row, with its padding.
  int64_t length() const { return length_; }

  // Stores the keys and values [rows, kv_heads, tokens, head_dim] of a layer,
  // from length() on.
  void Store(size_t layer, const at::Tensor& k, const at::Tensor& v);
  // Attention of one token per row, which has been stored: q [rows, heads, 1,
  // head_dim], as is the result. Uses window, scale and softcap of `mask`.
  at::Tensor Attend(size_t layer, const at::Tensor& q,
                    const attention::AttentionMask& mask);
  // All layers have stored this many tokens.
  void Advance(int64_t tokens);
  // Forgets all tokens.
  void Clear();

 private:
  // What hides keys from the last stored token, to be added to its scores:
  // [rows, 1, width] in the cache's dtype.
  const at::Tensor& Mask(int64_t window, int64_t width);

  // Position by position [capacity, rows, kv_heads, head_dim]: a step then
  // writes a contiguous block, which every device does correctly.
  std::vector<at::Tensor> keys_, values_;
  at::Tensor begins_;   // [rows, 1, 1]
  at::Tensor places_;   // 0, 1 … [capacity]
  at::Tensor current_;  // length(), on the device: [1]
  int64_t length_ = 0;
  std::map<int64_t, at::Tensor> masks_;  // of the current token, by window
};

}  // namespace mpsd::model
