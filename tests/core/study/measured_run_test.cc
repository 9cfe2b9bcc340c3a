// SPDX-License-Identifier: Apache-2.0
#include "core/study/measured_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <new>

#include "absl/time/clock.h"
#include "core/host/platform.h"
#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing_support::RecordingObserver;
using train::StopRequest;

class MeasuredRunTest : public testing::Test {
 protected:
  absl::StatusOr<Measurement> Measure(const MeasureOptions& options) {
    if (!run_) run_.emplace(job_.Spec(), job_.context(), progress_);
    return run_->Measure(options);
  }

  StudyJob job_{"measured_run"};
  RecordingObserver observer_;
  StudyProgress progress_{observer_, 10};
  std::optional<MeasuredRun> run_;
};

TEST_F(MeasuredRunTest, WarmUpIsToldApart) {
  job_.training()["eval_steps"] = 1;
  job_.training()["load_best_model_at_end"] = true;
  job_.training()["save_steps"] = 1;
  auto found = Measure({.warmup_steps = 3, .steps = 4});
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->steps.size(), 7u);
  EXPECT_TRUE(found->steps[2].warmup);
  EXPECT_FALSE(found->steps[3].warmup);
  EXPECT_EQ(found->Counted().size(), 4u);
  EXPECT_EQ(found->device, "cpu");
  EXPECT_EQ(found->step_rows, 2);
  EXPECT_EQ(found->micro_batch_rows, 2);
  EXPECT_EQ(found->steps_per_epoch, 5);
  EXPECT_GT(found->load_seconds, 0);
  EXPECT_GT(found->Seconds().median, 0);
  EXPECT_LE(found->Seconds().p10, found->Seconds().p90);
  EXPECT_GT(found->TokensPerSecond(), 0);
  EXPECT_GT(found->RowsPerSecond(), 0);
  ASSERT_TRUE(found->PaddingShare());
  EXPECT_LT(*found->PaddingShare(), 1);
  EXPECT_STREQ(found->TakenBytes().from, "footprint");
  EXPECT_GT(found->training.footprint_bytes, found->idle_footprint_bytes);
  // Neither evaluated nor saved.
  EXPECT_TRUE(observer_.evals.empty());
  EXPECT_TRUE(observer_.checkpoints.empty());
  EXPECT_THAT(observer_.devices, Contains("cpu"));
  EXPECT_THAT(observer_.stages, Contains("training"));
  EXPECT_TRUE(std::filesystem::is_empty(job_.context().out_dir));
}

TEST_F(MeasuredRunTest, TheStudyCountsStepsOfAllItsRuns) {
  ASSERT_TRUE(Measure({.warmup_steps = 1, .steps = 2}).ok());
  auto second = Measure({.warmup_steps = 1, .steps = 2});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(second->load_seconds, 0) << "the model is still there";
  ASSERT_EQ(observer_.steps.size(), 6u);
  EXPECT_EQ(observer_.steps[5].step, 6);
  EXPECT_EQ(observer_.steps[5].total_steps, 10);
  EXPECT_EQ(second->steps[0].progress.step, 1) << "the run's own";
  progress_.set_total_steps(3);
  ASSERT_TRUE(Measure({.warmup_steps = 0, .steps = 1}).ok());
  EXPECT_EQ(observer_.steps[6].total_steps, 7) << "never less than are done";
}

TEST_F(MeasuredRunTest, TheLongestRowsAreInEveryStep) {
  auto found = Measure({.steps = 5, .rows = Rows::kLongest});
  ASSERT_TRUE(found.ok()) << found.status();
  const int64_t tokens = found->steps[0].progress.tokens;
  for (const MeasuredStep& step : found->steps) {
    EXPECT_EQ(step.progress.tokens, tokens);
    EXPECT_FALSE(step.partial);
  }
  auto usual = Measure({.steps = 5});
  ASSERT_TRUE(usual.ok());
  for (const MeasuredStep& step : usual->steps) {
    EXPECT_LE(step.progress.tokens, tokens);
  }
}

