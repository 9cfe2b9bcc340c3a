// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_DATA_SPLIT_H_
#define MPSD_CORE_DATA_SPLIT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/data/source.h"

namespace mpsd::data {

// Some samples of another source, in the given order. Batches number samples by
// their position in the subset.
class Subset : public Source {
 public:
  // `indices` into `base`, at least one.
  Subset(std::shared_ptr<const Source> base, std::vector<int64_t> indices);

  int64_t size() const override {
    return static_cast<int64_t>(indices_.size());
  }
  int64_t length(int64_t index) const override {
    return base_->length(indices_[index]);
  }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation& collation) const override;
  // SHA-256 over the base's hash and the indices.
  std::string hash() const override;
  // Rows, tokens and labels are those of the subset; truncated rows, dropped
  // rows and prompts those of the whole base.
  const DatasetStats& stats() const override { return stats_; }
  int64_t label_tokens(int64_t index) const override {
    return base_->label_tokens(indices_[index]);
  }

  const Source& base() const { return *base_; }
  // A sample's index in the base.
  int64_t base_index(int64_t index) const { return indices_[index]; }

 private:
  const std::shared_ptr<const Source> base_;
  const std::vector<int64_t> indices_;
  DatasetStats stats_;
};

struct SplitIndices {
  std::vector<int64_t> train, validation;  // both ascending
};

// Takes round(share × count) samples for validation, at least one and not all:
// the first ones of ShuffledOrder(count, seed, 0), so that the split is the
// same on every platform and in every version. InvalidArgument for fewer than
// two samples. 0 < share < 1.
absl::StatusOr<SplitIndices> SplitForValidation(int64_t count, double share,
                                                uint64_t seed);

// The first `count` samples; all of them if `indices` has fewer.
std::vector<int64_t> FirstIndices(const std::vector<int64_t>& indices,
                                  int64_t count);

}  // namespace mpsd::data

#endif  // MPSD_CORE_DATA_SPLIT_H_
