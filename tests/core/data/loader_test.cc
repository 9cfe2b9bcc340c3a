// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <stdexcept>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/data/in_order.h"
#include "core/data/prefetch.h"
#include "tests/core/data/model_folder.h"

namespace mpsd::data {

namespace {

using testing::AnyOf;
using testing::ElementsAre;
using testing::SizeIs;

bool Equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Batch& x, const Batch& y) {
                      return x.input_ids == y.input_ids &&
                             x.labels == y.labels &&
                             x.position_ids == y.position_ids &&
                             x.segment_ids == y.segment_ids &&
                             x.length == y.length && x.packed == y.packed;
                    });
}

std::multiset<int64_t> TokensOf(const std::vector<Batch>& batches) {
  std::multiset<int64_t> tokens;
  for (const Batch& batch : batches) {
    for (size_t i = 0; i < batch.input_ids.size(); ++i) {
      if (batch.segment_ids[i] >= 0) tokens.insert(batch.input_ids[i]);
    }
  }
  return tokens;
}

std::multiset<int64_t> TokensOfEpoch(Loader& loader) {
  std::multiset<int64_t> tokens;
  for (int64_t i = 0; i < loader.steps_per_epoch(); ++i) {
    tokens.merge(TokensOf(*loader.NextStep()));
  }
  return tokens;
}

std::vector<int64_t> Lengths() {
  std::vector<int64_t> lengths;
  for (int i = 0; i < 53; ++i) lengths.push_back(2 + (i * 7) % 30);
  return lengths;
}

LoaderOptions Options(bool packing) {
  return {.batch_size = 3,
          .gradient_accumulation_steps = 4,
          .max_length = 48,
          .packing = packing,
          .seed = 42,
          .shuffle = true};
}

TEST(Loader, CountsStepsAsTransformersDoes) {
  struct Case {
    int64_t rows, batch, accumulation, steps;
  };
  for (const Case& c : std::vector<Case>{{10, 2, 1, 5},
                                         {10, 3, 1, 4},
                                         {10, 3, 2, 2},
                                         {10, 3, 3, 2},
                                         {1, 8, 4, 1},
                                         {16, 2, 4, 2}}) {
    const TokenDataset dataset =
        CountingTokenDataset(std::vector<int64_t>(c.rows, 4), 8);
    const Loader loader(dataset, {.batch_size = c.batch,
                                  .gradient_accumulation_steps = c.accumulation,
                                  .max_length = 8});
    EXPECT_EQ(loader.steps_per_epoch(), c.steps);
  }
}

TEST(Loader, TheLastStepTakesWhatIsLeft) {
  const TokenDataset dataset =
      CountingTokenDataset(std::vector<int64_t>(10, 4), 8);
  Loader loader(
      dataset,
      {.batch_size = 3, .gradient_accumulation_steps = 3, .max_length = 8});
  const auto first = *loader.NextStep();
  ASSERT_THAT(first, SizeIs(3));
  EXPECT_EQ(first[2].rows, 3);
  EXPECT_DOUBLE_EQ(loader.epoch_fraction(), 0.5);
  const auto last = *loader.NextStep();
  ASSERT_THAT(last, SizeIs(1));
  EXPECT_EQ(last[0].rows, 1);
  EXPECT_EQ(loader.cursor(), (Cursor{1, 0}));
  EXPECT_DOUBLE_EQ(loader.epoch_fraction(), 1);
}

TEST(Loader, EveryEpochHasEveryTokenOnceInAnotherOrder) {
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  std::multiset<int64_t> expected;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    for (int32_t id : dataset.sample(i).input_ids) expected.insert(id);
  }
  for (bool packing : {false, true}) {
    Loader loader(dataset, Options(packing));
    const auto first = *loader.NextStep();
    loader.Seek({1, 0});
    EXPECT_FALSE(Equal(*loader.NextStep(), first));
    loader.Seek({});
    for (int epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(loader.cursor(), (Cursor{epoch, 0}));
      EXPECT_EQ(TokensOfEpoch(loader), expected);
    }
  }
}

