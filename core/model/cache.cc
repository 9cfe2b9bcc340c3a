// SPDX-License-Identifier: Apache-2.0
#include "core/model/cache.h"

#include <ATen/ATen.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/model/layers.h"
#include "core/model/products.h"

namespace mpsd::model {
namespace {

// Attention reads this many more tokens at a time, so that it has few shapes
// and does not read the room for all tokens from the first one on.
constexpr int64_t kBlock = 128;

}  // namespace

KeyValueCache::KeyValueCache(const spec::ModelConfig& config, at::Tensor begins,
                             int64_t capacity, at::ScalarType dtype)
    : begins_(std::move(begins)) {
  base::CheckEqual(begins_.dim(), 1, "dimensions of the rows' beginnings");
  const int64_t rows = begins_.size(0);
  begins_ = begins_.view({rows, 1, 1});
  places_ = at::arange(capacity, begins_.options());
  current_ = at::zeros({1}, begins_.options());
  // Zeros, since 0 · NaN is NaN: hidden values are multiplied too.
  for (auto* all : {&keys_, &values_}) {
    for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
      all->push_back(at::zeros(
          {capacity, rows, config.num_key_value_heads, config.head_dim},
          begins_.options().dtype(dtype)));
    }
  }
}

int64_t KeyValueCache::Bytes(const spec::ModelConfig& config, int64_t rows,
                             int64_t capacity, at::ScalarType dtype) {
  return 2 * config.num_hidden_layers * capacity * rows * config.kv_size() *
         static_cast<int64_t>(c10::elementSize(dtype));
}

void KeyValueCache::Store(size_t layer, const at::Tensor& k,
                          const at::Tensor& v) {
  const int64_t tokens = k.size(2);
  keys_[layer].narrow(0, length_, tokens).copy_(k.permute({2, 0, 1, 3}));
  values_[layer].narrow(0, length_, tokens).copy_(v.permute({2, 0, 1, 3}));
}

void KeyValueCache::Advance(int64_t tokens) {
  length_ += tokens;
  current_.add_(tokens);
  masks_.clear();
}

void KeyValueCache::Clear() {
  length_ = 0;
  current_.zero_();
  masks_.clear();
}

const at::Tensor& KeyValueCache::Mask(int64_t window, int64_t width) {
  at::Tensor& mask = masks_[window];
  if (mask.defined()) return mask;
  const at::Tensor places = places_.narrow(0, 0, width).view({1, 1, width});
  at::Tensor hidden = (places < begins_).logical_or(places > current_);
  if (window > 0) hidden = hidden.logical_or(places <= current_ - window);
  mask = at::zeros(hidden.sizes(), keys_.front().options())
             .masked_fill(hidden, -std::numeric_limits<float>::infinity());
  return mask;
}

at::Tensor KeyValueCache::Attend(size_t layer, const at::Tensor& q,
                                 const attention::AttentionMask& mask) {
  const int64_t capacity = places_.size(0), rows = q.size(0);
  const int64_t kv_heads = keys_[layer].size(2), dim = q.size(3);
  const int64_t width =
      std::min(capacity, (length_ / kBlock + 1) * kBlock);  // length_ is seen
  // One product per key-value head, for all queries of its group.
  const auto stored = [&](const at::Tensor& all) {
    return all.narrow(0, 0, width)
        .view({width, rows * kv_heads, dim})
        .transpose(0, 1);
  };
  const double scale =
      mask.scale > 0 ? mask.scale : 1 / std::sqrt(static_cast<double>(dim));
  const at::Tensor query = q.reshape({rows * kv_heads, -1, dim}) * scale;
  at::Tensor scores = Capped(
      products::ProductOfTransposed(query, stored(keys_[layer])), mask.softcap);
  scores = scores.view({rows, -1, width}) + Mask(mask.window, width);
  const at::Tensor p = at::softmax(scores, -1, at::kFloat)
                           .to(q.scalar_type())
                           .view({rows * kv_heads, -1, width});
  return products::Product(p, stored(values_[layer])).view(q.sizes());
}

}  // namespace mpsd::model
