// SPDX-License-Identifier: Apache-2.0
#include "core/train/micro_batch.h"

#include <limits>

#include "core/data/token_dataset.h"
#include "core/host/machine.h"
#include "core/train/data_reader.h"
#include "core/train/task_pipeline.h"
#include "tests/core/idle_device.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/train/train_jobs.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd::train {
namespace {

using enum spec::Recompute;

// How much less memory a row takes.
int64_t ShareOf(spec::Recompute recompute) {
  return recompute == kNone ? 1 : recompute == kSelective ? 2 : 4;
}

// A device on which rows cost memory and a micro-batch time of its own.
struct FakeDevice {
  double seconds_a_call = 1, seconds_a_row = 0.1;
  int64_t bytes_a_row = 100, resident = 50;
  int64_t memory = 1'000'000;  // what needs more cannot be tried
  std::vector<MicroBatch> measured = {};

  absl::StatusOr<MicroBatchPlan> Find(const MicroBatchSearch& search) {
    return FindMicroBatch(search, [&](const MicroBatch& choice) {
      measured.push_back(choice);
      const double slower = choice.recompute == kNone        ? 1
                            : choice.recompute == kSelective ? 1.1
                                                             : 1.3;
      const int64_t bytes = bytes_a_row / ShareOf(choice.recompute);
      MicroBatchTrial trial{choice};
      trial.step_seconds = slower *
                           (seconds_a_call + seconds_a_row * choice.rows) *
                           search.batch / choice.rows;
      trial.peak_bytes = resident + bytes * choice.rows;
      trial.out_of_memory = trial.peak_bytes > memory;
      if (trial.out_of_memory) trial.step_seconds = 0;
      return absl::StatusOr<MicroBatchTrial>(trial);
    });
  }
};

MicroBatchSearch Search(int64_t limit) {
  return {
      .batch = 16, .max_rows = 16, .limit_bytes = limit, .resident_bytes = 50};
}

TEST(CandidateRowsTest, AreDivisorsUpToTheMost) {
  EXPECT_THAT(CandidateRows(12, 100), ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(CandidateRows(12, 5), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(CandidateRows(7, 0), ElementsAre(1));
  const auto many = CandidateRows(720, 720);
  EXPECT_LE(many.size(), 8u);
  EXPECT_EQ(many.back(), 720);
}

// Not even a row fits without checkpointing, and selectively one: the limit
// knew nothing of what else holds memory.
TEST(FindMicroBatchTest, ATrialThatRunsOutOfMemoryIsAMeasurement) {
  FakeDevice device{.memory = 50 + 60};
  MicroBatchSearch search = Search(1'000'000);
  search.knows_selective = true;
  const auto plan = *device.Find(search);
  EXPECT_EQ(plan.chosen, (MicroBatch{2, kFull}));
  EXPECT_THAT(device.measured,
              ElementsAre(MicroBatch{1, kNone}, MicroBatch{1, kSelective},
                          MicroBatch{2, kSelective}, MicroBatch{1, kFull},
                          MicroBatch{2, kFull}, MicroBatch{4, kFull}));
  EXPECT_TRUE(plan.trials.front().out_of_memory);
  EXPECT_TRUE(plan.trials.back().out_of_memory);
}

TEST(FindMicroBatchTest, TheEstimateIsAskedBeforeTheFirstTrialOfAKind) {
  FakeDevice device;
  MicroBatchSearch search = Search(1'000);
  search.knows_selective = true;
  search.estimate = [](const MicroBatch& choice) {
    return choice.recompute == kFull ? 900 : 1'001;
  };
  const auto plan = *device.Find(search);
  EXPECT_EQ(plan.chosen, (MicroBatch{16, kFull}));
  EXPECT_EQ(device.measured.front(), (MicroBatch{1, kFull}));
  ASSERT_FALSE(plan.trials[0].tried);
  EXPECT_EQ(plan.trials[0].peak_bytes, 1'001);
  EXPECT_EQ(plan.trials[1].choice, (MicroBatch{1, kSelective}));
}

// It may be wrong; the least is tried in any case.
TEST(FindMicroBatchTest, AnEstimateAloneEndsNoJob) {
  FakeDevice device;
  MicroBatchSearch search = Search(1'000);
  search.estimate = [](const MicroBatch&) { return int64_t{1} << 60; };
  const auto plan = *device.Find(search);
  EXPECT_THAT(device.measured, ElementsAre(MicroBatch{1, kFull}));
  EXPECT_EQ(plan.chosen, (MicroBatch{1, kFull}));
}

TEST(FindMicroBatchTest, TakesTheFastestAndCheckpointsWhereMoreRowsAreWorthIt) {
  FakeDevice device;
  const auto plan = *device.Find(Search(1'000'000));
  EXPECT_EQ(plan.chosen, (MicroBatch{16, kNone}));
  EXPECT_EQ(plan.from, "trial");
  EXPECT_EQ(device.measured.size(), 5u);
  // A call costs as much as ten rows.
  EXPECT_EQ(device.Find(Search(50 + 450))->chosen, (MicroBatch{16, kFull}));
}

TEST(FindMicroBatchTest, NeverTriesWhatWouldNotFit) {
  FakeDevice device;
  device.seconds_a_call = 0.1;  // checkpointing gains nothing
  const auto plan = *device.Find(Search(50 + 450));
  EXPECT_EQ(plan.chosen, (MicroBatch{4, kNone}));
  for (const MicroBatch& choice : device.measured) {
    EXPECT_TRUE(choice.recompute != kNone || choice.rows <= 4);
  }
  ASSERT_FALSE(plan.trials[3].tried);
  EXPECT_EQ(plan.trials[3].choice.rows, 8);
  EXPECT_EQ(plan.trials[3].peak_bytes, 50 + 800);
}

TEST(FindMicroBatchTest, KeepsAsMuchAsFits) {
  FakeDevice device;
  MicroBatchSearch search = Search(50 + 900);
  search.knows_selective = true;
  EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{16, kSelective}));
  for (const MicroBatch& choice : device.measured) {
    EXPECT_NE(choice.recompute, kFull);
  }
  search.limit_bytes = 50 + 450;  // 8 rows selectively, 16 fully
  EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{16, kFull}));
  device.seconds_a_call = 0.2;  // more rows gain less than keeping more
  EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{8, kSelective}));
}

