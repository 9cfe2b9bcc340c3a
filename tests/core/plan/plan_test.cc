// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"

#include <cmath>
#include <iostream>
#include <memory>
#include <set>
#include <utility>

#include "core/base/file.h"
#include "core/data/source.h"
#include "core/plan/epoch.h"
#include "core/plan/step_cost.h"
#include "core/plan/step_time.h"
#include "core/report/runbook.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/status_matchers.h"

namespace mpsd::plan {
namespace {

// The shape of Qwen2.5-0.5B.
spec::ModelConfig HalfBillion() {
  spec::ModelConfig model;
  model.model_type = "qwen2";
  model.vocab_size = 151936;
  model.hidden_size = 896;
  model.intermediate_size = 4864;
  model.num_hidden_layers = 24;
  model.num_attention_heads = 14;
  model.num_key_value_heads = 2;
  model.head_dim = 64;
  model.max_position_embeddings = 32768;
  model.tie_word_embeddings = true;
  model.qkv_bias = true;
  model.sliding_window.assign(24, 0);
  return model;
}

// LoRA of rank 8 on queries and values, 8 rows of up to 1,024 tokens.
spec::TrainSpec LoraJob() {
  spec::TrainSpec spec;
  spec.lora.target_modules = std::vector<std::string>{"q_proj", "v_proj"};
  spec.training.bf16 = true;
  spec.training.per_device_train_batch_size = 8;
  return spec;
}

// `count` rows of 10 to `longest` tokens.
CountedRows RowsUpTo(int32_t longest, int count = 64) {
  std::vector<int32_t> lengths;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(10 + i * 37 % (longest - 9));
  }
  lengths[0] = longest;
  return CountedRows(std::move(lengths));
}

const backend::Traits& Mps() {
  return backend::TraitsOf(backend::Choice::kMps);
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

// For any lengths, the bins join without a gap, are few and lose no row.
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
    const Epoch given = CountEpoch(rows_, sampling.options);
    EXPECT_EQ(asked.batches, given.batches) << sampling.name;
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

// Ten rows, of which two were cut, next to ten that were dropped.
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

using nlohmann::json;

class PlanTest : public testing::Test {
 protected:
  PlanTest() {
    facts_.chip = "Apple M2 Max";
    facts_.gpu_cores = 38;
    facts_.memory_limit_bytes = int64_t{48} << 30;
    facts_.disk_free_bytes = int64_t{100} << 30;
    spec_.training.num_train_epochs = 2;
  }
  json Make() const {
    return MakePlan({.spec = spec_,
                     .model = model_,
                     .model_folder = "/models/m",
                     .rows = {&train_, eval_, nullptr},
                     .device = backend::Choice::kMps,
                     .facts = facts_,
                     .warmup_steps = [](int64_t total) { return total / 10; },
                     .warnings = warnings_});
  }
  json Finding(const json& plan, const std::string& name) const {
    for (const json& finding : plan["findings"]) {
      if (finding["name"] == name) return finding;
    }
    return json::object();
  }
  std::string Found(const json& plan, const std::string& name) const {
    return Finding(plan, name)["found"];
  }

  spec::TrainSpec spec_ = LoraJob();
  spec::ModelConfig model_ = HalfBillion();
  const CountedRows train_ = RowsUpTo(1000);
  const CountedRows rows_of_eval_ = RowsUpTo(100, 20);
  const CountedRows* eval_ = nullptr;
  Facts facts_;
  std::vector<std::string> warnings_;
};

TEST_F(PlanTest, AJobThatFits) {
  const json plan = Make();
  EXPECT_EQ(Finding(plan, "plan.memory")["verdict"], "VERDICT_PASS");
  EXPECT_EQ(plan["steps"]["steps_per_epoch"], 8);
  EXPECT_EQ(plan["steps"]["total_steps"], 16);
  EXPECT_EQ(plan["steps"]["warmup_steps"], 1);
  EXPECT_EQ(plan["steps"]["evaluations"], 0);
  EXPECT_EQ(plan["steps"]["checkpoints"], 1);
  EXPECT_EQ(plan["model"]["gradients"], "explicit step");
  EXPECT_EQ(plan["model"]["dtype"], "bfloat16");
  EXPECT_EQ(plan["model"]["trainable_parameters"],
            spec::TrainableParameterCount(spec_, model_));
  EXPECT_EQ(plan["memory"]["source"], "PLAN_SOURCE_ESTIMATE");
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_ROOFLINE");
  EXPECT_THAT(plan["time"]["rates"].get<std::string>(),
              HasSubstr("Apple M2 Max (38 GPU cores)"));
  EXPECT_NEAR(plan["time"]["total_seconds"].get<double>(),
              16 * plan["time"]["seconds_per_step"].get<double>(), 1e-6);
  EXPECT_FALSE(plan.contains("alternatives"));
  EXPECT_FALSE(plan["data"].contains("eval"));
}

TEST_F(PlanTest, EvaluationsAndCheckpointsAreThoseOfTheLoop) {
  eval_ = &rows_of_eval_;
  spec_.training.eval_steps = 5;
  spec_.training.save_steps = 8;
  const json plan = Make();
  EXPECT_EQ(plan["steps"]["evaluations"], 5);  // 0 5 10 15 16
  EXPECT_EQ(plan["steps"]["checkpoints"], 2);  // 8 16
  EXPECT_GT(plan["time"]["evaluation_seconds"].get<double>(), 0);
  EXPECT_EQ(plan["data"]["eval"]["rows"], 20);
  spec_.training.load_best_model_at_end = true;
  const json with_bests = Make();
  EXPECT_EQ(with_bests["steps"]["checkpoints"], 5);  // 5 8 10 15 16
  // 8, and 15 while 10 is there; or 8, 16 and the best.
  EXPECT_EQ(with_bests["disk"]["checkpoints_kept"], 3);
  spec_.training.eval_steps = 0;
  EXPECT_EQ(Make()["steps"]["evaluations"], 3);  // 0 8 16
  EXPECT_EQ(Make()["disk"]["checkpoints_kept"], 2);
}

TEST_F(PlanTest, AJobThatDoesNotFitGetsAlternatives) {
  facts_.memory_limit_bytes = int64_t{3} << 30;
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Found(plan, "plan.memory"), HasSubstr("GiB of 3.00 GiB"));
  ASSERT_GT(plan["alternatives"].size(), 0u);
  for (const json& a : plan["alternatives"]) {
    EXPECT_LE(a["memory_bytes"], 0.9 * (int64_t{3} << 30));
    EXPECT_GT(a["total_seconds"].get<double>(), 0);
  }
}

TEST_F(PlanTest, NoAlternativeIsAFinding) {
  facts_.memory_limit_bytes = 1 << 20;
  const json plan = Make();
  EXPECT_THAT(Found(plan, "plan.memory"), HasSubstr("GiB of 1.0 MiB"));
  EXPECT_EQ(plan["alternatives"].size(), 0u);
  EXPECT_EQ(Finding(plan, "plan.alternatives")["verdict"], "VERDICT_FAIL");
}

TEST_F(PlanTest, AlmostTooMuchIsAWarning) {
  const int64_t bytes = Make()["memory"]["peak_bytes"];
  facts_.memory_limit_bytes = bytes + bytes / 20;
  const json plan = Make();
  EXPECT_EQ(Finding(plan, "plan.memory")["verdict"], "VERDICT_WARN");
  EXPECT_FALSE(plan.contains("alternatives"));
  facts_.memory_limit_bytes = bytes;
  EXPECT_EQ(Finding(Make(), "plan.memory")["verdict"], "VERDICT_WARN");
  facts_.memory_limit_bytes = bytes - 1;
  EXPECT_EQ(Make()["verdict"], "VERDICT_FAIL");
}

TEST_F(PlanTest, NothingIsMadeUp) {
  facts_ = Facts();
  const json plan = Make();
  EXPECT_EQ(Finding(plan, "plan.memory")["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_EQ(Finding(plan, "plan.time")["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_EQ(Finding(plan, "plan.disk")["verdict"], "VERDICT_UNSPECIFIED");
  EXPECT_FALSE(plan["memory"].contains("limit_bytes"));
  EXPECT_FALSE(plan["disk"].contains("free_bytes"));
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_UNSPECIFIED");
  EXPECT_FALSE(plan["time"].contains("seconds_per_step"));
  EXPECT_FALSE(plan["data"]["samplings"][0].contains("seconds_per_epoch"));
}

TEST_F(PlanTest, AProbesFiguresReplaceTheEstimates) {
  facts_.probe = ProbeFigures{.step_seconds = 2, .peak_bytes = 12345678};
  json plan = Make();
  EXPECT_EQ(plan["memory"]["source"], "PLAN_SOURCE_PROBE");
  EXPECT_EQ(plan["memory"]["peak_bytes"], 12345678);
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_PROBE");
  EXPECT_LT(plan["time"]["seconds_per_step"].get<double>(), 2);
  facts_.probe->out_of_memory = true;
  plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Found(plan, "plan.memory"), HasSubstr("ran out of memory"));
}

TEST_F(PlanTest, TooManyTokensForTheDeviceDoNotFit) {
  spec_.training.per_device_train_batch_size = 64;
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Found(plan, "plan.device_limit"),
              HasSubstr("computes wrong gradients"));
  ASSERT_GT(plan["alternatives"].size(), 0u);
}

TEST_F(PlanTest, TooLittleDiskDoesNotFit) {
  facts_.disk_free_bytes = 1000;
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(Finding(plan, "plan.disk")["advice"].get<std::string>(),
              HasSubstr("save_total_limit"));
}

TEST_F(PlanTest, MuchPaddingNamesTheStrategyThatHasLess) {
  EXPECT_EQ(facts_.thresholds.Get("plan.padding"), 0.3);
  facts_.thresholds = *runbook::Thresholds::FromMap({{"plan.padding", 0.01}});
  const json finding = Finding(Make(), "plan.padding");
  EXPECT_EQ(finding["verdict"], "VERDICT_WARN");
  EXPECT_THAT(finding["advice"].get<std::string>(), HasSubstr(" would have "));
}

TEST_F(PlanTest, WarningsOfTheRunAreFindings) {
  warnings_ = {"lora.r has no effect \xff"};
  const json plan = Make();
  EXPECT_EQ(plan["verdict"], "VERDICT_WARN");
  EXPECT_EQ(Finding(plan, "plan.job")["found"], warnings_[0]);
}

// Every member is a field of the .proto, which the server reads it with.
TEST_F(PlanTest, TheProtoHasEveryMember) {
  facts_.memory_limit_bytes = int64_t{3} << 30;
  eval_ = &rows_of_eval_;
  const std::string proto = *base::ReadFile(std::string(MPSD_TEST_SOURCE_DIR) +
                                            "/proto/mpsd/v1/plan.proto");
  std::set<std::string> names;
  const auto collect = [&names](const json& node, const auto& self) -> void {
    if (node.is_array()) {
      for (const json& item : node) self(item, self);
    } else if (node.is_object()) {
      for (const auto& [name, value] : node.items()) {
        names.insert(name);
        if (name != "findings") self(value, self);
      }
    }
  };
  collect(Make(), collect);
  EXPECT_GT(names.size(), 60u);
  for (const std::string& name : names) {
    EXPECT_THAT(proto, HasSubstr(" " + name + " = ")) << name;
  }
}

TEST(Needs, ShortRowsNeedLessThanMaxLengthUnlessPacked) {
  const CountedRows rows = RowsUpTo(200);
  const MemoryNeed need =
      MemoryOf(LoraJob(), HalfBillion(), Mps(), {.train = &rows});
  EXPECT_EQ(need.longest_row, 256);  // padded
  EXPECT_LT(need.parts.total_bytes, need.bytes_at_max_length);
  spec::TrainSpec exact = LoraJob();
  exact.training.max_length = 256;
  EXPECT_EQ(need.parts.total_bytes,
            spec::EstimateMemory(exact, HalfBillion(), Mps()).total_bytes);
  spec::TrainSpec spec = LoraJob();
  spec.training.packing = true;
  EXPECT_EQ(MemoryOf(spec, HalfBillion(), Mps(), {.train = &rows}).longest_row,
            1024);
}

// An evaluation's rows may be the longer ones.
TEST(Needs, AnEvaluationHasItsOwnLongestRows) {
  const CountedRows train = RowsUpTo(64), eval = RowsUpTo(1024);
  spec::TrainSpec spec = LoraJob();
  spec.training.per_device_eval_batch_size = 64;
  const backend::Traits& cuda = backend::TraitsOf(backend::Choice::kCuda);
  const MemoryNeed without =
      MemoryOf(spec, HalfBillion(), cuda, {.train = &train});
  spec.dataset.eval = {"eval.jsonl"};
  const MemoryNeed with =
      MemoryOf(spec, HalfBillion(), cuda, {.train = &train, .eval = &eval});
  EXPECT_EQ(with.parts.activations_bytes, without.parts.activations_bytes);
  EXPECT_GT(with.parts.total_bytes, without.parts.total_bytes);
  EXPECT_EQ(with.parts.total_bytes,
            with.parts.base_weights_bytes + with.parts.trainable_bytes +
                with.parts.inputs_bytes + with.parts.evaluation_bytes);
}

TEST(Needs, TheTrainersMicroBatchIsTheLargestThatFits) {
  const CountedRows rows = RowsUpTo(1024);
  spec::TrainSpec spec = LoraJob();
  EXPECT_EQ(WithMicroBatch(spec, HalfBillion(), Mps(), {.train = &rows}, 1),
            spec);
  spec.training.auto_find_batch_size = true;
  const auto rows_at = [&](int64_t limit) {
    return WithMicroBatch(spec, HalfBillion(), Mps(), {.train = &rows}, limit)
        .training;
  };
  EXPECT_EQ(rows_at(0).per_device_train_batch_size, 8);
  const int64_t all =
      MemoryOf(spec, HalfBillion(), Mps(), {.train = &rows}).parts.total_bytes;
  EXPECT_EQ(rows_at(all).per_device_train_batch_size, 8);
  EXPECT_EQ(rows_at(all - 1).per_device_train_batch_size, 4);
  EXPECT_EQ(rows_at(all - 1).gradient_accumulation_steps, 2);
  EXPECT_FALSE(rows_at(all - 1).gradient_checkpointing);
  // Where nothing fits: single rows, recomputed.
  EXPECT_EQ(rows_at(1).per_device_train_batch_size, 1);
  EXPECT_EQ(rows_at(1).recompute(), spec::Recompute::kFull);
}

// MPS computes 32,766 tokens at a time rightly.
TEST(Needs, TheTrainersMicroBatchStaysWithinTheDevicesSums) {
  const CountedRows rows = RowsUpTo(8192);
  spec::TrainSpec spec = LoraJob();
  spec.training.max_length = 8192;
  spec.training.auto_find_batch_size = true;
  EXPECT_EQ(WithMicroBatch(spec, HalfBillion(), Mps(), {.train = &rows}, 0)
                .training.per_device_train_batch_size,
            2);
}

TEST(Needs, CheckpointsHoldValuesAndMomentsAndAreKept) {
  spec::TrainSpec spec = LoraJob();
  const DiskNeed need = DiskOf(spec, HalfBillion(), {7});
  const int64_t trained = spec::TrainableParameterCount(spec, HalfBillion());
  EXPECT_EQ(need.checkpoint_bytes, 12 * trained);
  EXPECT_EQ(need.checkpoints_kept, 7);
  EXPECT_EQ(need.result_bytes, 4 * trained);
  EXPECT_EQ(need.total_bytes(), 88 * trained);
  spec.training.save_total_limit = 2;
  EXPECT_EQ(DiskOf(spec, HalfBillion(), {7}).checkpoints_kept, 3);
  EXPECT_EQ(DiskOf(spec, HalfBillion(), {1}).checkpoints_kept, 1);
  spec.training.load_best_model_at_end = true;
  EXPECT_EQ(DiskOf(spec, HalfBillion(), {7}).checkpoints_kept, 4);
  spec.fine_tune_type = spec::FineTuneType::kFull;
  const int64_t all = spec::ParameterCount(HalfBillion());
  EXPECT_EQ(DiskOf(spec, HalfBillion(), {1}).result_bytes, 2 * all);
  spec.training.bf16 = false;
  EXPECT_EQ(DiskOf(spec, HalfBillion(), {1}).result_bytes, 4 * all);
}

class AlternativesTest : public testing::Test {
 protected:
  std::vector<Alternative> Find(int64_t limit) const {
    const JobRows rows{.train = &rows_};
    const data::BatchShapes shapes(spec_, model_, traits_, "mps");
    const Epoch epoch = CountEpoch(
        rows_, shapes.TrainOptions(spec_.training.per_device_train_batch_size));
    const StepTimes times({spec_, model_, traits_, epoch, 1024, 1.0}, &rates_,
                          {});
    return FindAlternatives({spec_, model_, traits_, rows, times, 2}, limit);
  }
  int64_t Bytes() const {
    return MemoryOf(spec_, model_, traits_, {.train = &rows_})
        .parts.total_bytes;
  }
  // The job with the alternative's fields, through the parser.
  spec::TrainSpec Patched(const Alternative& a) const {
    nlohmann::json job = nlohmann::json::parse(spec::ToJson(spec_));
    job.merge_patch(a.patch);
    job["model"] = "m";
    job["dataset"]["train"] = {"t"};
    return spec::ParseTrainSpec(job.dump(), "job.json").value();
  }

