// SPDX-License-Identifier: Apache-2.0
#include "core/data/source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "core/base/check.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/data/order.h"

namespace mpsd::data {

std::vector<std::string> LostRows(const DatasetStats& stats,
                                  const std::string& what, const char* why,
                                  int64_t max_length) {
  const int64_t all = stats.rows + stats.dropped_rows;
  std::vector<std::string> lost;
  const auto add = [&](int64_t rows, const auto&... how) {
    if (rows * 100 <= all) return;
    lost.push_back(base::Cat(what, ": ", rows, " of ", all, " rows ", how...));
  };
  add(stats.dropped_rows, "dropped: ", why);
  add(stats.truncated_rows, "cut to max_length ", max_length);
  return lost;
}

Subset::Subset(std::shared_ptr<const Source> base, std::vector<int64_t> indices)
    : base_(std::move(base)),
      indices_(std::move(indices)),
      stats_(base_->stats()) {
  base::CheckLess(0, size(), "samples of a subset");
  stats_.rows = size();
  if (stats_.tokens > 0) {
    stats_.tokens = stats_.label_tokens = 0;
    for (int64_t i = 0; i < size(); ++i) {
      stats_.tokens += tokens(i);
      stats_.label_tokens += label_tokens(i);
    }
  }
}

absl::StatusOr<Batch> Subset::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const Collation& collation) const {
  // The base collates by its own indices; the sample numbers it writes are then
  // converted to this subset's.
  std::vector<std::vector<int64_t>> base_rows = rows;
  for (std::vector<int64_t>& row : base_rows) {
    for (int64_t& index : row) {
      base::CheckIndex(index, indices_.size(), "a sample of a subset");
      index = indices_[index];
    }
  }
  absl::StatusOr<Batch> batch = base_->Collate(base_rows, collation);
  if (!batch.ok()) return batch;
  for (size_t i = 0; i < batch->samples.size(); ++i) {
    base::CheckLess(i, rows.size(), "a sample's row");
    batch->samples[i] = rows[i][0];
  }
  return batch;
}

std::string Subset::TokenDigest() const {
  const std::string all = base_->TokenDigest();
  return all.empty() ? all : OfThese(all);
}

std::string Subset::OfThese(const std::string& digest_of_base) const {
  // Another choice of samples is another data set: a checkpoint of one must not
  // resume on the other.
  base::Sha256 hash;
  hash.Update(digest_of_base);
  for (const int64_t index : indices_) hash.Update(base::Cat(" ", index));
  return hash.FinishHex();
}

absl::StatusOr<Batch> Referenced::Collate(
    const std::vector<std::vector<int64_t>>& rows,
    const Collation& collation) const {
  absl::StatusOr<Batch> batch = base_->Collate(rows, collation);
  if (!batch.ok()) return batch;
  for (int64_t answer = 0; answer < sequences(); ++answer) {
    for (const int64_t sample : batch->samples) {
      batch->reference.push_back(logps_[sample * sequences() + answer]);
    }
  }
  base::CheckEqual(batch->reference.size(), batch->rows,
                   "log-probabilities and rows");
  return batch;
}

std::string Referenced::TokenDigest() const {
  base::Sha256 hash;
  hash.Update(base_->TokenDigest());
  hash.Update({reinterpret_cast<const char*>(logps_.data()),
               logps_.size() * sizeof(float)});
  return hash.FinishHex();
}

absl::StatusOr<SplitIndices> SplitForValidation(int64_t count, double share,
                                                uint64_t seed) {
  if (count < 2) {
    return absl::InvalidArgumentError(base::Cat(
        "dataset.validation_split: the training data has ", count,
        count == 1 ? " row" : " rows",
        "; a split needs at least two: name files in dataset.eval instead"));
  }
  const int64_t taken = std::clamp<int64_t>(
      std::llround(share * static_cast<double>(count)), 1, count - 1);
  // Drawn, then sorted: the held-out rows depend only on the seed and the
  // number of rows, and both parts keep the files' order.
  const std::vector<int64_t> order = ShuffledOrder(count, seed, 0);
  SplitIndices split;
  split.validation.assign(order.begin(), order.begin() + taken);
  split.train.assign(order.begin() + taken, order.end());
  std::sort(split.validation.begin(), split.validation.end());
  std::sort(split.train.begin(), split.train.end());
  return split;
}

}  // namespace mpsd::data