TEST(FindMicroBatchTest, CheckpointingThatTheJobWantsIsKeptTo) {
  for (const spec::Recompute demanded : {kFull, kSelective}) {
    FakeDevice device;
    MicroBatchSearch search = Search(1'000'000);
    search.demanded = demanded;
    search.knows_selective = true;
    EXPECT_EQ(device.Find(search)->chosen, (MicroBatch{16, demanded}));
    for (const MicroBatch& choice : device.measured) {
      EXPECT_EQ(choice.recompute, demanded);
    }
  }
}

TEST(FindMicroBatchTest, OfEqualsTheSmallest) {
  FakeDevice device;
  device.seconds_a_call = 0;
  EXPECT_EQ(device.Find(Search(1'000'000))->chosen, (MicroBatch{1, kNone}));
  EXPECT_EQ(device.measured.size(), 3u);  // two without a gain are enough
}

TEST(FindMicroBatchTest, WhereNothingFitsTheLeastIsTaken) {
  FakeDevice device;
  EXPECT_EQ(device.Find(Search(60))->chosen, (MicroBatch{1, kFull}));
  device.memory = 10;
  EXPECT_EQ(device.Find(Search(1'000'000))->chosen, (MicroBatch{1, kFull}));
}

MicroBatchPlan Plan() {
  return {{4, kFull},
          "trial",
          {{{2, kNone}, 1.5, 300, true},
           {{4, kFull}, 1.25, 200, true},
           {{2, kSelective}, 1.5, 250, false}}};
}