TEST_F(MeasuredRunTest, PackedRowsAreAsTrained) {
  job_.training()["packing"] = true;
  job_.training()["per_device_train_batch_size"] = 1;
  auto found = Measure({.steps = 2, .rows = Rows::kLongest});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->Counted().size(), 2u);
}

TEST_F(MeasuredRunTest, ABatchOfItsOwn) {
  job_.training()["gradient_accumulation_steps"] = 3;
  auto found = Measure({.steps = 4, .batch_rows = 4});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->step_rows, 4);
  EXPECT_EQ(found->micro_batch_rows, 4);
  // Ten rows: every third step has two, and is not counted.
  EXPECT_TRUE(found->steps[2].partial);
  for (const MeasuredStep* step : found->Counted()) {
    EXPECT_FALSE(step->partial);
  }
  auto own = Measure({.steps = 1});
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->step_rows, 6);
}

TEST_F(MeasuredRunTest, EpochsAreWhole) {
  int64_t told = 0, seen = 0;
  MeasureOptions options;
  options.epochs = 3;
  options.after_step = [&](const MeasuredStep&) { return ++seen > 0; };
  options.prepared = [&](const train::Prepared& run) {
    told = run.loader->steps_per_epoch();
    return absl::OkStatus();
  };
  auto found = Measure(options);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(told, 5);
  ASSERT_EQ(found->steps.size(), 15u);
  EXPECT_EQ(seen, 15) << "the last step, too";
  EXPECT_EQ(found->steps.back().progress.epoch, 3);
  EXPECT_FALSE(found->steps.front().warmup);
}

TEST_F(MeasuredRunTest, TheCallerMayHaveEnough) {
  MeasureOptions options;
  options.after_step = [](const MeasuredStep& step) {
    return step.progress.step < 4;
  };
  auto found = Measure(options);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->steps.size(), 4u);
}

TEST_F(MeasuredRunTest, RunningOutOfMemoryIsAResult) {
  MeasureOptions options;
  options.after_step = [](const MeasuredStep& step) {
    if (step.progress.step == 3) throw std::bad_alloc();
    return true;
  };
  auto found = Measure(options);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_TRUE(found->out_of_memory);
  EXPECT_THAT(found->out_of_memory_text, HasSubstr("out of memory"));
  EXPECT_EQ(found->steps.size(), 3u);
  // The study goes on, with the same model.
  auto next = Measure({});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_FALSE(next->out_of_memory);
  EXPECT_EQ(next->load_seconds, 0);
}