  spec::TrainSpec spec_ = LoraJob();
  const spec::ModelConfig model_ = HalfBillion();
  const backend::Traits& traits_ = backend::TraitsOf(backend::Choice::kMps);
  const CountedRows rows_ = RowsUpTo(1024);
  const Rates rates_ = RatesOf(*FindChip("Apple M2 Max", 38));
};

TEST_F(AlternativesTest, EachFitsAndIsAJobThatTheParserTakes) {
  for (const double share : {0.9, 0.6, 0.4, 0.3}) {
    const int64_t limit = static_cast<int64_t>(share * Bytes());
    const auto found = Find(limit);
    ASSERT_FALSE(found.empty()) << share;
    EXPECT_LE(found.size(), kMostAlternatives);
    std::set<std::string> patches;
    for (const Alternative& a : found) {
      EXPECT_LE(a.memory_bytes, limit);
      EXPECT_TRUE(patches.insert(a.patch.dump()).second) << a.patch;
      EXPECT_FALSE(a.changes.empty());
      EXPECT_GT(a.train_seconds.value_or(0), 0);
      const spec::TrainSpec patched = Patched(a);
      EXPECT_EQ(MemoryOf(patched, model_, traits_, {.train = &rows_})
                    .parts.total_bytes,
                a.memory_bytes)
          << a.patch;
    }
  }
}

TEST_F(AlternativesTest, TheFirstChangesLeastAndKeepsTheBatch) {
  const Alternative first = Find(Bytes() - 1).front();
  const spec::TrainingSpec t = Patched(first).training;
  EXPECT_EQ(t.per_device_train_batch_size * t.gradient_accumulation_steps, 8);
  EXPECT_EQ(t.max_length, 1024);
  EXPECT_EQ(first.note, "");
  EXPECT_TRUE(Find(1000).empty());
}

TEST_F(AlternativesTest, AShorterLengthSaysWhatItCuts) {
  const auto found = Find(static_cast<int64_t>(0.6 * Bytes()));
  std::vector<std::string> notes;
  for (const Alternative& a : found) notes.push_back(a.note);
  EXPECT_THAT(notes, Contains(HasSubstr("% of the rows are cut to")));
}

TEST_F(AlternativesTest, FourBitsWhereTheBaseIsWhatDoesNotFit) {
  spec_.training.set_recompute(spec::Recompute::kFull);
  spec_.training.per_device_train_batch_size = 1;
  spec_.training.max_length = 64;
  const auto found = Find(static_cast<int64_t>(0.75 * Bytes()));
  ASSERT_FALSE(found.empty());
  EXPECT_THAT(found.front().changes, Contains(HasSubstr("4 bits")));
  EXPECT_TRUE(Patched(found.front()).quantization_config.load_in_4bit);
}

// Autograd has no selective recomputation, a whole model no quantised base.
TEST_F(AlternativesTest, OnlyWhatTheTaskHas) {
  spec_.fine_tune_type = spec::FineTuneType::kFull;
  spec_.gradients = spec::Gradients::kAutograd;
  for (const Alternative& a : Find(Bytes() / 2)) {
    EXPECT_FALSE(a.patch.contains("quantization_config")) << a.patch;
    EXPECT_NE(a.patch["training"].value("recompute_granularity", ""),
              "selective");
  }
}

std::string ErrorOf(const std::string& json) {
  const auto facts = ParseFacts(json);
  EXPECT_TRUE(absl::IsInvalidArgument(facts.status())) << json;
  return std::string(facts.status().message());
}

TEST(Facts, AreAllAbsentOrAllGiven) {
  const auto none = ParseFacts("{}").value();
  EXPECT_EQ(none.chip, "");
  EXPECT_EQ(none.memory_limit_bytes, 0);
  EXPECT_FALSE(none.rates || none.pace || none.probe);
  EXPECT_EQ(none.thresholds.Get("plan.memory"), 0.9);
  const auto facts = *ParseFacts(R"({
    "read_roots": ["/data"], "closed_roots": ["/s"], "device": "mps", "chip": "Apple M2 Max",
    "gpu_cores": 38, "cpu_cores": 12, "memory_bytes": 68719476736,
    "memory_limit_bytes": "51539607552", "disk_free_bytes": 7,
    "thresholds": {"plan.memory": 0.5}, "later": [1],
    "rates": {"fp32_operations": 1e12, "half_operations": 2e12,
              "bytes": 3e11, "call_seconds": 1e-5, "source": "here"},
    "pace": {"runs": 3, "step_seconds": 0.5, "tokens_per_second": 100},
    "probe": {"step_seconds": {"median": 2.5, "p10": 2}, "peak_bytes": "12",
              "out_of_memory": true}})");
  EXPECT_THAT(facts.read_roots, ElementsAre("/data"));
  EXPECT_THAT(facts.closed_roots, ElementsAre("/s"));
  EXPECT_EQ(facts.gpu_cores, 38);
  // Protocol Buffers write 64-bit integers as texts.
  EXPECT_EQ(facts.memory_limit_bytes, int64_t{48} << 30);
  EXPECT_EQ(facts.thresholds.Get("plan.memory"), 0.5);
  EXPECT_EQ(facts.rates->half_operations, 2e12);
  EXPECT_EQ(facts.rates->source, "here");
  EXPECT_EQ(facts.pace->runs, 3);
  EXPECT_EQ(facts.probe->peak_bytes, 12);
  EXPECT_EQ(facts.probe->step_seconds, 2.5);
  EXPECT_TRUE(facts.probe->out_of_memory);
}

