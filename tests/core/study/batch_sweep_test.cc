// SPDX-License-Identifier: Apache-2.0
#include "core/study/batch_sweep.h"

#include <fstream>
#include <new>

#include "core/host/machine.h"
#include "core/study/measured_run.h"
#include "tests/core/status_matchers.h"
#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using train::StopRequest;
using wire::JobKind;

const json kQuick = {{"steps", 1}, {"warmup_steps", 1}};

std::vector<int64_t> Batches(const json& sweep) {
  std::vector<int64_t> batches;
  for (const json& point : sweep["points"]) batches.push_back(point["batch"]);
  return batches;
}

TEST(BatchSweepTest, EndsWithTheRowsOfTheData) {
  StudyJob job("sweep_rows");  // of ten rows
  RecordingObserver observer;
  ASSERT_THAT(job.Study(JobKind::kBatchSweep, kQuick, observer), IsOk());
  const json sweep = job.Result()["batch_sweep"];
  EXPECT_THAT(Batches(sweep), testing::ElementsAre(1, 2, 4, 8, 10));
  EXPECT_EQ(sweep["largest_batch"], 10);
  EXPECT_EQ(sweep["ended_by"], "rows");
  EXPECT_EQ(sweep["job_batch"], 2);
  EXPECT_GT(sweep["knee_batch"].get<int>(), 0);
  for (const json& point : sweep["points"]) {
    EXPECT_TRUE(point["fits"].get<bool>());
    EXPECT_GT(point["tokens_per_second"].get<double>(), 0);
    EXPECT_GT(point["peak_bytes"].get<int64_t>(), 0);
    EXPECT_GT(point["step_seconds"]["median"].get<double>(), 0);
  }
  EXPECT_EQ(job.Finding("sweep.largest")["value"], 10);
  EXPECT_LE(observer.steps.back().step, observer.steps.back().total_steps);
}

TEST(BatchSweepTest, NothingFits) {
  StudyJob job("sweep_none");
  RecordingObserver observer;
  json options = kQuick;
  options["memory_limit_bytes"] = 1.0;
  ASSERT_THAT(job.Study(JobKind::kBatchSweep, options, observer), IsOk());
  EXPECT_EQ(job.Result()["batch_sweep"]["largest_batch"], 0);
  EXPECT_EQ(job.Result()["verdict"], "VERDICT_FAIL");
}

TEST(BatchSweepTest, BoundsOfTheSearch) {
  StudyJob job("sweep_bounds");
  RecordingObserver observer;
  json options = kQuick;
  options["first_batch"] = 3;
  options["max_batch"] = 4;
  ASSERT_THAT(job.Study(JobKind::kBatchSweep, options, observer), IsOk());
  const json sweep = job.Result()["batch_sweep"];
  EXPECT_THAT(Batches(sweep), testing::ElementsAre(3, 4));
  EXPECT_EQ(sweep["ended_by"], "max_batch");
  for (const json& wrong :
       {json{{"steps", 1001}}, json{{"max_batch", 65537}},
        json{{"first_batch", -1}}, json{{"memory_limit_bytes", -5}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        job.Study(JobKind::kBatchSweep, wrong, observer).status()))
        << wrong;
  }
}

// A stop in the middle keeps every point: none is measured twice.
TEST(BatchSweepTest, ResumesWhereItWasStopped) {
  StudyJob job("sweep_resumed");
  RecordingObserver first;
  first.stop_after = 12;  // within the third of five batches, 5 steps each
  auto stopped = job.Study(JobKind::kBatchSweep, kQuick, first).value();
  EXPECT_EQ(stopped.stopped, StopRequest::kPreempt);
  EXPECT_FALSE(fs::exists(job.context().out_dir / "result.json"));
  RecordingObserver second;
  ASSERT_TRUE(job.Study(JobKind::kBatchSweep, kQuick, second).ok());
  EXPECT_THAT(Batches(job.Result()["batch_sweep"]),
              testing::ElementsAre(1, 2, 4, 8, 10));
  EXPECT_EQ(second.steps.front().step, 11) << "two batches were there";
  // One more for batch 8, whose epochs of ten rows end with a partial step.
  EXPECT_EQ(second.steps.size(), 16u);
}

// Twice the worker died over batch 4, as by the system's hand.
TEST(BatchSweepTest, ABatchThatEndsTheWorkerDoesNotFit) {
  StudyJob job("sweep_killed");
  const fs::path file = job.context().out_dir / "points.jsonl";
  RecordingObserver first;
  first.stop_after = 12;
  ASSERT_TRUE(job.Study(JobKind::kBatchSweep, kQuick, first).ok());
  std::string text = *base::ReadFile(file);
  const size_t end = text.find('\n');
  json head = json::parse(text.substr(0, end));
  head["begun"] = 4;
  head["ends"] = 1;
  std::ofstream(file) << head.dump() << text.substr(end);
  RecordingObserver second;
  ASSERT_TRUE(job.Study(JobKind::kBatchSweep, kQuick, second).ok());
  const json sweep = job.Result()["batch_sweep"];
  EXPECT_EQ(sweep["largest_batch"], 3);
  EXPECT_THAT(job.Finding("sweep.largest")["found"].get<std::string>(),
              HasSubstr("without a report"));
}