TEST(Loader, ResumesAtTheStepWhereItWasLeft) {
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  for (bool packing : {false, true}) {
    Loader whole(dataset, Options(packing));
    const int64_t steps = 2 * whole.steps_per_epoch() + 1;
    for (int64_t step = 0; step < steps; ++step) {
      Loader resumed(dataset, Options(packing));
      resumed.Seek(whole.cursor());
      EXPECT_EQ(resumed.epoch_fraction(), whole.epoch_fraction());
      EXPECT_TRUE(Equal(*resumed.NextStep(), *whole.NextStep())) << step;
      EXPECT_EQ(resumed.cursor(), whole.cursor());
    }
  }
  // Seeds give orders of their own.
  LoaderOptions other = Options(false);
  other.seed = 43;
  EXPECT_FALSE(Equal(*Loader(dataset, Options(false)).NextStep(),
                     *Loader(dataset, other).NextStep()));
}

TEST(Loader, SeekBeyondTheEpochIsTheNextOne) {
  const TokenDataset dataset = CountingTokenDataset({4, 4, 4}, 8);
  Loader loader(dataset, {.batch_size = 1, .max_length = 8});
  loader.Seek({2, 3});
  EXPECT_EQ(loader.cursor(), (Cursor{3, 0}));
}

TEST(Loader, WithoutShuffleKeepsTheOrder) {
  const TokenDataset dataset = CountingTokenDataset({2, 2, 2}, 2);
  Loader loader(dataset, {.batch_size = 3, .max_length = 2, .shuffle = false});
  for (int epoch = 0; epoch < 2; ++epoch) {
    EXPECT_THAT((*loader.NextStep())[0].input_ids,
                ElementsAre(1000, 1001, 1002, 1003, 1004, 1005));
  }
}

TEST(Loader, PackedSegmentsAreContiguousAndWhole) {
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  Loader loader(dataset, Options(true));
  EXPECT_LT(loader.steps_per_epoch(),
            Loader(dataset, Options(false)).steps_per_epoch());
  for (int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    const auto batches = loader.NextStep().value();
    for (const Batch& batch : batches) {
      EXPECT_TRUE(batch.packed);
      EXPECT_LE(batch.length, 48);
      for (int64_t at = 1; at < batch.rows * batch.length; ++at) {
        if (at % batch.length == 0 || batch.segment_ids[at] < 0) continue;
        const bool begins = batch.position_ids[at] == 0;
        EXPECT_EQ(batch.segment_ids[at],
                  batch.segment_ids[at - 1] + (begins ? 1 : 0));
        EXPECT_EQ(batch.labels[at] == base::kIgnoreIndex, begins);
        if (begins) continue;
        EXPECT_EQ(batch.position_ids[at], batch.position_ids[at - 1] + 1);
        EXPECT_EQ(batch.input_ids[at], batch.input_ids[at - 1] + 1);
      }
    }
  }
}

// What a source was asked for, and an error where it is told to.
class AskedSource : public Source {
 public:
  int64_t size() const override { return 5; }
  int64_t length(int64_t) const override { return 1; }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>&,
                                const Collation& collation) const override {
    asked.push_back(collation);
    if (asked.size() > 3) return absl::NotFoundError("3.png");
    return Batch();
  }
  std::string hash() const override { return ""; }
  const DatasetStats& stats() const override { return stats_; }

  mutable std::vector<Collation> asked;

 private:
  DatasetStats stats_;
};

TEST(Loader, TellsTheSourceSeedAndEpochAndHandsOnItsErrors) {
  const AskedSource source;
  Loader loader(source, {.batch_size = 5, .seed = 7});
  ASSERT_TRUE(loader.NextStep().ok());
  ASSERT_TRUE(loader.NextStep().ok());
  EXPECT_EQ(source.asked[0].seed, 7u);
  EXPECT_TRUE(source.asked[0].training);
  EXPECT_FALSE(source.asked[0].packed);
  EXPECT_EQ(source.asked[0].epoch, 0);
  EXPECT_EQ(source.asked[1].epoch, 1);
  ASSERT_TRUE(EvalLoader(source, 2).Load(0).ok());
  EXPECT_FALSE(source.asked[2].training);
  EXPECT_EQ(loader.NextStep().status(), absl::NotFoundError("3.png"));
  EXPECT_EQ(loader.cursor(), (Cursor{2, 0}));
  EXPECT_EQ(EvalLoader(source, 2).Load(0).status().message(), "3.png");
}

