// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_TOKEN_ARRAYS_H_
#define MPSD_CORE_DATA_TOKEN_ARRAYS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "core/base/file.h"
#include "core/data/block_array.h"
#include "core/data/sample.h"

namespace mpsd::data {

// The samples of a data set as three arrays: all tokens one behind the other, a
// bit for each, and where each sample ends. Four bytes and an eighth a token,
// eight bytes a sample, and nothing beside. In memory, or in a file of which
// the system holds what is used and drops what it has better use for.
class TokenArrays {
 public:
  TokenArrays() = default;
  // Copies them; the bit is in_loss.
  explicit TokenArrays(const std::vector<Sample>& samples);
  // Those that lie in `file`, which it keeps open: `samples` ends (counted in
  // tokens from the first one's begin), all ids, and their bits, the lowest of
  // a word first. The ends must rise up to `tokens`.
  static TokenArrays InFile(std::shared_ptr<const base::MappedFile> file,
                            const int64_t* ends, int64_t samples,
                            const int32_t* ids, const uint64_t* bits,
                            int64_t tokens);

  // A sample more, of `length` ids and, a byte each, their bits (0 or not);
  // without `marks` all bits are 0. Not of one InFile.
  void Add(const int32_t* ids, const uint8_t* marks, int64_t length);

  int64_t size() const { return ends_.size(); }
  int64_t tokens() const { return ids_.size(); }
  // Of sample `index`: where its tokens begin among all, and how many it has.
  int64_t begin(int64_t index) const {
    return index == 0 ? 0 : ends_[index - 1];
  }
  int64_t length(int64_t index) const { return ends_[index] - begin(index); }
  // Of the token at a place among all.
  int32_t id(int64_t place) const { return ids_[place]; }
  bool mark(int64_t place) const {
    return (bits_[place / kBits] >> (place % kBits) & 1) != 0;
  }
  // A copy.
  Sample sample(int64_t index) const;

  // What it takes, here or in the file.
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