// The batches that a search tries on a machine on which `holds` rows fit.
std::vector<int64_t> Tried(int64_t first, int64_t most, int64_t holds,
                           int64_t* largest) {
  std::vector<BatchTrial> trials;
  std::vector<int64_t> batches;
  while (const auto batch = NextBatch(trials, first, most)) {
    EXPECT_GE(TrialsLeft(trials, first, most), 1) << *batch;
    trials.push_back({*batch, *batch <= holds});
    batches.push_back(*batch);
    if (batches.size() > 100) break;
  }
  EXPECT_EQ(TrialsLeft(trials, first, most), 0);
  *largest = LargestBatch(trials);
  return batches;
}

TEST(BatchSearch, DoublesThenBisects) {
  int64_t largest = 0;
  EXPECT_THAT(Tried(1, 1000, 11, &largest),
              ElementsAre(1, 2, 4, 8, 16, 12, 10, 11));
  EXPECT_EQ(largest, 11);
  const std::vector<BatchTrial> trials = {{8, true}, {16, false}, {4, true}};
  EXPECT_EQ(NextBatch(trials, 1, 100), 12);
  // A machine with noise: 12 did not fit, 14 did. The reported size is safe.
  EXPECT_EQ(LargestBatch({{14, true}, {12, false}, {10, true}}), 10);
  EXPECT_EQ(LargestBatch({}), 0);
}

// Finds exactly what the machine holds.
TEST(BatchSearch, FindsTheLargestThatFits) {
  for (int64_t first : {1, 3, 8, 200}) {
    for (int64_t most : {1, 7, 64, 100}) {
      for (int64_t holds = 0; holds <= 110; ++holds) {
        int64_t largest = -1;
        const auto tried = Tried(first, most, holds, &largest);
        EXPECT_EQ(largest, std::min(holds, most))
            << first << " " << most << " " << holds;
        EXPECT_LE(tried.size(), 16u);
      }
    }
  }
}

TEST(BatchSearch, MemoryIsPredictedOnALine) {
  EXPECT_EQ(PredictedBytes({}, 100, 4), std::nullopt);
  EXPECT_EQ(PredictedBytes({{1, true, 150}}, 100, 4), 300);
  EXPECT_EQ(
      PredictedBytes({{2, true, 200}, {4, true, 260}, {1, true, 150}}, 100, 8),
      380);
  // Neither what lies above nor what is not known counts.
  EXPECT_EQ(
      PredictedBytes({{2, true, 200}, {4, true, 0}, {16, false, 900}}, 100, 8),
      500);
  EXPECT_EQ(PredictedBytes({{2, true, 300}, {4, true, 260}}, 100, 8), 260)
      << "memory never shrinks with the batch";
}

TEST(BatchSearch, TheKneeIsTheSmallestWithinTheThreshold) {
  const std::vector<BatchTrial> trials = {
      {1, true, 0, 100}, {2, true, 0, 190},  {4, true, 0, 290},
      {8, true, 0, 300}, {16, true, 0, 280}, {32, false, 0, 900}};
  EXPECT_EQ(KneeOf(trials, 0.05), 4);
  EXPECT_EQ(KneeOf(trials, 0), 8);
  EXPECT_EQ(KneeOf(trials, 0.5), 2);
  EXPECT_EQ(KneeOf({{1, false, 0, 5}}, 0.05), 0);
  EXPECT_EQ(KneeOf({}, 0.05), 0);
}

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

TEST_F(MeasuredRunTest, WarmUpIsReportedSeparately) {
  job_.training()["eval_steps"] = 1;
  job_.training()["load_best_model_at_end"] = true;
  job_.training()["save_steps"] = 1;
  auto found = Measure({.warmup_steps = 3, .steps = 4}).value();
  ASSERT_EQ(found.steps.size(), 7u);
  EXPECT_TRUE(found.steps[2].warmup);
  EXPECT_FALSE(found.steps[3].warmup);
  EXPECT_EQ(found.Counted().size(), 4u);
  EXPECT_EQ(found.device, "cpu");
  EXPECT_EQ(found.step_rows, 2);
  EXPECT_EQ(found.micro_batch_rows, 2);
  EXPECT_EQ(found.steps_per_epoch, 5);
  EXPECT_GT(found.load_seconds, 0);
  EXPECT_GT(found.Seconds().median, 0);
  EXPECT_LE(found.Seconds().p10, found.Seconds().p90);
  EXPECT_GT(found.TokensPerSecond(), 0);
  EXPECT_GT(found.RowsPerSecond(), 0);
  ASSERT_TRUE(found.PaddingShare());
  EXPECT_LT(*found.PaddingShare(), 1);
  EXPECT_STREQ(found.TakenBytes().from, "footprint");
  EXPECT_GT(found.training.footprint_bytes, found.idle_footprint_bytes);
  // Neither evaluated nor saved.
  EXPECT_TRUE(observer_.evals.empty());
  EXPECT_TRUE(observer_.checkpoints.empty());
  EXPECT_THAT(observer_.devices, Contains("cpu"));
  EXPECT_THAT(observer_.stages, Contains("training"));
  EXPECT_TRUE(fs::is_empty(job_.context().out_dir));
}

