// SPDX-License-Identifier: Apache-2.0
#include "core/plan/counted_rows.h"

#include <memory>
#include <utility>

#include "core/data/split.h"
#include "gtest/gtest.h"

namespace mpsd::plan {
namespace {

// Ten rows, of which two were cut, beside ten that were dropped.
class Read : public CountedRows {
 public:
  Read() : CountedRows(std::vector<int32_t>(10, 8)) {
    stats_ = CountedRows::stats();
    stats_.truncated_rows = 2;
    stats_.dropped_rows = 10;
    stats_.label_tokens = 40;
  }
  const data::DatasetStats& stats() const override { return stats_; }
  int64_t label_tokens(int64_t /*index*/) const override { return 4; }

 private:
  data::DatasetStats stats_;
};

TEST(CountedRows, ABatchHasTheCountsThatTrainingWouldHave) {
  const CountedRows rows({5, 9, 3});
  data::Collation collation{.padding = data::Padding::kMultipleOfEight};
  const auto batch = rows.Collate({{0}, {1}}, collation);
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->rows, 2);
  EXPECT_EQ(batch->length, 16);
  EXPECT_EQ(batch->tokens, 14);
  const auto packed = rows.Collate(
      {{0, 2, 1}}, {.packed = true, .padding = data::Padding::kLongest});
  ASSERT_TRUE(packed.ok());
  EXPECT_EQ(packed->length, 17);
}

TEST(CountedRows, RowsAreCutAtTheLengthThatIsSet) {
  CountedRows rows({5, 90});
  rows.set_max_length(20);
  const auto batch =
      rows.Collate({{0}, {1}}, {.padding = data::Padding::kBuckets});
  ASSERT_TRUE(batch.ok());
  EXPECT_EQ(batch->length, 20);
  EXPECT_EQ(batch->tokens, 25);
}

TEST(CountedRows, CopiesLengthsAndShares) {
  const CountedRows rows(Read(), 6);
  EXPECT_EQ(rows.size(), 10);
  EXPECT_EQ(rows.length(3), 6);
  EXPECT_DOUBLE_EQ(rows.cut_share(), 0.1);
  EXPECT_DOUBLE_EQ(rows.dropped_share(), 0.5);
  EXPECT_EQ(rows.stats().label_tokens, 40);
}

// A split of a limited set: the shares are those of the files.
TEST(CountedRows, APartHasTheSharesOfTheWhole) {
  std::shared_ptr<const data::Source> half = std::make_shared<data::Subset>(
      std::make_shared<Read>(), std::vector<int64_t>{0, 1, 2, 3, 4});
  const data::Subset part(half, {1, 2});
  const CountedRows rows(part, 8);
  EXPECT_EQ(rows.size(), 2);
  EXPECT_EQ(rows.stats().tokens, 16);
  EXPECT_EQ(rows.stats().label_tokens, 8);  // of two rows
  EXPECT_DOUBLE_EQ(rows.cut_share(), 0.1);
}

}  // namespace
}  // namespace mpsd::plan