TEST(MicroBatchPlanTest, TheChoiceComesBackFromJson) {
  const auto folder = FreshFolder("plan_json");
  EXPECT_FALSE(ReadChoiceOfRun(folder, 8).has_value());
  const auto read = [&](const std::string& plan, int64_t batch) {
    EXPECT_TRUE(base::WriteFileAtomic(folder / "run.json",
                                      "{\"micro_batch\": " + plan + "}")
                    .ok());
    return ReadChoiceOfRun(folder, batch);
  };
  const json plan = json::parse(ToJson(Plan(), 8));
  EXPECT_EQ(read(plan.dump(), 8), (MicroBatch{4, kFull}));
  ASSERT_EQ(plan["trials"].size(), 3u);
  EXPECT_EQ(plan["trials"][1]["step_seconds"], 1.25);
  EXPECT_EQ(plan["trials"][1]["peak_bytes"], 200);
  EXPECT_EQ(plan["trials"][2]["recompute_granularity"], "selective");
  EXPECT_FALSE(read(ToJson(Plan(), 8), 6).has_value());
  for (const char* text :
       {"", "[]", "{}", R"({"rows": 0})",
        R"({"rows": "4", "gradient_checkpointing": true})"}) {
    EXPECT_FALSE(read(text, 8).has_value()) << text;
  }
}

data::TokenDataset Samples() {
  std::vector<data::TokenSample> samples;
  for (int32_t length : {5, 9, 7, 3}) {
    data::TokenSample sample;
    for (int32_t i = 0; i < length; ++i) {
      sample.input_ids.push_back((7 * i + length) % 96);
      sample.in_loss.push_back(1);
    }
    samples.push_back(std::move(sample));
  }
  return data::TokenDataset(data::TokenArrays(samples), {.max_length = 16}, {},
                            "");
}

class MicroBatchTrialTest : public LmParts {
 protected:
  MicroBatchTrialTest()
      : optimizer_(adapter_->parameters(), spec_.training),
        stepper_(subject(), optimizer_, 1) {}

  const data::TokenDataset dataset_ = Samples();
  optim::AdamW optimizer_;
  Stepper stepper_;
};

TEST_F(MicroBatchTrialTest, MeasuresTimeAndMemory) {
  MicroBatchTrials trials(subject(), stepper_, dataset_, {.max_length = 16},
                          [](const MicroBatch& choice) {
                            return (int64_t{1} << 50) * choice.rows;
                          });
  const auto trial = trials.Measure({2}, 8).value();
  EXPECT_GT(trial.step_seconds, 0);
  EXPECT_EQ(trial.peak_bytes, int64_t{1} << 51);  // the CPU counts no peak
  EXPECT_GT(trials.resident_bytes(), 0);
  EXPECT_GT(trials.limit_bytes(), 0);
  EXPECT_LT(trials.limit_bytes(), host::PhysicalMemoryBytes());
  // More rows than the data has.
  EXPECT_TRUE(trials.Measure({8, spec::Recompute::kFull}, 8).ok());
}

TEST_F(MicroBatchTrialTest, RunningOutOfMemoryIsAResult) {
  int runs = 0;
  const auto out_of_memory = [&runs](const std::function<void()>& work) {
    work();  // as far as it comes
    ++runs;
    return absl::ResourceExhaustedError("MPS backend out of memory");
  };
  MicroBatchTrials trials(
      subject(), stepper_, dataset_, {.max_length = 16},
      [](const MicroBatch&) { return int64_t{7}; }, out_of_memory);
  const auto trial = trials.Measure({2}, 8).value();
  EXPECT_EQ(runs, 1);
  EXPECT_TRUE(trial.tried);
  EXPECT_TRUE(trial.out_of_memory);
  EXPECT_GE(trial.peak_bytes, 7);
  EXPECT_EQ(trial.step_seconds, 0);
  EXPECT_EQ(
      adapter_->parameters().groups()[0].gradients.abs().max().item<float>(),
      0);
}

