// SPDX-License-Identifier: Apache-2.0
#include "core/plan/step_cost.h"

#include <cmath>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/host/traits.h"
#include "core/data/split.h"
#include "core/plan/chips.h"
#include "core/plan/counted_rows.h"
#include "core/plan/epoch.h"
#include "core/plan/lengths.h"
#include "core/plan/roofline.h"
#include "core/plan/step_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {

namespace {

const backend::Traits& Mps() {
  return backend::TraitsOf(backend::Choice::kMps);
}

StepCost TrainOf(const spec::TrainSpec& spec, const spec::ModelConfig& model,
                 BatchShape shape = {8, 512}) {
  return StepCosts(spec, model, Mps()).Train(shape, 1);
}

// 2 operations a weight and token forward, 2 back, of a frozen base: the
// figures of tests/ops hold the rest.
TEST(StepCost, AFrozenBaseTakesFourOperationsAWeightAndTokenAWholeModelSix) {
  const StepCost cost = TrainOf(LoraJob(), HalfBillion());
  const double weights =
      static_cast<double>(spec::ParameterCount(HalfBillion()));
  EXPECT_NEAR(cost.products / (4 * weights * 8 * 512), 1, 0.05);
  spec::TrainSpec spec = LoraJob();
  spec.fine_tune_type = spec::FineTuneType::kFull;
  EXPECT_NEAR(TrainOf(spec, HalfBillion()).products / (6 * weights * 8 * 512),
              1, 0.05);
}

TEST(StepCost, CheckpointingAddsNearlyAForward) {
  spec::TrainSpec spec = LoraJob();
  const spec::ModelConfig model = HalfBillion();
  const double none = TrainOf(spec, model).products;
  spec.training.set_recompute(spec::Recompute::kSelective);
  const double selective = TrainOf(spec, model).products;
  spec.training.set_recompute(spec::Recompute::kFull);
  const double full = TrainOf(spec, model).products;
  EXPECT_LT(none, selective);
  EXPECT_LT(selective, full);
  EXPECT_LT(full, 1.3 * none);
}

TEST(StepCost, OnlyLayersAboveAnAdapterGoBack) {
  spec::TrainSpec spec = LoraJob();
  const double all = TrainOf(spec, HalfBillion()).products;
  spec.lora.layers_to_transform = std::vector<int64_t>{23};
  const double last = TrainOf(spec, HalfBillion()).products;
  EXPECT_LT(last, 0.8 * all);
  spec.fine_tune_type = spec::FineTuneType::kHead;
  EXPECT_LT(TrainOf(spec, HalfBillion()).products, last);
}

TEST(StepCost, AttentionGrowsWithTheSquareOfTheLengthTheRestDoesNot) {
  const StepCost one = TrainOf(LoraJob(), HalfBillion(), {2, 4096});
  const StepCost two = TrainOf(LoraJob(), HalfBillion(), {1, 8192});
  EXPECT_NEAR(two.attention / one.attention, 2, 0.1);
  EXPECT_NEAR(two.products / one.products, 1, 0.01);
}

TEST(StepCost, FewerLabelsCostLessOfTheHeadAndAnEvaluationIsAForward) {
  const StepCosts costs(LoraJob(), HalfBillion(), Mps());
  const double head = 4.0 * 8 * 512 * 151936 * 896;
  EXPECT_NEAR(
      costs.Train({8, 512}, 1).products - costs.Train({8, 512}, 0.25).products,
      0.75 * head, 1);
  const double share =
      costs.Evaluate({8, 512}, 1).products / costs.Train({8, 512}, 1).products;
  EXPECT_GT(share, 0.48);
  EXPECT_LT(share, 0.52);
}

TEST(StepCost, AnImageHasTheTokensThatTheModelMakesOfIt) {
  spec::ModelConfig vit;
  vit.family = spec::Family::kVision;
  vit.model_type = "vit";
  vit.hidden_size = 192;
  vit.intermediate_size = 768;
  vit.num_hidden_layers = 12;
  vit.num_attention_heads = vit.num_key_value_heads = 3;
  vit.head_dim = 64;
  vit.num_labels = 10;
  vit.max_position_embeddings = 197;
  spec::TrainSpec spec;
  spec.task = spec::Task::kImageCls;
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const StepCost cost = TrainOf(spec, vit, {32, 1});
  const double weights = static_cast<double>(spec::ParameterCount(vit));
  // Behind the last attention the first token goes on alone.
  EXPECT_NEAR(cost.products / (6 * weights * 32 * 197), 0.94, 0.05);
}

TEST(StepCost, TheOptimizerReadsAndWritesWhatIsTrained) {
  spec::TrainSpec spec = LoraJob();
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const StepCost cost = StepCosts(spec, HalfBillion(), Mps()).Optimizer();
  EXPECT_DOUBLE_EQ(
      cost.other_bytes,
      44.0 * static_cast<double>(spec::ParameterCount(HalfBillion())));
  EXPECT_EQ(cost.operations(), 0);
}

TEST(StepCost, CostsAddUp) {
  StepCost cost{1, 2, 3, 4, 5};
  cost += cost * 2;
  EXPECT_EQ(cost.products, 3);
  EXPECT_EQ(cost.operations(), 9);
  EXPECT_EQ(cost.bytes(), 21);
  EXPECT_EQ(cost.calls, 15);
}

class StepTimeTest : public testing::Test {
 protected:
  StepTimes Times(const Rates* rates) const {
    return StepTimes({spec_, model_, traits_, epoch_, 1024, 1.0}, rates,
                     facts_);
  }

