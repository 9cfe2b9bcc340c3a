// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_TOKEN_ARRAYS_H_
#define MPSD_CORE_DATA_TOKEN_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/file.h"
#include "core/data/block_array.h"
#include "core/data/token_sample.h"

namespace mpsd::data {

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

#endif  // MPSD_CORE_DATA_TOKEN_ARRAYS_H_