TEST_F(MeasuredRunTest, TheStudyCountsStepsOfAllItsRuns) {
  ASSERT_TRUE(Measure({.warmup_steps = 1, .steps = 2}).ok());
  auto second = Measure({.warmup_steps = 1, .steps = 2}).value();
  EXPECT_EQ(second.load_seconds, 0) << "the model is still there";
  ASSERT_EQ(observer_.steps.size(), 6u);
  EXPECT_EQ(observer_.steps[5].step, 6);
  EXPECT_EQ(observer_.steps[5].total_steps, 10);
  EXPECT_EQ(second.steps[0].progress.step, 1) << "the run's own";
  progress_.set_total_steps(3);
  ASSERT_TRUE(Measure({.warmup_steps = 0, .steps = 1}).ok());
  EXPECT_EQ(observer_.steps[6].total_steps, 7) << "never less than are done";
}

TEST_F(MeasuredRunTest, TheLongestRowsAreInEveryStep) {
  auto found = Measure({.steps = 5, .rows = Rows::kLongest}).value();
  const int64_t tokens = found.steps[0].progress.tokens;
  for (const MeasuredStep& step : found.steps) {
    EXPECT_EQ(step.progress.tokens, tokens);
    EXPECT_FALSE(step.partial);
  }
  auto usual = Measure({.steps = 5}).value();
  for (const MeasuredStep& step : usual.steps) {
    EXPECT_LE(step.progress.tokens, tokens);
  }
}

TEST_F(MeasuredRunTest, ABatchOfItsOwn) {
  job_.training()["gradient_accumulation_steps"] = 3;
  auto found = Measure({.steps = 4, .batch_rows = 4}).value();
  EXPECT_EQ(found.step_rows, 4);
  EXPECT_EQ(found.micro_batch_rows, 4);
  // Ten rows: every third step has two, and is not counted.
  EXPECT_TRUE(found.steps[2].partial);
  for (const MeasuredStep* step : found.Counted()) {
    EXPECT_FALSE(step->partial);
  }
  auto own = Measure({.steps = 1}).value();
  EXPECT_EQ(own.step_rows, 6);
}

TEST_F(MeasuredRunTest, TheCallerMayHaveEnoughAndOutOfMemoryIsAResult) {
  MeasureOptions options;
  options.after_step = [](const MeasuredStep& step) {
    return step.progress.step < 4;
  };
  EXPECT_EQ(Measure(options)->steps.size(), 4u);
  options.after_step = [](const MeasuredStep& step) {
    if (step.progress.step == 3) throw std::bad_alloc();
    return true;
  };
  auto found = Measure(options).value();
  EXPECT_TRUE(found.out_of_memory);
  EXPECT_THAT(found.out_of_memory_text, HasSubstr("out of memory"));
  EXPECT_EQ(found.steps.size(), 3u);
  // The study continues, with the same model.
  auto next = Measure({}).value();
  EXPECT_FALSE(next.out_of_memory);
  EXPECT_EQ(next.load_seconds, 0);
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
  auto found = run.Measure({.warmup_steps = 2, .steps = 3}).value();
  EXPECT_EQ(found.steps.size(), 6u);
  EXPECT_TRUE(found.steps[3].held);
  EXPECT_EQ(found.Counted().size(), 3u);
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
  const auto none = evaluate(100).value();
  EXPECT_FALSE(none);
}

TEST(MemoryLimit, IsAShareOfWhatIsRecommendedAndTheDriverKnowsMost) {
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
  EXPECT_EQ(MemoryLimit({}, 0.5), host::PhysicalMemoryBytes() / 2);
  peaks.recommended_max_bytes = 1000;
  EXPECT_EQ(MemoryLimit(peaks, 0.9), 900);
}

