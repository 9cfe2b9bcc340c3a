// SPDX-License-Identifier: Apache-2.0
#include "core/data/loader.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <stdexcept>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/data/batch_shapes.h"
#include "core/data/class_labels.h"
#include "core/data/in_order.h"
#include "core/data/order.h"
#include "core/data/row_errors.h"
#include "core/data/table.h"
#include "core/data/text_classes.h"
#include "core/data/token_arrays.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::data {
namespace {

TEST(LengthBuckets, AreFewAndEndAtMaxLength) {
  EXPECT_THAT(LengthBuckets(512),
              ElementsAre(32, 48, 64, 96, 128, 192, 256, 384, 512));
  EXPECT_THAT(LengthBuckets(100), ElementsAre(32, 48, 64, 96, 100));
  EXPECT_THAT(LengthBuckets(48), ElementsAre(32, 48));
  EXPECT_THAT(LengthBuckets(32), ElementsAre(32));
  EXPECT_THAT(LengthBuckets(5), ElementsAre(5));
  EXPECT_LE(LengthBuckets(131072).size(), 26u);
}

TEST(MakeBatch, PadsToTheSmallestBucketThatFits) {
  const TokenArrays samples(CountingSamples({3, 33, 2}));
  Batch batch = MakeBatch(samples, {{0}, {2}}, 64, 9, false);
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.length, 32);
  EXPECT_FALSE(batch.packed);
  EXPECT_EQ(batch.input_ids.size(), 64u);
  EXPECT_EQ(batch.input_ids[3], 9);
  EXPECT_EQ(batch.segment_ids[3], -1);
  EXPECT_EQ(batch.position_ids[3], 3);  // padding counts on
  EXPECT_EQ(batch.labels[3], base::kIgnoreIndex);
  EXPECT_EQ(MakeBatch(samples, {{0}, {1}}, 64, 9, false).length, 48);
  EXPECT_EQ(MakeBatch(samples, {{0}, {1}}, 40, 9, false).length, 40);
}

TEST(PaddedLength, IsAMultipleOfEightWhereShapesAreFree) {
  auto padded = [](int64_t length, int64_t max_length) {
    return PaddedLength(length, max_length, Padding::kMultipleOfEight);
  };
  EXPECT_EQ(padded(1, 64), 8);
  EXPECT_EQ(padded(33, 64), 40);
  EXPECT_EQ(padded(40, 64), 40);
  EXPECT_EQ(padded(61, 62), 62);
  EXPECT_EQ(PaddedLength(33, 64, Padding::kLongest), 33);
}

