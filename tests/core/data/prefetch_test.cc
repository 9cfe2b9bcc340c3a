// SPDX-License-Identifier: Apache-2.0
#include "core/data/prefetch.h"

#include <gtest/gtest.h>

#include <atomic>

#include "absl/synchronization/notification.h"
#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

TokenDataset Samples() {
  std::vector<int64_t> lengths;
  for (int i = 0; i < 31; ++i) lengths.push_back(2 + (i * 7) % 30);
  return CountingTokenDataset(lengths, 48);
}

LoaderOptions Options() {
  return {.batch_size = 2, .gradient_accumulation_steps = 3, .max_length = 48};
}

bool Equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Batch& x, const Batch& y) {
                      return x.input_ids == y.input_ids && x.rows == y.rows;
                    });
}

TEST(PrefetcherTest, GivesTheLoadersStepsInTheirOrder) {
  const TokenDataset dataset = Samples();
  Loader loader(dataset, Options());
  Prefetcher prefetcher(dataset, Options());
  EXPECT_EQ(prefetcher.steps_per_epoch(), loader.steps_per_epoch());
  for (int i = 0; i < 20; ++i) {  // three epochs
    EXPECT_TRUE(Equal(*prefetcher.NextStep(), *loader.NextStep())) << i;
    EXPECT_EQ(prefetcher.cursor(), loader.cursor());
    EXPECT_EQ(prefetcher.epoch_fraction(), loader.epoch_fraction());
  }
}

TEST(PrefetcherTest, SeeksBeforeAndAmidSteps) {
  const TokenDataset dataset = Samples();
  Loader loader(dataset, Options());
  Prefetcher prefetcher(dataset, Options());
  for (const Cursor& cursor :
       {Cursor{1, 2}, Cursor{0, 1}, Cursor{0, 99}, Cursor{4, 0}}) {
    loader.Seek(cursor);
    prefetcher.Seek(cursor);
    EXPECT_EQ(prefetcher.cursor(), loader.cursor());
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(Equal(*prefetcher.NextStep(), *loader.NextStep()));
    }
  }
}

// Passes on to a data set; counts, and fails from a call on.
class Watched : public Source {
 public:
  explicit Watched(int64_t calls_that_work) : left_(calls_that_work) {}
  int64_t size() const override { return dataset_.size(); }
  int64_t length(int64_t index) const override {
    return dataset_.length(index);
  }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation& collation) const override {
    if (left_.fetch_sub(1) <= 0) return absl::NotFoundError("gone");
    auto batch = dataset_.Collate(rows, collation);
    if (++made_ == 4 && !second_step.HasBeenNotified()) second_step.Notify();
    return batch;
  }
  std::string hash() const override { return ""; }
  const DatasetStats& stats() const override { return dataset_.stats(); }
  void Mend() { left_ = 1000; }

  mutable absl::Notification second_step;  // the fourth batch was made

 private:
  const TokenDataset dataset_ = Samples();
  mutable std::atomic<int64_t> left_, made_{0};
};

TEST(PrefetcherTest, MakesTheNextStepWhileNobodyAsksForIt) {
  const Watched source(1000);
  Prefetcher prefetcher(source, Options());
  ASSERT_TRUE(prefetcher.NextStep().ok());  // three batches
  source.second_step.WaitForNotification();
}

TEST(PrefetcherTest, AnErrorComesWithItsStepAndCanBeTriedAgain) {
  Watched source(4);
  Prefetcher prefetcher(source, Options());
  ASSERT_TRUE(prefetcher.NextStep().ok());
  EXPECT_EQ(prefetcher.NextStep().status().message(), "gone");
  EXPECT_EQ(prefetcher.cursor(), (Cursor{0, 1}));
  source.Mend();
  EXPECT_TRUE(prefetcher.NextStep().ok());
  EXPECT_EQ(prefetcher.cursor(), (Cursor{0, 2}));
}

TEST(PrefetcherTest, EndsWithAStepAhead) {
  const TokenDataset dataset = Samples();
  Prefetcher prefetcher(dataset, Options());
  ASSERT_TRUE(prefetcher.NextStep().ok());
}

}  // namespace
}  // namespace mpsd::data