TEST(Spread, LiesBetweenTheValues) {
  const Spread spread = SpreadOf({5, 1, 4, 2, 3});
  EXPECT_EQ(spread.median, 3);
  EXPECT_DOUBLE_EQ(spread.p10, 1.4);
  EXPECT_DOUBLE_EQ(spread.p90, 4.6);
  EXPECT_EQ(spread.min, 1);
  EXPECT_EQ(spread.max, 5);
  EXPECT_EQ(SpreadOf({1, 2}).median, 1.5);
  EXPECT_EQ(SpreadOf({7}).p10, 7);
  EXPECT_EQ(SpreadOf({7}).p90, 7);
  EXPECT_EQ(SpreadOf({}).median, 0);
  EXPECT_EQ(ToJson(SpreadOf({7}))["p90"], 7);
}

TEST(MemoryCurve, GrowthIsTheLastAgainstTheFirstAndSlopeOfLeastSquares) {
  EXPECT_DOUBLE_EQ(GrowthOf({100, 500, 126}), 0.26);
  EXPECT_DOUBLE_EQ(GrowthOf({100, 90}), -0.1);
  EXPECT_EQ(GrowthOf({100}), 0);
  EXPECT_EQ(GrowthOf({}), 0);
  EXPECT_EQ(GrowthOf({0, 5}), 0);
  EXPECT_DOUBLE_EQ(SlopeOf({1, 3, 5, 7}), 2);
  EXPECT_DOUBLE_EQ(SlopeOf({4, 4, 4}), 0);
  // Of 0, 0, 3 around their means: (1·2 − 1·(−1)) / 2.
  EXPECT_DOUBLE_EQ(SlopeOf({0, 0, 3}), 1.5);
  EXPECT_EQ(SlopeOf({7}), 0);
  EXPECT_EQ(SlopeOf({}), 0);
}

TEST(ProbeTest, MeasuresTheJobsOwnShape) {
  StudyJob job("probe_shape");
  job.training()["gradient_accumulation_steps"] = 3;
  RecordingObserver observer;
  ASSERT_THAT(job.Study(JobKind::kProbe, {{"steps", 3}}, observer), IsOk());
  const json probe = job.Result()["probe"];
  EXPECT_EQ(probe["device"], "cpu");
  EXPECT_EQ(probe["warmup_steps"], 2);
  EXPECT_EQ(probe["steps"], 3);
  EXPECT_EQ(probe["step_rows"], 6);
  EXPECT_EQ(probe["micro_batch_rows"], 2);
  EXPECT_EQ(probe["gradients"], "explicit");
  EXPECT_GT(probe["longest_row_tokens"].get<int>(), 4);
  EXPECT_GT(probe["step_seconds"]["median"].get<double>(), 0);
  EXPECT_GT(probe["tokens_per_second"].get<double>(), 0);
  EXPECT_EQ(probe["peak_from"], "footprint");
  EXPECT_GT(probe["estimate"]["total_bytes"].get<int64_t>(), 0);
  EXPECT_GT(probe["memory_limit_bytes"].get<int64_t>(), 0);
  EXPECT_FALSE(probe.contains("out_of_memory"));
  EXPECT_EQ(job.Finding("probe.memory")["verdict"], "VERDICT_PASS");
  // Steps are reported as those of the study.
  ASSERT_EQ(observer.steps.size(), 5u);
  EXPECT_EQ(observer.steps[0].total_steps, 5);
}

TEST(ProbeTest, AJobThatDoesNotFitFails) {
  struct Full : RecordingObserver {
    void OnStep(const report::Progress& step) override {
      RecordingObserver::OnStep(step);
      if (step.step == 2) throw std::bad_alloc();
    }
  };
  StudyJob job("probe_full");
  Full observer;
  ASSERT_THAT(job.Study(JobKind::kProbe, json::object(), observer), IsOk());
  EXPECT_TRUE(job.Result()["probe"]["out_of_memory"].get<bool>());
  EXPECT_EQ(job.Result()["verdict"], "VERDICT_FAIL");
  const json finding = job.Finding("probe.memory");
  EXPECT_EQ(finding["verdict"], "VERDICT_FAIL");
  EXPECT_THAT(finding["advice"].get<std::string>(), HasSubstr("max_length"));
}

TEST(ProbeTest, AJobWithoutRoomToSpareWarnsAndOptionsHaveBounds) {
  StudyJob job("probe_tight");
  RecordingObserver observer;
  for (const json& wrong :
       {json{{"steps", 1001}}, json{{"warmup_steps", -1}}}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        job.Study(JobKind::kProbe, wrong, observer).status()));
  }
  EXPECT_TRUE(observer.steps.empty());
  ASSERT_THAT(
      job.Study(JobKind::kProbe,
                {{"steps", 1}, {"thresholds", {{"probe.memory_share", 1e-9}}}},
                observer),
      IsOk());
  EXPECT_EQ(job.Finding("probe.memory")["verdict"], "VERDICT_WARN");
}

}  // namespace
}  // namespace mpsd::study