TEST(EvalLoader, HasEverySampleOnceInOrder) {
  const TokenDataset dataset = CountingTokenDataset({2, 3, 1, 2, 2}, 4);
  const EvalLoader loader(dataset, 2);
  ASSERT_EQ(loader.count(), 3);
  EXPECT_THAT(loader.Load(0)->input_ids,
              ElementsAre(1000, 1001, 0, 0, 1002, 1003, 1004, 0));
  EXPECT_THAT(loader.Load(1)->samples, ElementsAre(2, 3));
  EXPECT_EQ(loader.Load(2)->rows, 1);
  int64_t tokens = 0;
  int64_t labels = 0;
  for (int64_t i = 0; i < loader.count(); ++i) {
    const Batch batch = *loader.Load(i);
    EXPECT_FALSE(batch.packed);
    tokens += batch.tokens;
    labels += batch.label_tokens;
  }
  EXPECT_EQ(tokens, 10);
  EXPECT_EQ(labels, 5);
}

// Lengths 2 3 1 2 2 9 2 2 2 2 with at most three rows and 12 tokens a batch.
TEST(EvalLoader, ALimitOfTokensCutsWhatIsLong) {
  const TokenDataset dataset =
      CountingTokenDataset({2, 3, 1, 2, 2, 9, 2, 2, 2, 2}, 20);
  const auto rows_of = [&](const EvalLoader& loader) {
    std::vector<int64_t> rows, samples;
    for (int64_t i = 0; i < loader.count(); ++i) {
      const Batch batch = *loader.Load(i);
      rows.push_back(batch.rows);
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
    }
    EXPECT_THAT(samples, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
    return rows;
  };
  EXPECT_THAT(
      rows_of(EvalLoader(dataset, 3, Padding::kLongest, TokenLimit{12, 20})),
      ElementsAre(3, 2, 1, 3, 1));
  // A row that is too long alone is a batch.
  EXPECT_THAT(
      rows_of(EvalLoader(dataset, 3, Padding::kLongest, TokenLimit{4, 20})),
      ElementsAre(1, 1, 2, 1, 1, 2, 2));
  EXPECT_THAT(rows_of(EvalLoader(dataset, 4)), ElementsAre(4, 4, 2));
}

int64_t PaddedTokens(const LoaderOptions& options) {
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  Loader loader(dataset, options);
  int64_t padded = 0;
  for (int64_t i = 0; i < loader.steps_per_epoch(); ++i) {
    const auto step = *loader.NextStep();
    for (const Batch& batch : step) padded += batch.rows * batch.length;
  }
  return padded;
}

TEST(LoaderTest, GroupsOfLikeLengthsArePaddedLessAndFoundAgainAfterASeek) {
  LoaderOptions options = Options(/*packing=*/false);
  options.padding = Padding::kLongest;
  options.gradient_accumulation_steps = 1;
  const int64_t random = PaddedTokens(options);
  options.group_by_length = true;
  EXPECT_LT(PaddedTokens(options), 9 * random / 10);
  options.group_by_length = true;
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  Loader first(dataset, options);
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(first.NextStep().ok());
  Loader second(dataset, options);
  second.Seek(first.cursor());
  EXPECT_TRUE(Equal(*first.NextStep(), *second.NextStep()));
}

TEST(LoaderTest, SortedStepsHoldTheSameRowsWithLessPadding) {
  LoaderOptions options = Options(/*packing=*/false);
  options.padding = Padding::kLongest;
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  Loader plain(dataset, options);
  const int64_t random = PaddedTokens(options);
  options.sort_steps = true;
  Loader sorted(dataset, options);
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(TokensOf(*plain.NextStep()), TokensOf(*sorted.NextStep()));
  }
  EXPECT_LT(PaddedTokens(options), random);
}

