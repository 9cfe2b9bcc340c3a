// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_BLOCK_ARRAY_H_
#define MPSD_CORE_DATA_BLOCK_ARRAY_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "core/base/check.h"

namespace mpsd::data {

// An array of numbers in blocks of a mebibyte: growing moves no number, so that
// the array never needs memory for a second copy of itself. Alternatively a
// view of another object's numbers, which cannot grow.
template <typename T>
class BlockArray {
 public:
  BlockArray() = default;
  // `data` must outlive the array.
  BlockArray(const T* data, int64_t size)
      : size_(size), shift_(kViewShift), blocks_({data}) {}

  int64_t size() const { return size_; }
  const T& operator[](int64_t index) const {
    return blocks_[index >> shift_][index & ((int64_t{1} << shift_) - 1)];
  }

  void PushBack(T value) { Append(&value, 1); }
  void Append(const T* values, int64_t count) {
    base::CheckEqual(shift_, kBlockShift, "a view does not grow: its shift");
    while (count > 0) {
      const int64_t at = size_ & (kBlock - 1);
      if (at == 0) AddBlock();
      const int64_t fits = std::min(count, kBlock - at);
      std::copy(values, values + fits, owned_.back().get() + at);
      values += fits;
      count -= fits;
      size_ += fits;
    }
  }
  // The last number; the array must not be empty or a view.
  T& back() {
    base::Check(!owned_.empty(), "the array has a number and is no view");
    return owned_.back()[(size_ - 1) & (kBlock - 1)];
  }

  // Calls take(pointer to the first number, count) for each contiguous piece,
  // in order.
  template <typename Take>
  void ForEachPiece(Take take) const {
    for (int64_t at = 0; at < size_;) {
      const int64_t count = std::min(size_ - at, int64_t{1} << shift_);
      take(&(*this)[at], count);
      at += count;
    }
  }

 private:
  static constexpr int64_t kBlock = (1 << 20) / sizeof(T);  // a power of two
  static constexpr int kBlockShift = [] {
    int shift = 0;
    while ((int64_t{1} << shift) < kBlock) ++shift;
    return shift;
  }();
  static constexpr int kViewShift = 62;  // all in one block

  void AddBlock() {
    owned_.push_back(std::unique_ptr<T[]>(new T[kBlock]));
    blocks_.push_back(owned_.back().get());
  }

  int64_t size_ = 0;
  int shift_ = kBlockShift;
  std::vector<const T*> blocks_;
  std::vector<std::unique_ptr<T[]>> owned_;
};

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_BLOCK_ARRAY_H_