TEST_F(MicroBatchTrialTest, OtherErrorsAreErrors) {
  MicroBatchTrials trials(
      subject(), stepper_, dataset_, {.max_length = 16},
      [](const MicroBatch&) { return int64_t{0}; },
      [](const std::function<void()>&) { return absl::DataLossError("x"); });
  EXPECT_TRUE(absl::IsDataLoss(trials.Measure({1}, 8).status()));
}

TEST_F(MicroBatchTrialTest, LeavesEverythingAsItWas) {
  const auto snapshot = [this] {
    std::vector<at::Tensor> all;
    for (const auto& group : adapter_->parameters().groups()) {
      all.push_back(group.values.detach().clone());
      all.push_back(group.gradients.clone());
    }
    for (const auto& weight : network_->NamedWeights()) {
      all.push_back(weight.tensor->clone());
    }
    all.push_back(device::CpuRngState());
    return all;
  };
  adapter_->parameters().ZeroGradients();
  const auto before = snapshot();
  {
    MicroBatchTrials trials(subject(), stepper_, dataset_, {.max_length = 16},
                            [](const MicroBatch&) { return int64_t{0}; });
    ASSERT_TRUE(trials.Measure({2, spec::Recompute::kFull}, 8).ok());
    at::randn({7});  // as dropout would
  }
  const auto after = snapshot();
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_TRUE(at::equal(before[i], after[i])) << i;
  }
  EXPECT_EQ(network_->options().recompute, spec::Recompute::kNone);
}

class StepTest : public LmParts {
 protected:
  StepTest()
      : optimizer_(adapter_->parameters(), spec::TrainingSpec{}),
        stepper_(std::make_unique<Stepper>(subject(), optimizer_, 1.0)) {}
  at::Tensor Gradient(const std::vector<data::Batch>& batches) {
    loss_ = stepper_->AccumulateGradients(batches).item<double>();
    return adapter_->parameters().groups()[0].gradients.clone();
  }
  optim::AdamW optimizer_;
  std::unique_ptr<Stepper> stepper_;
  double loss_ = 0;
};

TEST_F(StepTest, SplittingABatchUnevenlyChangesNothing) {
  const at::Tensor whole = Gradient({MakeBatch({9, 3, 5}, 9)});
  const double whole_loss = loss_;
  // The same rows, one micro-batch each, their tokens continued.
  std::vector<data::Batch> parts;
  const data::Batch all = MakeBatch({9, 3, 5}, 9);
  for (int64_t row = 0; row < 3; ++row) {
    data::Batch part;
    part.rows = 1;
    part.length = 9;
    auto take = [&](const std::vector<int64_t>& from) {
      return std::vector<int64_t>(from.begin() + row * 9,
                                  from.begin() + (row + 1) * 9);
    };
    part.input_ids = take(all.input_ids);
    part.labels = take(all.labels);
    part.position_ids = take(all.position_ids);
    part.segment_ids = take(all.segment_ids);
    for (int64_t label : part.labels) {
      part.label_tokens += label != base::kIgnoreIndex;
      part.loss_weight += label != base::kIgnoreIndex;
    }
    parts.push_back(part);
  }
  const at::Tensor split = Gradient(parts);
  EXPECT_NEAR(loss_, whole_loss, 1e-6);
  EXPECT_LE((split - whole).norm().item<double>(),
            1e-5 * whole.norm().item<double>());
}

TEST_F(StepTest, PaddingChangesNothing) {
  const at::Tensor tight = Gradient({MakeBatch({6}, 6)});
  data::Batch padded = MakeBatch({6}, 6);
  padded.length = 16;
  padded.input_ids.resize(16, 0);
  padded.labels.resize(16, base::kIgnoreIndex);
  padded.position_ids.resize(16, 0);
  padded.segment_ids.resize(16, -1);
  EXPECT_LE((Gradient({padded}) - tight).norm().item<double>(),
            1e-5 * tight.norm().item<double>());
}