TEST(LoaderTest, RowsSideBySideAreTheSameRowsInFewerCells) {
  const TokenDataset dataset = CountingTokenDataset(Lengths(), 48);
  for (const Padding padding : {Padding::kLongest, Padding::kBuckets}) {
    LoaderOptions options = Options(/*packing=*/false);
    options.padding = padding;
    Loader plain(dataset, options);
    options.sort_steps = true;
    const int64_t sorted = PaddedTokens(options);
    options.padding_free = true;
    EXPECT_LT(PaddedTokens(options), sorted);
    Loader beside(dataset, options);
    for (int i = 0; i < 6; ++i) {
      const auto expected = *plain.NextStep(), batches = *beside.NextStep();
      EXPECT_EQ(TokensOf(batches), TokensOf(expected));
      EXPECT_LE(batches.size(), expected.size());
      int64_t labels = 0, expected_labels = 0, longest = 0;
      for (const Batch& b : expected) {
        expected_labels += b.label_tokens;
        longest = std::max(longest, b.length);
      }
      for (const Batch& b : batches) {
        labels += b.label_tokens;
        EXPECT_TRUE(b.packed);
        EXPECT_LE(b.rows, options.batch_size);
        if (padding == Padding::kBuckets) {
          EXPECT_THAT(b.rows, AnyOf(3, 1));
        }
        EXPECT_LE(b.length, longest);
      }
      EXPECT_EQ(labels, expected_labels);
    }
    Loader resumed(dataset, options);
    resumed.Seek(beside.cursor());
    EXPECT_TRUE(Equal(*resumed.NextStep(), *beside.NextStep()));
  }
}

TEST(LoaderTest, RowsOfOneLengthStayAsTheyAre) {
  const TokenDataset dataset =
      CountingTokenDataset(std::vector<int64_t>(12, 40), 48);
  LoaderOptions options = Options(/*packing=*/false);
  Loader plain(dataset, options);
  options.padding_free = true;
  Loader beside(dataset, options);
  const auto batches = *beside.NextStep();
  EXPECT_TRUE(Equal(batches, *plain.NextStep()));
  EXPECT_FALSE(batches[0].packed);
}

TEST(EvalLoaderDeathTest, LoadsOnlyWhatThereIs) {
  const TokenDataset dataset = CountingTokenDataset({4, 4, 4}, 8);
  const EvalLoader loader(dataset, 2);
  EXPECT_DEATH(loader.Load(2).IgnoreError(), "evaluation: 2 < 2");
  EXPECT_DEATH(loader.Load(-1).IgnoreError(), "evaluation: -1 >= 0");
}

TokenDataset Samples() { return CountingTokenDataset(Lengths(), 48); }

LoaderOptions PrefetchOptions() {
  return {.batch_size = 2, .gradient_accumulation_steps = 3, .max_length = 48};
}

TEST(PrefetcherTest, GivesTheLoadersStepsInTheirOrder) {
  const TokenDataset dataset = Samples();
  Loader loader(dataset, PrefetchOptions());
  Prefetcher prefetcher(dataset, PrefetchOptions());
  EXPECT_EQ(prefetcher.steps_per_epoch(), loader.steps_per_epoch());
  for (int i = 0; i < 20; ++i) {  // into the third epoch
    EXPECT_TRUE(Equal(*prefetcher.NextStep(), *loader.NextStep())) << i;
    EXPECT_EQ(prefetcher.cursor(), loader.cursor());
    EXPECT_EQ(prefetcher.epoch_fraction(), loader.epoch_fraction());
  }
}

TEST(PrefetcherTest, SeeksBeforeAndAmidSteps) {
  const TokenDataset dataset = Samples();
  Loader loader(dataset, PrefetchOptions());
  Prefetcher prefetcher(dataset, PrefetchOptions());
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
  Prefetcher prefetcher(source, PrefetchOptions());
  ASSERT_TRUE(prefetcher.NextStep().ok());  // three batches
  source.second_step.WaitForNotification();
}