TEST_F(MeasuredRunTest, OtherExceptionsAndErrorsEndIt) {
  MeasureOptions options;
  options.prepared = [](const train::Prepared&) -> absl::Status {
    throw std::runtime_error("INTERNAL ASSERT FAILED");
  };
  EXPECT_THROW(Measure(options).IgnoreError(), std::runtime_error);
  options.prepared = [](const train::Prepared&) {
    return absl::InvalidArgumentError("a row says: out of memory");
  };
  EXPECT_EQ(Measure(options).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// The pause lies before the second counted step.
TEST_F(MeasuredRunTest, StepsThatAPauseHeldAreMadeUpFor) {
  struct Holding : RecordingObserver {
    StopRequest stop_request() override {
      if (steps.size() == 3 && !std::exchange(paused, true)) {
        absl::SleepFor(absl::Milliseconds(200));
      }
      return StopRequest::kNone;
    }
    bool paused = false;
  };
  Holding holding;
  StudyProgress progress(holding, 10);
  MeasuredRun run(job_.Spec(), job_.context(), progress);
  auto found = run.Measure({.warmup_steps = 2, .steps = 3});
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->steps.size(), 6u);
  EXPECT_TRUE(found->steps[3].held);
  EXPECT_EQ(found->Counted().size(), 3u);
}

TEST_F(MeasuredRunTest, AStopEndsItWithoutACheckpoint) {
  for (const StopRequest kind : {StopRequest::kPreempt, StopRequest::kCancel}) {
    RecordingObserver observer;
    observer.stop_after = 3;
    observer.stop_kind = kind;
    StudyProgress progress(observer, 10);
    MeasuredRun run(job_.Spec(), job_.context(), progress);
    EXPECT_EQ(run.Measure({}).status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(observer.steps.size(), 3u);
    EXPECT_TRUE(observer.checkpoints.empty());
    EXPECT_TRUE(std::filesystem::is_empty(job_.context().out_dir));
  }
}

TEST_F(MeasuredRunTest, ErrorsOfUsersAreTheirs) {
  job_.job()["model"] = "/nowhere";
  EXPECT_EQ(Measure({}).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(MeasuredRunTest, LoadAloneTrainsNothing) {
  run_.emplace(job_.Spec(), job_.context(), progress_);
  auto loaded = run_->Load();
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ((*loaded)->data.train->size(), 10);
  EXPECT_EQ((*loaded)->data.eval, nullptr);
  EXPECT_TRUE(observer_.steps.empty());
  EXPECT_TRUE(Measure({}).ok());
}

TEST_F(MeasuredRunTest, DropoutCanBeLeftOut) {
  const auto losses = [&](bool dropout) {
    MeasuredRun run(job_.Spec(), job_.context(), progress_,
                    {.dropout = dropout});
    const auto found = run.Measure({.warmup_steps = 0, .steps = 3});
    std::vector<double> losses;
    for (const MeasuredStep& step : found->steps) {
      losses.push_back(step.progress.loss);
    }
    return losses;
  };
  EXPECT_NE(losses(true), losses(false));
  job_.job()["lora"]["lora_dropout"] = 0;
  EXPECT_EQ(losses(true), losses(false));
}

// A bound of the study's own is no field that the user would have set in vain.
TEST_F(MeasuredRunTest, EvaluatesWhatThereIs) {
  const auto evaluate = [&](int64_t samples) {
    MeasuredRun run(job_.Spec(), job_.context(), progress_,
                    {.eval_samples = samples});
    EXPECT_TRUE(run.Measure({.warmup_steps = 0, .steps = 2}).ok());
    return run.Evaluate();
  };
  const auto all = evaluate(100), some = evaluate(1);
  ASSERT_TRUE(all.ok() && *all) << all.status();
  EXPECT_EQ((*all)->metric, "loss");
  ASSERT_TRUE(some.ok() && *some) << some.status();
  EXPECT_NE((*some)->value, (*all)->value);
  EXPECT_FALSE(*evaluate(0));
  EXPECT_TRUE(observer_.evals.empty());
  job_.job()["dataset"].erase("eval");
  job_.training().erase("eval_steps");
  const auto none = evaluate(100);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(*none);
}

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

TEST(MemoryLimit, TheDriverKnowsMost) {
  MemoryPeaks peaks;
  peaks.footprint_bytes = 3;
  EXPECT_EQ(HeldBytes(peaks), 3);
  EXPECT_STREQ(HeldBy(peaks), "footprint");
  peaks.allocated_bytes = 1;
  EXPECT_EQ(HeldBytes(peaks), 1);
  EXPECT_STREQ(HeldBy(peaks), "allocated");
  peaks.driver_bytes = 2;
  EXPECT_EQ(HeldBytes(peaks), 2);
  EXPECT_STREQ(HeldBy(peaks), "driver");
}

TEST(MemoryLimit, IsAShareOfWhatIsRecommended) {
  MemoryPeaks peaks;
  EXPECT_EQ(MemoryLimit(peaks, 0.5), host::PhysicalMemoryBytes() / 2);
  peaks.recommended_max_bytes = 1000;
  EXPECT_EQ(MemoryLimit(peaks, 0.9), 900);
}

}  // namespace
}  // namespace mpsd::study