  const spec::TrainSpec spec_ = LoraJob();
  const spec::ModelConfig model_ = HalfBillion();
  const backend::Traits& traits_ = backend::TraitsOf(backend::Choice::kMps);
  // Two steps: of long rows and of short ones.
  const Epoch epoch_{.steps = 2,
                     .tokens = 8 * 1024 + 8 * 256,
                     .padded_tokens = 8 * 1024 + 8 * 256,
                     .batches = {{{8, 1024}, 1}, {{8, 256}, 1}}};
  const Rates rates_ = RatesOf(*FindChip("Apple M2 Max", 38));
  Facts facts_;
};

TEST_F(StepTimeTest, NobodyTells) {
  const StepTimes times = Times(nullptr);
  EXPECT_EQ(times.source(), TimeSource::kNotTold);
  EXPECT_FALSE(times.Seconds(spec_, epoch_).has_value());
  EXPECT_FALSE(times.EvaluationSeconds(epoch_).has_value());
  EXPECT_FALSE(times.roofline_seconds().has_value());
  EXPECT_GT(times.cost().operations(), 0);
}

TEST_F(StepTimeTest, TheRoofline) {
  const StepTimes times = Times(&rates_);
  EXPECT_EQ(times.source(), TimeSource::kRoofline);
  EXPECT_DOUBLE_EQ(*times.Seconds(spec_, epoch_),
                   2 * *times.roofline_seconds());
  // Not below the products' time at the attained rate, nor far above it.
  const double least = times.cost().operations() / rates_.half_operations;
  EXPECT_GT(*times.roofline_seconds(), least);
  EXPECT_LT(*times.roofline_seconds(), 2 * least);
  EXPECT_LT(*times.EvaluationSeconds(epoch_), *times.Seconds(spec_, epoch_));
}

TEST_F(StepTimeTest, RatesWithoutAFigureAreNone) {
  Rates rates = rates_;
  rates.half_operations = 0;
  EXPECT_EQ(Times(&rates).source(), TimeSource::kNotTold);
  EXPECT_STREQ(NameOf(TimeSource::kNotTold), "PLAN_SOURCE_UNSPECIFIED");
  EXPECT_STREQ(NameOf(TimeSource::kProbe), "PLAN_SOURCE_PROBE");
}

TEST_F(StepTimeTest, TheHistoryByTokensThenBySteps) {
  facts_.pace = Pace{3, 7.0, 0};
  EXPECT_NEAR(*Times(&rates_).Seconds(spec_, epoch_), 14, 1e-9);
  facts_.pace = Pace{3, 7.0, 1024};
  const StepTimes times = Times(&rates_);
  EXPECT_EQ(times.source(), TimeSource::kHistory);
  EXPECT_NEAR(*times.Seconds(spec_, epoch_), 10, 1e-9);
  facts_.pace->runs = 0;
  EXPECT_EQ(Times(&rates_).source(), TimeSource::kRoofline);
}

// The probe's steps are all of long rows; the job's are not.
TEST_F(StepTimeTest, AProbeIsOfTheLongestRows) {
  facts_.probe = ProbeFigures{.step_seconds = 8};
  facts_.pace = Pace{3, 7.0, 0};
  const StepTimes times = Times(&rates_);
  EXPECT_EQ(times.source(), TimeSource::kProbe);
  const double epoch = *times.Seconds(spec_, epoch_);
  EXPECT_GT(epoch, 8 + 1.5);
  EXPECT_LT(epoch, 8 + 2.5);
}

// Without rates other jobs differ by their operations.
TEST_F(StepTimeTest, ARunsTimeIsScaledToOtherJobs) {
  facts_.pace = Pace{1, 5.0, 0};
  const StepTimes times = Times(nullptr);
  EXPECT_EQ(times.source(), TimeSource::kHistory);
  EXPECT_NEAR(*times.Seconds(spec_, epoch_), 10, 1e-9);
  spec::TrainSpec other = spec_;
  other.training.set_recompute(spec::Recompute::kFull);
  EXPECT_GT(*times.Seconds(other, epoch_), 11);
  EXPECT_LT(*times.Seconds(other, epoch_), 14);
}

const backend::Traits& Fused() {
  return backend::TraitsOf(backend::Choice::kCpu);
}
const backend::Traits& Blocked() {
  return backend::TraitsOf(backend::Choice::kMps);
}

// Of the table below.
constexpr double kWorstOnH200 = 0.25;

Rates RatesOfTest() {
  return {.fp32_operations = 100,
          .half_operations = 200,
          .bytes = 10,
          .call_seconds = 0.01,
          .source = ""};
}

TEST(Roofline, TakesTheLongestOfOperationsBytesAndCalls) {
  const auto seconds = [](const StepCost& cost, bool half = false,
                          const backend::Traits& traits = Fused()) {
    return RooflineSeconds(cost, RatesOfTest(), half, traits);
  };
  StepCost cost{.products = 1000, .product_bytes = 10};
  EXPECT_DOUBLE_EQ(seconds(cost), 10);
  EXPECT_DOUBLE_EQ(seconds(cost, true), 5);
  cost.product_bytes = 500;
  EXPECT_DOUBLE_EQ(seconds(cost, true), 50);
  // Other bytes come on top, and the host's calls bound small steps.
  EXPECT_DOUBLE_EQ(seconds({.products = 1000, .other_bytes = 20}), 12);
  EXPECT_DOUBLE_EQ(seconds({.products = 100, .calls = 1000}), 10);
  // Fused attention attains less.
  EXPECT_DOUBLE_EQ(seconds({.attention = 1000}, false, Blocked()), 10);
  EXPECT_DOUBLE_EQ(seconds({.attention = 1000}), 25);
}

spec::ModelConfig Llama(int64_t vocab, int64_t width, int64_t inner,
                        int64_t layers, int64_t heads, int64_t kv_heads) {
  spec::ModelConfig model = HalfBillion();
  model.model_type = "llama";
  model.vocab_size = vocab;
  model.hidden_size = width;
  model.intermediate_size = inner;
  model.num_hidden_layers = layers;
  model.num_attention_heads = heads;
  model.num_key_value_heads = kv_heads;
  model.head_dim = width / heads;
  model.qkv_bias = false;
  return model;
}

// A row of tests/bench/README.md: LoRA r = 8 in bf16 on an H200.
struct MeasuredStep {
  const char* name;
  spec::ModelConfig model;
  BatchShape shape;
  int64_t accumulation;
  bool all_linear, checkpointing, by_mps_kernels;
  double tokens_per_second;
};

// The error is printed, and bounded where the step is the device's own.
TEST(Roofline, TheH200sStepsAreThoseMeasured) {
  const spec::ModelConfig seven = Llama(32000, 4096, 11008, 32, 32, 32);
  const spec::ModelConfig smollm = Llama(49152, 576, 1536, 30, 9, 3);
  const MeasuredStep steps[] = {
      {"7B 1024x4x2", seven, {4, 1024}, 2, false, false, false, 20180},
      {"7B, all linears", seven, {4, 1024}, 2, true, false, false, 18540},
      {"7B, recomputed", seven, {4, 1024}, 2, false, true, false, 14922},
      {"7B, MPS' kernels", seven, {4, 1024}, 2, false, false, true, 14674},
      {"0.5B 512x8x1", HalfBillion(), {8, 512}, 1, false, false, false, 139056},
      {"135M 512x8x1", smollm, {8, 512}, 1, false, false, false, 238309},
      {"135M 512x1x8", smollm, {1, 512}, 8, false, false, false, 37447},
  };
  const Rates rates = RatesOf(*FindChip("NVIDIA H200", 0));
  double worst = 0;
  for (const MeasuredStep& step : steps) {
    spec::TrainSpec spec = LoraJob();
    if (step.all_linear) spec.lora.target_modules = spec::LoraSpec::AllLinear{};
    spec.training.gradient_checkpointing = step.checkpointing;
    spec.device = backend::Choice::kCuda;
    const backend::Traits& traits = backend::TraitsOf(
        step.by_mps_kernels ? backend::Choice::kMps : backend::Choice::kCuda);
    const StepCosts costs(spec, step.model, traits);
    const double seconds =
        RooflineSeconds(costs.Train(step.shape, 1), rates, true, traits) *
            static_cast<double>(step.accumulation) +
        RooflineSeconds(costs.Optimizer(), rates, true, traits);
    const double tokens = static_cast<double>(
        step.shape.rows * step.shape.length * step.accumulation);
    const double measured = tokens / step.tokens_per_second;
    const double error = seconds / measured - 1;
    std::cout << step.name << ": " << 1e3 * seconds << " ms, measured "
              << 1e3 * measured << ", " << 100 * error << " %\n";
    worst = std::max(worst, std::abs(error));
  }
  EXPECT_LT(worst, kWorstOnH200);
}

LengthSummary Of(std::vector<int32_t> lengths) {
  return Summarize(CountedRows(std::move(lengths)));
}

TEST(Lengths, TheMedianAndTheTail) {
  EXPECT_EQ(Of({}).longest, 0);
  EXPECT_TRUE(Of({}).bins.empty());
  const LengthSummary summary = Of({7, 7, 7});
  EXPECT_EQ(summary.shortest, 7);
  EXPECT_EQ(summary.median, 7);
  EXPECT_EQ(summary.p95, 7);
  EXPECT_EQ(summary.mean, 7);
  ASSERT_EQ(summary.bins.size(), 1u);
  EXPECT_EQ(summary.bins[0], (LengthBin{7, 7, 3}));
  std::vector<int32_t> lengths;
  for (int i = 1; i <= 100; ++i) lengths.push_back(i);
  EXPECT_EQ(Of(lengths).median, 50);
  EXPECT_EQ(Of(lengths).p95, 95);
  EXPECT_EQ(Of({1, 2}).median, 1);
  EXPECT_EQ(Of({1, 2, 9}).median, 2);
}

// Whatever the lengths, the bins join without a gap, are few and lose no row.
TEST(Lengths, TheBinsHoldEveryRow) {
  for (const int32_t longest :
       {1, 16, 17, 33, 100, 4096, 32768, 2'000'000'000}) {
    for (const int32_t shortest : {1, 15, 30, 1000}) {
      if (shortest > longest) continue;
      std::vector<int32_t> lengths = {shortest, longest, longest};
      for (int64_t at = shortest; at < longest; at = at * 5 / 4 + 1) {
        lengths.push_back(static_cast<int32_t>(at));
      }
      const LengthSummary summary = Of(lengths);
      ASSERT_FALSE(summary.bins.empty());
      EXPECT_LE(std::ssize(summary.bins), kMostBins) << longest;
      EXPECT_EQ(summary.bins.front().from, shortest);
      EXPECT_EQ(summary.bins.back().to, longest);
      int64_t rows = 0, next = shortest;
      for (const LengthBin& bin : summary.bins) {
        EXPECT_EQ(bin.from, next) << longest;
        EXPECT_LE(bin.from, bin.to);
        next = bin.to + 1;
        rows += bin.rows;
      }
      EXPECT_EQ(rows, std::ssize(lengths)) << shortest << " " << longest;
    }
  }
}

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
  const auto batch = rows.Collate({{0}, {1}}, collation).value();
  EXPECT_EQ(batch.rows, 2);
  EXPECT_EQ(batch.length, 16);
  EXPECT_EQ(batch.tokens, 14);
  const auto packed = *rows.Collate(
      {{0, 2, 1}}, {.packed = true, .padding = data::Padding::kLongest});
  EXPECT_EQ(packed.length, 17);
}

TEST(CountedRows, RowsAreCutAtTheLengthThatIsSet) {
  CountedRows rows({5, 90});
  rows.set_max_length(20);
  const auto batch =
      rows.Collate({{0}, {1}}, {.padding = data::Padding::kBuckets}).value();
  EXPECT_EQ(batch.length, 20);
  EXPECT_EQ(batch.tokens, 25);
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
