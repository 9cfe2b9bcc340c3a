// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_STUDY_SLOW_SOURCE_H_
#define MPSD_TESTS_CORE_STUDY_SLOW_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "core/data/source.h"

namespace mpsd::study {

// Samples of one token, the sample's number, whose batches take a while to make
// and fail where they are told to.
class SlowSource : public data::Source {
 public:
  SlowSource(int64_t size, absl::Duration delay) : size_(size), delay_(delay) {}

  int64_t size() const override { return size_; }
  int64_t length(int64_t) const override { return 1; }
  absl::StatusOr<data::Batch> Collate(
      const std::vector<std::vector<int64_t>>& rows,
      const data::Collation&) const override {
    absl::SleepFor(delay_);
    if (!error.ok()) return error;
    data::Batch batch;
    batch.rows = static_cast<int64_t>(rows.size());
    batch.length = 1;
    for (const std::vector<int64_t>& row : rows) {
      batch.input_ids.push_back(row.at(0));
      batch.labels.push_back(row.at(0));
      batch.segment_ids.push_back(0);
    }
    return batch;
  }
  std::string hash() const override { return "slow"; }
  const data::DatasetStats& stats() const override { return stats_; }

  absl::Status error;

 private:
  const int64_t size_;
  const absl::Duration delay_;
  const data::DatasetStats stats_;
};

}  // namespace mpsd::study

#endif  // MPSD_TESTS_CORE_STUDY_SLOW_SOURCE_H_
