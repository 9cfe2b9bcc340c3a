// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/base/file.h"

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

// One row of a data set as tokens.
struct TokenSample {
  std::vector<int32_t> input_ids;
  // As long as input_ids; 1 if the token is a label. A 1 at the first token is
  // ignored: no token predicts the first.
  std::vector<uint8_t> in_loss;

  // The number of tokens that are labels and have a token before them.
  int64_t label_tokens() const {
    int64_t count = 0;
    for (size_t i = 1; i < in_loss.size(); ++i) count += in_loss[i];
    return count;
  }
  bool operator==(const TokenSample&) const = default;
};

// The samples of a data set as three arrays: the tokens of all samples in
// sequence, a bit per token, and the end of each sample. They take four bytes
// and one bit per token and eight bytes per sample. They are in memory, or in a
// mapped file, whose pages the system loads on use and drops when it needs
// memory.
class TokenArrays {
 public:
  TokenArrays() = default;
  // Copies `samples`; the bit is in_loss.
  explicit TokenArrays(const std::vector<TokenSample>& samples);
  // Arrays in `file`, which the object keeps open: `samples` ends (counted in
  // tokens from the first sample's beginning), all ids, and their bits, the
  // lowest bit of a word first. The ends must increase up to `tokens`.
  static TokenArrays InFile(std::shared_ptr<const base::MappedFile> file,
                            const int64_t* ends, int64_t samples,
                            const int32_t* ids, const uint64_t* bits,
                            int64_t tokens);

  // Appends a sample of `length` ids and their bits, given as a byte each (0 or
  // not); without `marks` all bits are 0. Not for an object made by InFile.
  void Add(const int32_t* ids, const uint8_t* marks, int64_t length);

  int64_t size() const { return ends_.size(); }
  int64_t tokens() const { return ids_.size(); }
  // The position of sample `index`'s first token among all tokens, and the
  // sample's number of tokens.
  int64_t begin(int64_t index) const {
    return index == 0 ? 0 : ends_[index - 1];
  }
  int64_t length(int64_t index) const { return ends_[index] - begin(index); }
  // The id and the bit of the token at a position among all tokens.
  int32_t id(int64_t place) const { return ids_[place]; }
  bool mark(int64_t place) const {
    return (bits_[place / kBits] >> (place % kBits) & 1) != 0;
  }
  // How many bits of sample `index` are 1, except its first token's: see
  // TokenSample::label_tokens.
  int64_t marks(int64_t index) const;
  // A copy of sample `index`.
  TokenSample sample(int64_t index) const;

  // SHA-256 over the samples' lengths, ids and bits.
  std::string Digest() const;

  // The arrays' size in memory or in the file.
  int64_t bytes() const {
    return ends_.size() * sizeof(int64_t) + ids_.size() * sizeof(int32_t) +
           bits_.size() * sizeof(uint64_t);
  }
  const BlockArray<int64_t>& ends() const { return ends_; }
  const BlockArray<int32_t>& ids() const { return ids_; }
  const BlockArray<uint64_t>& bits() const { return bits_; }

 private:
  static constexpr int64_t kBits = 64;

  std::shared_ptr<const base::MappedFile> file_;  // null: in memory
  BlockArray<int64_t> ends_;
  BlockArray<int32_t> ids_;
  BlockArray<uint64_t> bits_;
};

}  // namespace mpsd::data