TEST_F(StepTest, CheckpointingAndTilesChangeNothing) {
  const std::vector<data::Batch> batches = {MakeBatch({12, 7}, 12)};
  const at::Tensor plain = Gradient(batches);
  for (const model::RunOptions& options :
       {model::RunOptions{attention::AttentionKernel::kFused,
                          spec::Recompute::kFull},
        model::RunOptions{attention::AttentionKernel::kTiled},
        model::RunOptions{attention::AttentionKernel::kTiled,
                          spec::Recompute::kFull}}) {
    network_->set_options(options);
    EXPECT_LE((Gradient(batches) - plain).norm().item<double>(),
              1e-5 * plain.norm().item<double>());
  }
}

TEST_F(StepTest, IsAskedBetweenMicroBatchesAndChangesNothingWhenStopped) {
  const std::vector<data::Batch> batches = {
      MakeBatch({12}, 12), MakeBatch({7}, 7), MakeBatch({9}, 9)};
  const at::Tensor gradient = Gradient(batches);
  const at::Tensor before = adapter_->parameters().groups()[0].values.clone();
  const int64_t work = base::WorkCount();
  int asked = 0;
  const auto stopped =
      stepper_->Run(batches, 1e-2, [&] { return ++asked < 2; });
  EXPECT_TRUE(absl::IsCancelled(stopped.status())) << stopped.status();
  EXPECT_EQ(asked, 2);
  EXPECT_GE(base::WorkCount() - work, 2) << "no proof of life";
  EXPECT_TRUE(at::equal(adapter_->parameters().groups()[0].values, before));
  // The partial gradient is not in the next one.
  EXPECT_TRUE(at::equal(Gradient(batches), gradient));
}

TEST_F(StepTest, NumbersThatAreNotFiniteEndTheRun) {
  adapter_->parameters().groups()[0].values.fill_(
      std::numeric_limits<float>::quiet_NaN());
  EXPECT_THAT(stepper_->Run({MakeBatch({4}, 4)}, 1e-3),
              Fails(absl::StatusCode::kDataLoss, "not finite"));
}

class GradientTest : public LmParts {
 protected:
  // The sum of both batches' losses, a quarter of whose gradient is taken.
  double Run(GradientPath& path) {
    path.Begin();
    const std::vector<data::Batch> batches = {MakeBatch({9, 3}, 9),
                                              MakeBatch({5}, 8, 4)};
    double loss = 0;
    for (const BatchInputs& inputs :
         pipeline_.Inputs(batches, *device_).batches) {
      loss += path.Add(inputs, 0.25).item<double>();
    }
    path.End();
    return loss;
  }
  at::Tensor Gradients() {
    return adapter_->parameters().groups()[0].gradients.clone();
  }
};

TEST_F(GradientTest, ABatchWithoutATargetAddsNothing) {
  for (const bool explicit_path : {false, true}) {
    const auto path = explicit_path
                          ? pipeline_.MakeGradientPath(*adapter_, *device_)
                          : MakeAutogradPath(pipeline_, *adapter_);
    path->Begin();
    const data::Batch batch = MakeBatch({1}, 8);
    const StepInputs inputs = pipeline_.Inputs({&batch, 1}, *device_);
    EXPECT_FALSE(path->Add(inputs.batches[0], 1).defined());
    path->End();
    EXPECT_EQ(Gradients().abs().max().item<float>(), 0);
  }
}

