// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_PLAN_COUNTED_ROWS_H_
#define MPSD_CORE_PLAN_COUNTED_ROWS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/source.h"

namespace mpsd::plan {

// A data set without its tokens or pixels: the lengths of its samples, four
// bytes each. Its batches have only counts, so that the loaders of core/data
// make training batches from it in the order and with the padding of a run.
class CountedRows : public data::Source {
 public:
  // The counts of `source`, cut at `max_length` as the loaders do.
  CountedRows(const data::Source& source, int64_t max_length);
  // Rows of these lengths; for tests.
  explicit CountedRows(std::vector<int32_t> lengths);

  int64_t size() const override { return std::ssize(lengths_); }
  int64_t length(int64_t index) const override { return lengths_[index]; }
  // Fills in rows, length and tokens.
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation& collation) const override;
  std::string hash() const override { return ""; }
  // Rows, tokens and labels are those of these rows. Truncated and dropped rows
  // are those of all files read, even if these rows are a part of them (a
  // split, a limit).
  const data::DatasetStats& stats() const override { return stats_; }
  // Shares of all rows of the files that were read, 0 to 1.
  double cut_share() const { return cut_share_; }
  double dropped_share() const { return dropped_share_; }

  // Rows are padded to at most this many tokens; a loader's max_length.
  void set_max_length(int64_t max_length) { max_length_ = max_length; }

 private:
  std::vector<int32_t> lengths_;
  data::DatasetStats stats_;
  double cut_share_ = 0, dropped_share_ = 0;
  int64_t max_length_;
};

}  // namespace mpsd::plan

#endif  // MPSD_CORE_PLAN_COUNTED_ROWS_H_