TEST(PrefetcherTest, AnErrorComesWithItsStepAndCanBeTriedAgain) {
  Watched source(4);
  Prefetcher prefetcher(source, PrefetchOptions());
  ASSERT_TRUE(prefetcher.NextStep().ok());
  EXPECT_EQ(prefetcher.NextStep().status().message(), "gone");
  EXPECT_EQ(prefetcher.cursor(), (Cursor{0, 1}));
  source.Mend();
  EXPECT_TRUE(prefetcher.NextStep().ok());
  EXPECT_EQ(prefetcher.cursor(), (Cursor{0, 2}));
}

TEST(InOrderTest, OutputsComeInTheOrderOfInputs) {
  for (const int threads : {1, 2, 7}) {
    InOrder<int, int> pool(threads, [](int i) {
      // The earlier, the longer.
      absl::SleepFor(absl::Microseconds(200 - i));
      return i * i;
    });
    int pushed = 0, taken = 0;
    while (taken < 200) {
      if (pushed < 200 && !pool.full()) {
        pool.Push(pushed++);
        continue;
      }
      ASSERT_EQ(pool.Take(), taken * taken);
      ++taken;
    }
    EXPECT_TRUE(pool.empty());
  }
}

TEST(InOrderTest, SaysWhenThereIsEnoughToDo) {
  InOrder<int, int> pool(3, [](int i) { return i; });
  int pushed = 0;
  while (!pool.full()) pool.Push(pushed++);
  EXPECT_GE(pushed, 3);
  EXPECT_LE(pushed, 30);
  ASSERT_EQ(pool.Take(), 0);
  EXPECT_FALSE(pool.full());
  EXPECT_FALSE(pool.empty());
}

TEST(InOrderTest, OneThreadIsTheCallers) {
  std::set<std::thread::id> seen;
  InOrder<int, int> pool(1, [&](int i) {
    seen.insert(std::this_thread::get_id());
    return i;
  });
  for (int i = 0; i < 3; ++i) pool.Push(i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Take(), i);
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

TEST(InOrderTest, StartsNoMoreThreadsThanThereIsWork) {
  std::atomic<int> at_once{0}, most{0};
  InOrder<int, int> pool(64, [&](int i) {
    most = std::max(most.load(), ++at_once);
    absl::SleepFor(absl::Milliseconds(1));
    --at_once;
    return i;
  });
  for (int i = 0; i < 3; ++i) pool.Push(i);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.Take(), i);
  EXPECT_LE(most, 3);
}

TEST(InOrderTest, WhatWorkThrowsIsThrownWhereItIsTaken) {
  for (const int threads : {1, 3}) {
    InOrder<int, int> pool(threads, [](int i) {
      if (i == 1) throw std::runtime_error("one");
      return i;
    });
    for (int i = 0; i < 3; ++i) pool.Push(i);
    EXPECT_EQ(pool.Take(), 0);
    EXPECT_THROW(pool.Take(), std::runtime_error);
    EXPECT_EQ(pool.Take(), 2);
  }
}

TEST(InOrderTest, DestroyedWithWorkLeftItDropsIt) {
  // Where the machine holds this thread up, the others may do all there is
  // before the pool ends: that says nothing, and is tried again.
  int least = 100;
  for (int attempt = 0; attempt < 20 && least > 4; ++attempt) {
    std::atomic<int> done{0};
    {
      InOrder<int, int> pool(2, [&](int i) {
        absl::SleepFor(absl::Milliseconds(5));
        ++done;
        return i;
      });
      while (!pool.full()) pool.Push(0);
    }
    const int then = done;
    least = std::min(least, then);
    absl::SleepFor(absl::Milliseconds(20));
    EXPECT_EQ(done, then);
  }
  EXPECT_LE(least, 4);
}

TEST(WorkThreadsTest, AreOneAtLeast) { EXPECT_GE(WorkThreads(), 1); }

}  // namespace

}  // namespace mpsd::data