TEST_F(GradientTest, SaysWhyItIsNotExplicit) {
  adapter_.reset();
  spec::LoraSpec& lora = spec_.lora;
  lora.target_modules = std::vector<std::string>{"q_proj"};
  lora.modules_to_save = {"lm_head"};
  adapter_ = *lora::Adapter::Attach(*network_, lora, at::kCPU);
  EXPECT_EQ(pipeline_.MakeGradientPath(*adapter_, *device_)->name(),
            "autograd (some of the model's own weights are trained)");
  EXPECT_THROW(
      MakeExplicitStepPath(static_cast<const model::Decoder&>(*network_),
                           *adapter_, *device_),
      c10::Error);
  spec_.gradients = spec::Gradients::kAutograd;  // as the job asks for
  EXPECT_EQ(pipeline_.MakeGradientPath(*adapter_, *device_)->name(),
            "autograd");
}

std::unique_ptr<data::Source> Some(int64_t count) {
  return std::make_unique<Batches>(
      std::vector<data::Batch>(count, MakeBatch({4}, 4)));
}

spec::TrainSpec Splitting(double share) {
  spec::TrainSpec spec;
  spec.dataset.validation_split = share;
  return spec;
}

TEST(SplitAndLimitTest, LimitsComeAfterTheSplit) {
  spec::TrainSpec spec = Splitting(0.5);
  spec.dataset.max_train_samples = 3;
  spec.dataset.max_eval_samples = 100;
  spec.dataset.max_predict_samples = 1;
  TaskData data;
  data.train = Some(10);
  data.predict = Some(4);
  ASSERT_TRUE(SplitAndLimit(spec, data).ok());
  EXPECT_EQ(data.train->size(), 3);
  EXPECT_EQ(data.eval->size(), 5);
  EXPECT_EQ(data.predict->size(), 1);
}

// Computes while it is waited for, `micro_batch` for each that was queued.
class SlowDevice final : public IdleDevice {
 public:
  explicit SlowDevice(fakes::FakeClock& clock) : clock_(clock) {}

  void Synchronize() override {
    ++waits;
    clock_.Advance(queued * micro_batch);
    queued = 0;
  }

  absl::Duration micro_batch;
  int64_t queued = 0;
  int waits = 0;

 private:
  fakes::FakeClock& clock_;
};

class QueueLimitTest : public testing::Test {
 protected:
  // A step as Stepper runs it; the most that was queued at any time.
  int64_t Step(int micro_batches) {
    int64_t most = 0;
    limit_.Begin();
    for (int i = 0; i < micro_batches; ++i) {
      if (i > 0) limit_.Queued();
      most = std::max(most, ++device_.queued);
    }
    device_.Synchronize();  // its read-back
    limit_.Done();
    return most;
  }

  fakes::FakeClock clock_;
  SlowDevice device_{clock_};
  QueueLimit limit_{device_, clock_};
};

TEST_F(QueueLimitTest,
       SlowMicroBatchesAreDoneOneByOneAndOfShortOnesManyAtOnce) {
  device_.micro_batch = absl::Seconds(12);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(Step(64), 1);
  device_.micro_batch = absl::Milliseconds(100);
  Step(64);
  device_.waits = 0;
  EXPECT_EQ(Step(64), 20);
  EXPECT_EQ(device_.waits, 3 + 1);
}

TEST_F(QueueLimitTest, AQuickStepIsNotWaitedForUntilTheDeviceIsSlower) {
  device_.micro_batch = absl::Milliseconds(10);
  Step(8);
  EXPECT_EQ(device_.waits, 1 + 1) << "how long one takes must be learnt once";
  device_.waits = 0;
  EXPECT_EQ(Step(8), 8);
  EXPECT_EQ(device_.waits, 1) << "the read-back alone";
  clock_.Advance(absl::Hours(1));  // an evaluation is no micro-batch
  EXPECT_EQ(Step(8), 8);
  device_.micro_batch = absl::Seconds(10);
  Step(8);  // what was learnt no longer holds: all of it is queued
  EXPECT_EQ(Step(8), 1);
}

}  // namespace

}  // namespace mpsd::train