TEST(MakeBatch, LabelsAreNotShiftedAndLeaveOutTheFirstToken) {
  TokenSample sample;
  sample.input_ids = {5, 6, 7, 8};
  sample.in_loss = {1, 0, 1, 1};
  const Batch batch = MakeBatch(TokenArrays({sample}), {{0}}, 4, 0, false);
  EXPECT_THAT(batch.input_ids, ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(batch.labels, ElementsAre(-100, -100, 7, 8));
  EXPECT_THAT(batch.position_ids, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(batch.segment_ids, ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(batch.tokens, 4);
  EXPECT_EQ(batch.label_tokens, 2);
  EXPECT_EQ(batch.label_tokens, sample.label_tokens());
  EXPECT_EQ(batch.loss_weight, 2);
  EXPECT_THAT(batch.samples, ElementsAre(0));
}

TEST(MakeBatch, PacksSegmentsWithPositionsOfTheirOwn) {
  const TokenArrays samples(CountingSamples({3, 2, 4}));
  const Batch batch = MakeBatch(samples, {{2, 0}, {1}}, 8, 1, true);
  EXPECT_TRUE(batch.packed);
  EXPECT_THAT(batch.input_ids,
              ElementsAre(1005, 1006, 1007, 1008, 1000, 1001, 1002, 1, 1003,
                          1004, 1, 1, 1, 1, 1, 1));
  EXPECT_THAT(batch.position_ids,
              ElementsAre(0, 1, 2, 3, 0, 1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0));
  EXPECT_THAT(batch.segment_ids, ElementsAre(0, 0, 0, 0, 1, 1, 1, -1, 0, 0, -1,
                                             -1, -1, -1, -1, -1));
  EXPECT_THAT(batch.labels,
              ElementsAre(-100, 1006, 1007, 1008, -100, 1001, 1002, -100, -100,
                          1004, -100, -100, -100, -100, -100, -100));
  EXPECT_EQ(batch.tokens, 9);
  EXPECT_EQ(batch.label_tokens, 6);
  EXPECT_EQ(batch.loss_weight, 6);
  EXPECT_TRUE(batch.samples.empty());
}

TEST(MakeBatch, CutsSamplesAtMaxLength) {
  const Batch batch =
      MakeBatch(TokenArrays(CountingSamples({9, 2})), {{0}, {1}}, 4, 0, false);
  EXPECT_EQ(batch.length, 4);
  EXPECT_THAT(batch.input_ids,
              ElementsAre(1000, 1001, 1002, 1003, 1009, 1010, 0, 0));
  EXPECT_EQ(batch.tokens, 6);
}

// Samples of these lengths, of which a batch keeps the number of rows.
class SampleLengths : public Source {
 public:
  explicit SampleLengths(std::vector<int64_t> lengths)
      : lengths_(std::move(lengths)) {}
  int64_t size() const override { return std::ssize(lengths_); }
  int64_t length(int64_t index) const override { return lengths_[index]; }
  absl::StatusOr<Batch> Collate(const std::vector<std::vector<int64_t>>& rows,
                                const Collation&) const override {
    Batch batch;
    batch.rows = std::ssize(rows);
    return batch;
  }
  std::string hash() const override { return ""; }
  const DatasetStats& stats() const override { return stats_; }

 private:
  const std::vector<int64_t> lengths_;
  DatasetStats stats_;
};

class BatchShapesTest : public testing::Test {
 protected:
  BatchShapesTest() {
    spec_.training.per_device_train_batch_size = 4;
    spec_.training.gradient_accumulation_steps = 3;
    spec_.training.per_device_eval_batch_size = 8;
    spec_.training.max_length = 100;
  }
  BatchShapes On(backend::Choice device) const {
    return {spec_, config_, backend::TraitsOf(device),
            device == backend::Choice::kMps ? "mps" : "cpu"};
  }

  spec::TrainSpec spec_;
  spec::ModelConfig config_;
};

TEST_F(BatchShapesTest, StepsAreSplitAndCounted) {
  const BatchShapes shapes = On(backend::Choice::kCpu);
  EXPECT_EQ(shapes.step_rows(), 12);
  const LoaderOptions options = shapes.TrainOptions(6);
  EXPECT_EQ(options.batch_size, 6);
  EXPECT_EQ(options.gradient_accumulation_steps, 2);
  EXPECT_EQ(options.padding, Padding::kLongest);
  EXPECT_FALSE(options.padding_free);
  spec_.training.auto_find_batch_size = true;
  EXPECT_TRUE(On(backend::Choice::kMps).TrainOptions(1).padding_free);
  EXPECT_EQ(On(backend::Choice::kMps).TrainOptions(1).padding,
            Padding::kBuckets);
  spec_.training.num_train_epochs = 2.5;
  EXPECT_EQ(On(backend::Choice::kCpu).TotalSteps(5), 13);
  spec_.training.max_steps = 7;
  EXPECT_EQ(On(backend::Choice::kCpu).TotalSteps(5), 7);
}

TEST_F(BatchShapesTest, TheLongestRowIsCutAndPadded) {
  const SampleLengths train({7, 33, 5}), longer({7, 200});
  EXPECT_EQ(On(backend::Choice::kCpu).LongestSample(train), 33);
  EXPECT_EQ(On(backend::Choice::kCpu).LongestSample(longer), 100);
  EXPECT_EQ(On(backend::Choice::kCpu).LongestRow(train), 33);
  EXPECT_EQ(On(backend::Choice::kMps).LongestRow(train),
            PaddedLength(33, 100, Padding::kBuckets));
  spec_.training.packing = true;
  EXPECT_EQ(On(backend::Choice::kCpu).LongestRow(train), 100);
}

TEST_F(BatchShapesTest, ALimitSaysHowManyRowsAreRight) {
  spec_.training.max_length = 2'048;
  spec_.training.packing = true;
  spec_.training.per_device_train_batch_size = 15;
  const SampleLengths train({2'048});
  EXPECT_TRUE(On(backend::Choice::kMps).CheckDeviceLimits(train, {}).ok());
  spec_.training.per_device_train_batch_size = 16;
  EXPECT_TRUE(On(backend::Choice::kCpu).CheckDeviceLimits(train, {}).ok());
  EXPECT_EQ(On(backend::Choice::kMps).CheckDeviceLimits(train, {}).message(),
            "training.per_device_train_batch_size: 16 rows of up to 2048 "
            "tokens are 32768; the device mps computes wrong gradients above "
            "32766: take 15 rows at most and raise gradient_accumulation_steps "
            "instead, or set auto_find_batch_size");
  spec_.training.auto_find_batch_size = true;
  EXPECT_TRUE(On(backend::Choice::kMps).CheckDeviceLimits(train, {}).ok());
}

// Fewer rows would not help.
TEST_F(BatchShapesTest, ARowThatIsTooLongNamesMaxLength) {
  spec_.training.max_length = 32'768;
  spec_.training.per_device_train_batch_size = 1;
  const SampleLengths short_rows({64}), long_rows({32'768});
  const BatchShapes shapes = On(backend::Choice::kMps);
  EXPECT_TRUE(
      shapes.CheckDeviceLimits(short_rows, {&short_rows, nullptr}).ok());
  const std::string message =
      "training.max_length: the longest row has 32768 tokens with its padding; "
      "the device mps computes wrong gradients above 32766 tokens at a time: "
      "set max_length to 32766 at most, which cuts longer rows";
  EXPECT_EQ(shapes.CheckDeviceLimits(long_rows, {}).message(), message);
  EXPECT_EQ(
      shapes.CheckDeviceLimits(short_rows, {nullptr, &long_rows}).message(),
      message);
}

// Where running out of memory is silent, an evaluation takes what a
// micro-batch of training took.
TEST_F(BatchShapesTest, AnEvaluationIsAsLargeAsItsDeviceBears) {
  const SampleLengths train({32, 32}), eval(std::vector<int64_t>(16, 32));
  EXPECT_EQ(On(backend::Choice::kCpu).EvalBatches(eval, train, 2).count(), 2);
  const EvalLoader few = On(backend::Choice::kMps).EvalBatches(eval, train, 2);
  EXPECT_EQ(few.count(), 8);
  EXPECT_EQ(few.Load(0)->rows, 2);
}

TEST_F(BatchShapesTest, AnImageHasTheModelsTokens) {
  spec_.task = spec::Task::kImageCls;
  spec_.training.packing = true;  // of no meaning for images
  config_.vision.image_size = 32;
  config_.vision.patch_size = 8;
  const SampleLengths images(std::vector<int64_t>(12, 1));
  const BatchShapes shapes = On(backend::Choice::kMps);
  EXPECT_EQ(shapes.LongestRow(images), 17);
  EXPECT_EQ(shapes.EvalBatches(images, images, 3).count(), 4);
}

std::vector<TokenSample> RandomSamples(int count, int longest) {
  std::mt19937 random(3);
  std::vector<TokenSample> samples(count);
  for (TokenSample& sample : samples) {
    const int length = 1 + static_cast<int>(random() % longest);
    for (int i = 0; i < length; ++i) {
      sample.input_ids.push_back(static_cast<int32_t>(random()));
      sample.in_loss.push_back(random() % 3 == 0);
    }
  }
  return samples;
}

TEST(TokenArraysTest, GivesBackEverySample) {
  // More than a block of each array but the ends.
  const std::vector<TokenSample> samples = RandomSamples(40, 40'000);
  const TokenArrays arrays(samples);
  ASSERT_EQ(arrays.size(), 40);
  ASSERT_GT(arrays.tokens(), 600'000);
  int64_t begin = 0;
  for (int64_t i = 0; i < 40; ++i) {
    EXPECT_EQ(arrays.begin(i), begin);
    EXPECT_EQ(arrays.length(i), std::ssize(samples[i].input_ids));
    EXPECT_EQ(arrays.sample(i), samples[i]) << i;
    begin += arrays.length(i);
  }
  EXPECT_EQ(begin, arrays.tokens());
}

TEST(TokenArraysTest, MoreSamplesThanABlockHolds) {
  TokenArrays arrays;
  for (int32_t i = 0; i < 300'000; ++i) arrays.Add(&i, nullptr, 1);
  for (const int64_t i : {0, 131'071, 131'072, 262'144, 299'999}) {
    EXPECT_EQ(arrays.length(i), 1);
    EXPECT_EQ(arrays.id(arrays.begin(i)), i);
    EXPECT_FALSE(arrays.mark(i));
  }
}

// Written down once: a run must find its order again in every later version.
TEST(ShuffledOrder, IsAPermutationThatNeverChanges) {
  EXPECT_THAT(ShuffledOrder(8, 42, 0),
              ::testing::ElementsAre(3, 6, 0, 7, 1, 2, 5, 4));
  EXPECT_THAT(ShuffledOrder(8, 42, 1),
              ::testing::ElementsAre(1, 0, 5, 3, 4, 6, 7, 2));
  const std::vector<int64_t> order = ShuffledOrder(1000, 42, 3);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, PlainOrder(1000));
  EXPECT_EQ(ShuffledOrder(1000, 42, 3), order);
  EXPECT_NE(ShuffledOrder(1000, 42, 4), order);
  EXPECT_NE(ShuffledOrder(1000, 43, 3), order);
  EXPECT_NE(ShuffledOrder(1000, 43, 2), order);
  EXPECT_THAT(ShuffledOrder(1, 1, 1), ::testing::ElementsAre(0));
  EXPECT_TRUE(ShuffledOrder(0, 1, 1).empty());
}

// Of 100 samples in steps of 4, pieces are six batches long.
TEST(GroupByLengthTest, SortsWithinPiecesAndPutsTheLongestFirst) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 100; ++i) lengths.push_back(1 + (i * 37) % 90);
  lengths[77] = 1000;
  const std::vector<int64_t> random = ShuffledOrder(100, 1, 0);
  const std::vector<int64_t> order = GroupByLength(random, lengths, 4);
  EXPECT_EQ(order[0], 77);
  std::vector<int64_t> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, PlainOrder(100));
  int64_t rises = 0;
  for (size_t i = 1; i < order.size(); ++i) {
    rises += lengths[order[i]] > lengths[order[i - 1]] ? 1 : 0;
  }
  // One at each seam, and one where the first batch was moved.
  EXPECT_LE(rises, 5);
  EXPECT_NE(order, random);
  EXPECT_EQ(GroupByLength({0, 1, 2, 3}, {1, 4, 2, 3}, 2),
            (std::vector<int64_t>{1, 0, 3, 2}));
}

// Written down once: a run must find its split again in every later version.
TEST(SplitForValidation, NeverChangesAndLeavesNeitherSideEmpty) {
  const auto never_changes = *SplitForValidation(8, 0.25, 42);
  EXPECT_THAT(never_changes.validation, ElementsAre(3, 6));
  EXPECT_THAT(never_changes.train, ElementsAre(0, 1, 2, 4, 5, 7));
  const auto split = SplitForValidation(1001, 0.1, 7);
  EXPECT_EQ(split->validation.size(), 100u);
  EXPECT_TRUE(std::is_sorted(split->train.begin(), split->train.end()));
  std::vector<int64_t> all = split->train;
  all.insert(all.end(), split->validation.begin(), split->validation.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, PlainOrder(1001));
  EXPECT_NE(SplitForValidation(1001, 0.1, 8)->validation, split->validation);
  EXPECT_EQ(SplitForValidation(3, 0.001, 1)->validation.size(), 1u);
  EXPECT_EQ(SplitForValidation(3, 0.999, 1)->train.size(), 1u);
  EXPECT_EQ(SplitForValidation(1, 0.5, 1).status().message(),
            "dataset.validation_split: the training data has 1 row; a split "
            "needs at least two: name files in dataset.eval instead");
}

TEST(Subset, IsAViewWithPlacesAndAHashOfItsOwn) {
  const auto base =
      std::make_shared<TokenDataset>(CountingTokenDataset({2, 3, 4, 5}, 8));
  const Subset subset(base, {3, 1});
  EXPECT_EQ(subset.size(), 2);
  EXPECT_EQ(subset.length(0), 5);
  EXPECT_EQ(subset.base_index(1), 1);
  EXPECT_EQ(subset.stats().rows, 2);
  const auto batch = subset.Collate({{1}, {0}}, {}).value();
  EXPECT_THAT(batch.samples, ElementsAre(1, 0));
  EXPECT_EQ(batch.input_ids[0], 1002);
  EXPECT_EQ(batch.input_ids[batch.length], 1009);
  EXPECT_EQ(batch.tokens, 8);
  EXPECT_EQ(Subset(base, {0, 1}).hash(), Subset(base, {0, 1}).hash());
  EXPECT_NE(Subset(base, {0, 1}).hash(), Subset(base, {1, 0}).hash());
  EXPECT_NE(Subset(base, {0, 1}).hash(), Subset(base, {0}).hash());
}

// Samples of 2, 3 and 4 tokens, of which 1, 0 and 3 are labels: the mark of a
// sample's first token is no target.
TEST(Subset, CountsItsOwnLabels) {
  const std::vector<TokenSample> samples = {
      {{1, 2}, {0, 1}}, {{3, 4, 5}, {1, 0, 0}}, {{6, 7, 8, 9}, {1, 1, 1, 1}}};
  DatasetStats stats;
  stats.rows = 3;
  stats.tokens = 9;
  for (const TokenSample& sample : samples) {
    stats.label_tokens += sample.label_tokens();
  }
  ASSERT_EQ(stats.label_tokens, 4);
  const auto base = std::make_shared<TokenDataset>(
      TokenArrays(samples), TokenizeOptions{.max_length = 8}, stats, "");
  for (int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(base->label_tokens(i), samples[i].label_tokens()) << i;
  }
  const auto part = std::make_shared<Subset>(base, std::vector<int64_t>{2, 1});
  EXPECT_EQ(part->stats().tokens, 7);
  EXPECT_EQ(part->stats().label_tokens, 3);
  EXPECT_EQ(Subset(part, {1}).stats().label_tokens, 0);  // a limit of a split
  EXPECT_EQ(Subset(base, {0, 1, 2}).stats().label_tokens, 4);
}

// Every text below holds "s3cret", and no message may.
class ShownTest : public testing::Test {
 protected:
  ~ShownTest() override { ShowContents(true); }

  // The error of a table, once as it is and once without contents.
  void ExpectHidden(const std::string& name, const std::string& text,
                    const std::string& place) {
    const fs::path path = FreshFolder("shown") / name;
    std::ofstream(path) << text;
    for (bool shown : {true, false}) {
      ShowContents(shown);
      const auto rows =
          ReadLabelledTable({path.string()}, {}, LabelUse::kRequired);
      ASSERT_FALSE(rows.ok());
      const std::string message(rows.status().message());
      EXPECT_EQ(message.find("s3cret") != message.npos, shown) << message;
      EXPECT_THAT(message, HasSubstr(path.string() + place));
    }
    EXPECT_FALSE(ContentsShown());
  }
};

TEST_F(ShownTest, ColumnsAndRowsOfATable) {
  ExpectHidden("a.csv", "s3cret,b\n1,2\n", ": expected the text in");
  ExpectHidden("b.csv", "text,s3cret\n1,2\n", ": expected the label in");
  ExpectHidden("c.csv", "s3cret,s3cret\n1,2\n", ":1: the column");
  ExpectHidden("d.jsonl", "{\"s3cret\n", ":1: ");
}

TEST_F(ShownTest, ClassLabels) {
  for (bool shown : {true, false}) {
    ShowContents(shown);
    const LabelPlace place = [](int64_t i) {
      return "t.csv:" + std::to_string(i + 2);
    };
    std::vector<std::string> warnings;
    const std::vector<LabelValue> same = {LabelFromText("s3cret"),
                                          LabelFromText("s3cret")};
    const auto class_labels =
        DecideClassLabels(same, place, {}, nullptr, {}, &warnings).value();
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_EQ(warnings[0].find("s3cret") != std::string::npos, shown);
    const auto other =
        EncodeClassLabels({LabelFromText("s3cret, too")}, place, class_labels);
    const std::string message(other.status().message());
    EXPECT_EQ(message.find("s3cret") != message.npos, shown) << message;
    EXPECT_THAT(message, HasSubstr("t.csv:2: "));
    spec::ClassificationSpec weighted;
    weighted.class_weights = {1, 2, 3};
    const auto weights =
        DecideClassLabels(same, place, weighted, nullptr, {}, {});
    const std::string text(weights.status().message());
    EXPECT_EQ(text.find("s3cret") != text.npos, shown) << text;
  }
}

TEST(LostRows, WarnsBeyondOnePercent) {
  const auto warnings = [](int64_t rows, int64_t dropped, int64_t cut) {
    DatasetStats stats;
    stats.rows = rows;
    stats.dropped_rows = dropped;
    stats.truncated_rows = cut;
    return LostRows(stats, "training data", "no label", 32);
  };
  EXPECT_THAT(warnings(99, 1, 1), testing::IsEmpty());
  EXPECT_THAT(warnings(15, 45, 60),
              testing::ElementsAre(
                  "training data: 45 of 60 rows dropped: no label",
                  "training data: 60 of 60 rows cut to max_length 32"));
}

TEST_F(ShownTest, FaultsKeepTheirPlaces) {
  ShowContents(false);
  RowErrors errors;
  errors.Add("t.csv:7", "s3cret");
  errors.AddAt("t.csv", "9: s3cret: too");
  const std::string message(errors.status().message());
  EXPECT_THAT(message, HasSubstr("t.csv:7: a bad row"));
  EXPECT_THAT(message, HasSubstr("\nt.csv:9: a bad row"));
  EXPECT_THAT(message, Not(HasSubstr("s3cret")));
}

using testing::AnyOf;

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

// Records what it was asked for; fails when it is set to fail.
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

TEST(Loader, PassesSeedAndEpochToTheSourceAndReturnsItsErrors) {
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
    Loader concurrent(dataset, options);
    for (int i = 0; i < 6; ++i) {
      const auto expected = *plain.NextStep(), batches = *concurrent.NextStep();
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
    resumed.Seek(concurrent.cursor());
    EXPECT_TRUE(Equal(*resumed.NextStep(), *concurrent.NextStep()));
  }
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

TEST(PrefetcherTest, MakesTheNextStepBeforeItIsRequested) {
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

}  // namespace
}  // namespace mpsd::data