TEST(Facts, AFaultNamesItsMember) {
  EXPECT_THAT(ErrorOf("["), HasSubstr("expected a JSON object"));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("expected a JSON object"));
  EXPECT_THAT(ErrorOf(std::string(100'000, '[')), HasSubstr("JSON object"));
  EXPECT_THAT(ErrorOf(R"({"chip": 3})"), HasSubstr("facts.chip: expected"));
  EXPECT_THAT(ErrorOf(R"({"gpu_cores": -1})"), HasSubstr("facts.gpu_cores"));
  EXPECT_THAT(ErrorOf(R"({"gpu_cores": "many"})"),
              HasSubstr("facts.gpu_cores: expected a number"));
  EXPECT_THAT(ErrorOf(R"({"read_roots": [1]})"), HasSubstr("read_roots"));
  EXPECT_THAT(ErrorOf(R"({"pace": {"step_seconds": "nan"}})"),
              HasSubstr("facts.pace.step_seconds"));
  EXPECT_THAT(ErrorOf(R"({"probe": 1})"), HasSubstr("facts.probe"));
  EXPECT_THAT(ErrorOf(R"({"probe": {"step_seconds": 2}})"),
              HasSubstr("facts.probe.step_seconds: expected an object"));
  EXPECT_THAT(ErrorOf(R"({"probe": {"out_of_memory": 1}})"),
              HasSubstr("out_of_memory"));
  EXPECT_THAT(ErrorOf(R"({"rates": []})"), HasSubstr("facts.rates"));
  EXPECT_THAT(ErrorOf(R"({"thresholds": [1]})"), HasSubstr("thresholds"));
  EXPECT_THAT(ErrorOf(R"({"thresholds": {"plan.nothing": 1}})"),
              HasSubstr("plan.nothing"));
}

// Figures that Apple or others published: 2.6 TFLOP/s of an M1, 10.4 of an M1
// Max, 13.6 of an M2 Max.
TEST(Chips, TheRatesAreThosePublishedAndMeasured) {
  EXPECT_NEAR(FindChip("Apple M1", 8)->fp32_tera, 2.6, 0.1);
  EXPECT_NEAR(FindChip("Apple M1 Max", 32)->fp32_tera, 10.4, 0.3);
  EXPECT_NEAR(FindChip("Apple M2 Max", 38)->fp32_tera, 13.6, 0.1);
  // The GEMM of arXiv 2502.05317: 1.36, 2.24, 2.47 and 2.9 TFLOP/s.
  const auto attained = [](const char* name, int64_t cores) {
    return RatesOf(*FindChip(name, cores)).fp32_operations / 1e12;
  };
  EXPECT_NEAR(attained("Apple M1", 8), 1.36, 0.05);
  EXPECT_NEAR(attained("Apple M2", 10), 2.24, 0.05);
  EXPECT_NEAR(attained("Apple M3", 10), 2.47, 0.05);
  EXPECT_NEAR(attained("Apple M4", 10), 2.9, 0.05);
  EXPECT_NEAR(attained("Apple M3 Max", 40), 10.3, 0.1);
}

TEST(Chips, ANameMeansItsOwnTierAndCores) {
  EXPECT_EQ(FindChip("Apple M2", 10)->gpu_cores, 10);
  EXPECT_STREQ(FindChip("Apple M2 Max", 38)->name, "Apple M2 Max");
  // An unknown count, or one that no such chip has: the fewest.
  EXPECT_EQ(FindChip("Apple M2 Max", 0)->gpu_cores, 30);
  EXPECT_EQ(FindChip("Apple M2 Max", 99)->gpu_cores, 30);
  EXPECT_STREQ(FindChip("NVIDIA H100 80GB HBM3", 0)->name, "NVIDIA H100");
  EXPECT_EQ(FindChip("Apple M9", 10), nullptr);
  EXPECT_EQ(FindChip("Apple M22", 10), nullptr);
  EXPECT_EQ(FindChip("", 0), nullptr);
  // NVIDIA sells slower cards by the same name, and cards can be cut up.
  EXPECT_STREQ(FindChip("NVIDIA H200", 0)->name, "NVIDIA H200");
  EXPECT_STREQ(FindChip("NVIDIA H100 64GB HBM2e", 0)->name, "NVIDIA H100");
  for (const char* name :
       {"NVIDIA H100 PCIe", "NVIDIA H100 NVL", "NVIDIA H200 NVL",
        "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "NVIDIA H2000", "NVIDIA GH200"}) {
    EXPECT_EQ(FindChip(name, 0), nullptr) << name;
  }
  EXPECT_THAT(RatesOf(*FindChip("Apple M4 Pro", 20)).source,
              testing::StartsWith("Apple M4 Pro (20 GPU cores); "));
}

}  // namespace
}  // namespace mpsd::plan
