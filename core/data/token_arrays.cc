// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_arrays.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/clock.h"
#include "core/base/sha256.h"

namespace mpsd::data {

TokenArrays::TokenArrays(const std::vector<TokenSample>& samples) {
  for (const TokenSample& sample : samples) {
    Add(sample.input_ids.data(), sample.in_loss.data(),
        static_cast<int64_t>(sample.input_ids.size()));
  }
}

TokenArrays TokenArrays::InFile(std::shared_ptr<const base::MappedFile> file,
                                const int64_t* ends, int64_t samples,
                                const int32_t* ids, const uint64_t* bits,
                                int64_t tokens) {
  base::CheckEqual(samples == 0 ? 0 : ends[samples - 1], tokens,
                   "the last sample's end and all tokens");
  TokenArrays arrays;
  arrays.file_ = std::move(file);
  arrays.ends_ = BlockArray<int64_t>(ends, samples);
  arrays.ids_ = BlockArray<int32_t>(ids, tokens);
  arrays.bits_ = BlockArray<uint64_t>(bits, (tokens + kBits - 1) / kBits);
  return arrays;
}

void TokenArrays::Add(const int32_t* ids, const uint8_t* marks,
                      int64_t length) {
  base::Check(file_ == nullptr, "arrays in a file do not grow");
  base::CheckAtMost(0, length, "tokens of a sample");
  // Before the ids are appended, because their count positions the bits.
  for (int64_t i = 0; i < length; ++i) {
    const int64_t bit = (ids_.size() + i) % kBits;
    if (bit == 0) bits_.PushBack(0);
    if (marks != nullptr && marks[i] != 0) {
      bits_.back() |= uint64_t{1} << bit;
    }
  }
  ids_.Append(ids, length);
  ends_.PushBack(ids_.size());
}

int64_t TokenArrays::marks(int64_t index) const {
  base::CheckIndex(index, size(), "a sample");
  const int64_t end = begin(index) + length(index);
  int64_t count = 0;
  for (int64_t place = begin(index) + 1; place < end; ++place) {
    count += mark(place) ? 1 : 0;
  }
  return count;
}

std::string TokenArrays::Digest() const {
  base::Sha256 hash;
  const auto add = [&hash](const auto& array) {
    array.ForEachPiece([&hash](const auto* values, int64_t count) {
      hash.Update({reinterpret_cast<const char*>(values),
                   static_cast<size_t>(count) * sizeof *values});
      base::CountWork();
    });
  };
  add(ends_);
  add(ids_);
  add(bits_);
  return hash.FinishHex();
}

TokenSample TokenArrays::sample(int64_t index) const {
  base::CheckIndex(index, size(), "a sample");
  TokenSample sample;
  const int64_t begin = this->begin(index), end = begin + length(index);
  for (int64_t place = begin; place < end; ++place) {
    sample.input_ids.push_back(id(place));
    sample.in_loss.push_back(mark(place) ? 1 : 0);
  }
  return sample;
}

}  // namespace mpsd::data
