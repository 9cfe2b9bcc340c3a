// SPDX-License-Identifier: Apache-2.0
#include "core/plan/epoch.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "core/backend/traits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::plan {
namespace {

using testing::ElementsAre;

std::vector<int32_t> Varied(int count) {
  std::vector<int32_t> lengths;
  for (int i = 0; i < count; ++i) lengths.push_back(1 + i * 37 % 100);
  return lengths;
}

std::vector<std::string> NamesOf(const std::vector<Sampling>& samplings) {
  std::vector<std::string> names;
  for (const Sampling& s : samplings) names.push_back(s.name);
  return names;
}

class EpochTest : public testing::Test {
 protected:
  EpochTest() {
    spec_.training.per_device_train_batch_size = 4;
    spec_.training.gradient_accumulation_steps = 2;
    spec_.training.max_length = 128;
  }
  data::BatchShapes Shapes() const {
    return {spec_, model_, backend::TraitsOf(backend::Choice::kCpu), "cpu"};
  }
  data::LoaderOptions Options() const { return Shapes().TrainOptions(4); }

  spec::TrainSpec spec_;
  spec::ModelConfig model_;
  const CountedRows rows_{Varied(50)};
};

// Counted by hand: rows one after the other, padded to the longest.
TEST_F(EpochTest, CountsWhatTheLoaderMakes) {
  spec_.training.train_sampling_strategy = "sequential";
  const Epoch epoch =
      CountEpoch(CountedRows({3, 5, 1, 2, 8, 8, 1, 1, 1}), Options());
  EXPECT_EQ(epoch.steps, 2);
  EXPECT_EQ(epoch.tokens, 30);
  EXPECT_EQ(epoch.padded_tokens, 4 * 5 + 4 * 8 + 1);
  EXPECT_EQ(epoch.batches.size(), 3u);
  EXPECT_EQ(epoch.batches.at({4, 5}), 1);
  EXPECT_EQ(epoch.batches.at({1, 1}), 1);
  EXPECT_DOUBLE_EQ(epoch.padding_share(), 1 - 30.0 / 53);
}

TEST_F(EpochTest, EveryStrategyHasTheSameTokensAndItsOwnPadding) {
  std::map<std::string, double> padding;
  for (const Sampling& sampling : Samplings(spec_, Options())) {
    const Epoch epoch = CountEpoch(rows_, sampling.options);
    EXPECT_EQ(epoch.tokens, rows_.stats().tokens) << sampling.name;
    padding[sampling.name] = epoch.padding_share();
  }
  EXPECT_LT(padding["group_by_length"], padding["random"]);
  EXPECT_LT(padding["packing"], 0.1);
  EXPECT_LE(padding["padding_free"], padding["random"]);
}

TEST_F(EpochTest, ThePatchAsksForTheStrategy) {
  for (const Sampling& sampling : Samplings(spec_, Options())) {
    spec::TrainSpec other = spec_;
    const auto patch = nlohmann::json::parse(sampling.patch)["training"];
    other.training.train_sampling_strategy = patch["train_sampling_strategy"];
    other.training.packing = patch["packing"];
    other.training.padding_free = patch["padding_free"].get<bool>();
    const data::BatchShapes shapes(
        other, model_, backend::TraitsOf(backend::Choice::kCpu), "cpu");
    const Epoch asked = CountEpoch(rows_, shapes.TrainOptions(4));
    const Epoch told = CountEpoch(rows_, sampling.options);
    EXPECT_EQ(asked.batches, told.batches) << sampling.name;
  }
}

TEST_F(EpochTest, TheJobsOwnIsMarkedOnce) {
  const auto chosen = [&] {
    std::string name;
    for (const Sampling& s : Samplings(spec_, Options())) {
      if (s.chosen) name += s.name;
    }
    return name;
  };
  EXPECT_EQ(chosen(), "random");
  spec_.training.train_sampling_strategy = "group_by_length";
  EXPECT_EQ(chosen(), "group_by_length");
  spec_.training.train_sampling_strategy = "sequential";
  EXPECT_EQ(chosen(), "sequential");
  spec_.training.padding_free = true;
  EXPECT_EQ(chosen(), "padding_free");
  spec_.training.packing = true;
  EXPECT_EQ(chosen(), "packing");
}

TEST_F(EpochTest, EachTaskHasItsStrategies) {
  EXPECT_EQ(Samplings(spec_, Options()).size(), 5u);
  spec_.task = spec::Task::kSeqCls;
  EXPECT_THAT(NamesOf(Samplings(spec_, Options())),
              ElementsAre("random", "sequential", "group_by_length"));
  spec_.task = spec::Task::kImageCls;
  EXPECT_THAT(NamesOf(Samplings(spec_, Options())), ElementsAre("random"));
}

TEST_F(EpochTest, AnEvaluationHasEveryRowOnce) {
  spec_.training.per_device_eval_batch_size = 8;
  const Epoch epoch = CountEvaluation(Shapes(), rows_, rows_, 4, 128);
  int64_t rows = 0;
  for (const auto& [shape, count] : epoch.batches) rows += shape.rows * count;
  EXPECT_EQ(rows, 50);
  EXPECT_EQ(epoch.tokens, rows_.stats().tokens);
}

}  // namespace
}  // namespace mpsd::plan
