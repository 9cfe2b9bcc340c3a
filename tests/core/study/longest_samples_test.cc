// SPDX-License-Identifier: Apache-2.0
#include "core/study/longest_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::study {
namespace {

using testing::ElementsAre;

// Row i has lengths_[i] tokens.
class FakeRows : public data::Source {
 public:
  int64_t size() const override { return 4; }
  int64_t length(int64_t index) const override {
    return lengths_[static_cast<size_t>(index)];
  }
  absl::StatusOr<data::Batch> Collate(const std::vector<std::vector<int64_t>>&,
                                      const data::Collation&) const override {
    return data::Batch();
  }
  std::string hash() const override { return "hash"; }
  const data::DatasetStats& stats() const override { return stats_; }

 private:
  const std::vector<int64_t> lengths_ = {3, 9, 5, 9};
  const data::DatasetStats stats_ = {.rows = 4};
};

TEST(LongestSamples, TheLongestFirstAndAgain) {
  const FakeRows rows;
  EXPECT_THAT(LongestSamples(rows, 3), ElementsAre(1, 3, 2));
  EXPECT_THAT(LongestSamples(rows, 6), ElementsAre(1, 3, 2, 0, 1, 3));
  EXPECT_TRUE(LongestSamples(rows, 0).empty());
}

}  // namespace
}  // namespace mpsd::study
