// SPDX-License-Identifier: Apache-2.0
#include "core/study/device_comparison.h"

#include <cmath>

#include "core/base/clock.h"
#include "tests/core/status_matchers.h"
#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using wire::JobKind;

class DeviceComparisonTest : public testing::Test {
 protected:
  absl::StatusOr<json> Look(const json& options) {
    const auto run = job_.Study(JobKind::kDeviceComparison, options, observer_);
    if (!run.ok()) return run.status();
    return job_.Result();
  }

  StudyJob job_{"device_comparison"};
  RecordingObserver observer_;
};

TEST_F(DeviceComparisonTest,
       MeasuresBothOnTheSameSamplesAndBothComputeTheSame) {
  const auto result =
      *Look({{"devices", {"cpu", "cpu"}}, {"steps", 4}, {"warmup_steps", 1}});
  const json& comparison = result["device_comparison"];
  EXPECT_EQ(comparison["same_batches"], true);
  EXPECT_EQ(comparison["warmup_steps"], 1);
  EXPECT_EQ(comparison["steps"], 4);
  for (const char* side : {"baseline", "measured"}) {
    const json& times = comparison[side];
    EXPECT_EQ(times["device"], "cpu");
    EXPECT_GT(times["step_seconds"]["median"], 0);
    EXPECT_GT(times["loader_seconds"]["median"], 0);
    EXPECT_GT(times["tokens_per_second"], 0);
    EXPECT_GE(times["data_wait_ratio"], 0);
    EXPECT_LT(times["data_wait_ratio"], 1);
    EXPECT_EQ(times["gradients"], "explicit");
    // The CPU has no such counter, and nothing is made up for it.
    EXPECT_FALSE(times.contains("utilization_ratio"));
  }
  // The CPU is not its own accelerator: what is gained is noise, and as much
  // as the two medians say.
  const double own = comparison["baseline"]["step_seconds"]["median"];
  const double other = comparison["measured"]["step_seconds"]["median"];
  EXPECT_NEAR(comparison["speedup_ratio"].get<double>(), 1 - other / own, 1e-9);
  EXPECT_EQ(job_.Finding("compare.gpu_utilization")["verdict"],
            "VERDICT_UNSPECIFIED");
  EXPECT_EQ(observer_.steps.back().total_steps, 10);
  // Both sides compute without dropout, which each device would draw otherwise,
  // and from the same values: two runs of one device are equal.
  ASSERT_GE(comparison["losses"].size(), 5u);
  for (const json& step : comparison["losses"]) {
    EXPECT_GT(step["loss"], 0);
    EXPECT_GT(step["grad_norm"], 0);
    EXPECT_EQ(step["baseline_loss"], step["loss"]);
    EXPECT_EQ(step["difference_ratio"], 0.0);
  }
  EXPECT_NE(comparison["losses"][0]["loss"], comparison["losses"][1]["loss"]);
  EXPECT_EQ(comparison["dtype"], "fp32");
  EXPECT_EQ(comparison["metric"], "loss");
  EXPECT_GT(comparison["metric_value"], 0);
  EXPECT_EQ(comparison["metric_value"], comparison["baseline_metric_value"]);
  for (const char* name :
       {"compare.loss", "compare.gradient", "compare.metric"}) {
    EXPECT_EQ(job_.Finding(name)["verdict"], "VERDICT_PASS") << name;
  }
}

// The thresholds of the request decide.
TEST_F(DeviceComparisonTest, AGainOfNothingIsEnoughWhereNothingIsAskedFor) {
  const auto result = *Look({{"devices", {"cpu", "cpu"}},
                             {"steps", 8},
                             {"warmup_steps", 1},
                             {"thresholds", {{"compare.speedup", 1}}}});
  // Stay, or nothing if this machine is busy.
  EXPECT_NE(result["device_comparison"]["decision"], "DEVICE_DECISION_GO");
  EXPECT_EQ(job_.Finding("compare.speedup")["threshold"], 1.0);
}

TEST_F(DeviceComparisonTest, WithoutAnAcceleratorItIsRefusedAtItsStart) {
  EXPECT_THAT(Look(json::object()), Fails(absl::StatusCode::kFailedPrecondition,
                                          "neither MPS nor CUDA"));
  EXPECT_THAT(observer_.devices, testing::IsEmpty());
  EXPECT_TRUE(
      absl::IsFailedPrecondition(Look({{"devices", {"cpu", "mps"}}}).status()));
  EXPECT_THAT(observer_.steps, testing::IsEmpty()) << "the CPU ran for nothing";
}

TEST_F(DeviceComparisonTest, OptionsAreHeldToTheirBounds) {
  for (const json& bad :
       {json({{"devices", {"cpu"}}}), json({{"devices", {"cpu", "auto"}}}),
        json({{"devices", "cpu"}}), json({{"devices", {"cpu", "cpu", "cpu"}}}),
        json({{"steps", -1}}), json({{"steps", 1001}}),
        json({{"warmup_steps", 1001}}), json({{"steps", 1.5}})}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Look(bad).status())) << bad;
  }
}

TEST_F(DeviceComparisonTest, AStopEndsIt) {
  observer_.stop_after = 2;
  const auto run = *job_.Study(
      JobKind::kDeviceComparison,
      {{"devices", {"cpu", "cpu"}}, {"steps", 4}, {"warmup_steps", 0}},
      observer_);
  EXPECT_EQ(run.stopped, train::StopRequest::kPreempt);
  EXPECT_FALSE(fs::exists(job_.context().out_dir / "result.json"));
}

// A device that computes a step in `compute` after a loader that needs `load`.
DeviceSide Pretend(const std::string& device, absl::Duration compute,
                   absl::Duration load) {
  const SlowSource source(8, load);
  data::LoaderOptions options;
  options.batch_size = 2;
  const auto now = [] { return base::Clock::Real().Monotonic(); };
  DeviceSide side;
  side.steps.device = device;
  data::Prefetcher loader(source, options);
  for (int i = 0; i < 8; ++i) {
    const absl::Duration start = now();
    EXPECT_TRUE(loader.NextStep().ok());
    MeasuredStep step;
    step.progress.data_wait_seconds = absl::ToDoubleSeconds(now() - start);
    absl::SleepFor(compute);
    step.progress.seconds = absl::ToDoubleSeconds(now() - start);
    step.warmup = i < 2;
    side.steps.steps.push_back(step);
  }
  side.loader_seconds = *TimeLoader(source, options, 4, [] { return true; });
  return side;
}

// A planted slow loader hides a device that is four times as fast; the control
// has the same devices and a fast loader.
TEST(PlantedLoader, ASlowOneIsToBeFixedAFastOneGoes) {
  const auto slow = absl::Milliseconds(24), fast = absl::ZeroDuration();
  const auto cpu = absl::Milliseconds(20), mps = absl::Milliseconds(5);
  // A busy machine may stop within a step of either device: it does so
  // by chance, and what is planted shows each other time.
  const auto compare = [&](absl::Duration load, const auto& shows) {
    for (int attempt = 1;; ++attempt) {
      Found found = TellDevices(Pretend("cpu", cpu, load),
                                Pretend("mps", mps, load), 2, {});
      if (attempt == 10 || shows(found.result)) return found;
    }
  };
  Found found = compare(slow, [](const json& result) {
    return result["decision"] == "DEVICE_DECISION_FIX_DATA" &&
           result["measured"]["data_wait_ratio"] > 0.5 &&
           result["compute_speedup_ratio"] > 0.22;
  });
  const json& slowed = found.result;
  EXPECT_EQ(slowed["decision"], "DEVICE_DECISION_FIX_DATA") << slowed;
  EXPECT_EQ(runbook::Worst(found.findings), runbook::Verdict::kWarn);
  EXPECT_GT(slowed["measured"]["data_wait_ratio"], 0.5);
  EXPECT_GT(slowed["measured"]["loader_seconds"]["median"], 0.02);
  EXPECT_GT(slowed["compute_speedup_ratio"], 0.22);
  EXPECT_EQ(slowed["same_batches"], true);
  found = compare(fast, [](const json& result) {
    return result["decision"] == "DEVICE_DECISION_GO";
  });
  EXPECT_EQ(found.result["decision"], "DEVICE_DECISION_GO") << found.result;
  EXPECT_EQ(runbook::Worst(found.findings), runbook::Verdict::kPass);
}

TEST(TellDevices, OtherSamplesDecideNothing) {
  DeviceSide cpu, mps;
  cpu.data = "a";
  mps.data = "b";
  const Found found = TellDevices(cpu, mps, 0, {});
  EXPECT_EQ(found.result["decision"], "DEVICE_DECISION_UNSPECIFIED");
  EXPECT_EQ(found.result["same_batches"], false);
  EXPECT_EQ(runbook::Worst(found.findings), runbook::Verdict::kFail);
}

TEST(FiguresOf, TakesOnlyWhatIsReported) {
  DeviceSide side;
  for (const std::optional<double> busy : {0.2, 0.4}) {
    MeasuredStep step;
    step.progress.seconds = 2;
    step.progress.data_wait_seconds = 0.5;
    step.progress.device_utilization_ratio = busy;
    side.steps.steps.push_back(step);
  }
  MeasuredStep silent;
  silent.progress.seconds = 1;
  side.steps.steps.push_back(silent);
  const DeviceFigures figures = FiguresOf(side);
  EXPECT_NEAR(*figures.utilization_ratio, 0.3, 1e-12);
  EXPECT_NEAR(figures.data_wait_ratio, 0.2, 1e-12);
  EXPECT_EQ(figures.step_seconds, 2);
  // Of 1, 2 and 2: p10 and p90 are 1.2 and 2.
  EXPECT_NEAR(figures.step_error, 1.25 * 0.8 / 2.56 / std::sqrt(3), 1e-12);
  EXPECT_FALSE(FiguresOf({}).utilization_ratio);
}

using runbook::Thresholds;
using runbook::Verdict;

struct Row {
  const char* name;
  double baseline, measured;  // seconds of a step
  double baseline_wait, wait;
  std::optional<double> utilization;
  DeviceDecision decision;
  Verdict verdict;
};

DeviceVerdict Decide(const Row& row, const Thresholds& thresholds = {}) {
  return DecideDevice({"cpu", row.baseline, 0, row.baseline_wait},
                      {"mps", row.measured, 0, row.wait, 0.01, row.utilization},
                      thresholds);
}

constexpr auto kGo = DeviceDecision::kGo;
constexpr auto kFix = DeviceDecision::kFixData;
constexpr auto kStay = DeviceDecision::kStay;

TEST(DeviceVerdict, Decides) {
  const Row rows[] = {

      // A step that is shorter by the threshold goes, with any other figures.
      {"twice_as_fast", 1, 0.5, 0, 0, 0.9, kGo, Verdict::kPass},
      {"just_fast_enough", 1, 0.779, 0, 0, 0.9, kGo, Verdict::kPass},
      {"fast_though_idle", 1, 0.5, 0, 0.4, 0.1, kGo, Verdict::kPass},
      {"fast_and_unknown", 1, 0.5, 0, 0.9, {}, kGo, Verdict::kPass},
      // The rule of the runbook: too small a gain on an idle device.
      {"idle", 1, 0.79, 0, 0, 0.17, kFix, Verdict::kWarn},
      {"idle_and_slower", 1, 2, 0, 0, 0.05, kFix, Verdict::kWarn},
      {"idle_for_waiting", 1, 0.9, 0.1, 0.8, 0.1, kFix, Verdict::kWarn},
      // A device that works, and gains too little.
      {"busy", 1, 0.79, 0, 0, 0.18, kStay, Verdict::kFail},
      {"busy_and_slower", 1, 3, 0, 0.5, 1.0, kStay, Verdict::kFail},
      // Unknown: would it be fast enough without the waits?
      {"slow_loader", 1, 0.9, 0, 0.5, {}, kFix, Verdict::kWarn},
      {"loader_holds_both", 1, 1, 0.1, 0.8, {}, kFix, Verdict::kWarn},
      {"slow_loader_slow_device", 1, 2, 0, 0.3, {}, kStay, Verdict::kFail},
      {"equal_waits", 1, 1, 0.5, 0.5, {}, kStay, Verdict::kFail},
      {"no_waits", 1, 0.95, 0, 0, {}, kStay, Verdict::kFail},
      // Steps that took no time that the clock could measure.
      {"no_time", 0, 0, 0, 0, {}, kStay, Verdict::kFail}};
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const DeviceVerdict verdict = Decide(row);
    EXPECT_EQ(verdict.decision, row.decision) << verdict.reason;
    EXPECT_EQ(runbook::Worst(verdict.findings), row.verdict);
    EXPECT_FALSE(verdict.reason.empty());
    for (const runbook::Finding& finding : verdict.findings) {
      EXPECT_FALSE(finding.found.empty()) << finding.name;
    }
  }
}

// Three steps of a noisy machine decide nothing near the threshold.
TEST(DeviceVerdict, NoiseIsNoDecision) {
  for (const double measured : {0.7, 0.85}) {  // 0.22 is asked for
    const DeviceVerdict noisy =
        DecideDevice({"cpu", 1, 0.05}, {"mps", measured, 0.05}, {});
    EXPECT_EQ(noisy.decision, DeviceDecision::kUnknown) << noisy.reason;
    EXPECT_EQ(noisy.findings[0].verdict, Verdict::kUnknown);
    EXPECT_THAT(noisy.findings[0].advice, HasSubstr("--steps"));
  }
  EXPECT_EQ(DecideDevice({"cpu", 1, 0.05}, {"mps", 0.3, 0.05}, {}).decision,
            kGo);
  EXPECT_EQ(DecideDevice({"cpu", 1, 0.05}, {"mps", 1.2, 0.05}, {}).decision,
            kStay);
}

TEST(DeviceVerdict, SaysHowMuch) {
  const DeviceVerdict verdict =
      Decide({"", 1, 0.9, 0, 0.5, {}, kFix, Verdict::kWarn});
  EXPECT_NEAR(verdict.speedup, 0.1, 1e-12);
  EXPECT_NEAR(verdict.compute_speedup, 0.55, 1e-12);
  EXPECT_EQ(verdict.findings[0].name, "compare.speedup");
  EXPECT_NEAR(*verdict.findings[0].value, 0.1, 1e-12);
  EXPECT_NEAR(*verdict.findings[0].threshold, 0.22, 1e-12);
  EXPECT_THAT(verdict.reason, HasSubstr("10.0 % shorter than on cpu"));
  EXPECT_THAT(verdict.reason, HasSubstr("55.0 % shorter"));
}

TEST(DeviceVerdict, AdviceFollowsWhatIdles) {
  // An idle device: is it the loader, or too small a batch?
  DeviceVerdict verdict =
      DecideDevice({"cpu", 1}, {"mps", 0.9, 0, 0.5, 0.8, 0.1}, {});
  EXPECT_THAT(verdict.findings[0].advice, HasSubstr("batches faster"));
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kWarn);
  verdict = DecideDevice({"cpu", 1}, {"mps", 0.9, 0, 0, 0.01, 0.1}, {});
  EXPECT_THAT(verdict.findings[0].advice, HasSubstr("check batch JOB"));
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kPass);
  // Two devices that wait for one loader gain nothing from each other: the
  // loader is named nonetheless.
  verdict = DecideDevice({"cpu", 1, 0, 0.9}, {"cpu", 1, 0, 0.9, 1}, {});
  EXPECT_EQ(verdict.decision, kStay);
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kWarn);
  EXPECT_THAT(verdict.reason, HasSubstr("; without the waits for batches it "
                                        "is 0.0 % shorter than on cpu"));
  verdict = DecideDevice({"cpu", 1, 0, 0.05}, {"cpu", 1, 0, 0.05, 0.01}, {});
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kPass);
  EXPECT_THAT(verdict.reason, HasSubstr("the data are not the bottleneck"));
}

TEST(DeviceVerdict, AnUnknownUtilisationIsNotMadeUp) {
  const DeviceVerdict verdict =
      DecideDevice({"cpu", 1}, {"cuda", 0.5, 0, 0, 0.01}, {});
  EXPECT_EQ(verdict.findings[1].verdict, Verdict::kUnknown);
  EXPECT_FALSE(verdict.findings[1].value.has_value());
  EXPECT_THAT(verdict.findings[1].found, HasSubstr("does not report"));
  EXPECT_STREQ(NameOf(kGo), "DEVICE_DECISION_GO");
  EXPECT_STREQ(NameOf(kFix), "DEVICE_DECISION_FIX_DATA");
  EXPECT_STREQ(NameOf(kStay), "DEVICE_DECISION_STAY_ON_CPU");
}

DeviceNumbers AnyNumbers() {
  return {"fp32", {2.5, 2, 1.5}, {1, 0.9, 0.8}, "accuracy", 0.75};
}

runbook::Finding Find(const NumbersVerdict& verdict, const std::string& name) {
  for (const runbook::Finding& finding : verdict.findings) {
    if (finding.name == name) return finding;
  }
  ADD_FAILURE() << name;
  return {};
}

// Against those of a device that computes `other`.
Verdict VerdictOn(const DeviceNumbers& other, const std::string& name,
                  const Thresholds& thresholds = {}) {
  return Find(CompareNumbers(AnyNumbers(), other, thresholds), name).verdict;
}

TEST(CompareNumbers, ALossBeyondTheToleranceFails) {
  DeviceNumbers other = AnyNumbers();
  other.losses[1] = 2.0009;  // 4.5e-4 of it
  EXPECT_EQ(VerdictOn(other, "compare.loss"), Verdict::kPass);
  other.losses[1] = 2.0011;  // 5.5e-4
  const auto loss =
      Find(CompareNumbers(AnyNumbers(), other, {}), "compare.loss");
  EXPECT_EQ(loss.verdict, Verdict::kFail);
  EXPECT_THAT(loss.found, HasSubstr("step 2"));
  EXPECT_THAT(loss.advice, HasSubstr("mpsd-worker --selftest"));
  EXPECT_NEAR(*loss.value, 5.5e-4, 1e-6);
  EXPECT_EQ(*loss.threshold, 5e-4);
  EXPECT_EQ(VerdictOn(other, "compare.loss",
                      *Thresholds::FromMap({{"compare.loss_fp32", 1e-3}})),
            Verdict::kPass);
}

TEST(CompareNumbers, AWrongGradientAndNaNsFail) {
  DeviceNumbers other = AnyNumbers();
  other.grad_norms[0] = 1.0001;
  EXPECT_EQ(VerdictOn(other, "compare.gradient"), Verdict::kPass);
  other.grad_norms[0] = 1.0003;
  EXPECT_EQ(VerdictOn(other, "compare.gradient"), Verdict::kFail);
  const double nan = std::nan("");
  EXPECT_EQ(RelativeDifference(nan, nan), 1);
  other.losses[2] = nan;
  EXPECT_EQ(VerdictOn(other, "compare.loss"), Verdict::kFail);
}

TEST(CompareNumbers, TheTolerancesOfBf16CountWhereOneSideHasIt) {
  DeviceNumbers other = AnyNumbers();
  other.dtype = "bf16";
  other.losses[1] = 2.5;
  for (const auto& verdict : {CompareNumbers(AnyNumbers(), other, {}),
                              CompareNumbers(other, AnyNumbers(), {})}) {
    EXPECT_EQ(verdict.dtype, "bf16");
    EXPECT_EQ(Find(verdict, "compare.loss").verdict, Verdict::kPass);
  }
}

TEST(CompareNumbers, TheMetricIsComparedAfterTheSameSteps) {
  DeviceNumbers other = AnyNumbers();
  other.metric_value = 0.74;
  NumbersVerdict verdict = CompareNumbers(AnyNumbers(), other, {});
  EXPECT_EQ(Find(verdict, "compare.metric").verdict, Verdict::kFail);
  EXPECT_THAT(Find(verdict, "compare.metric").found, HasSubstr("accuracy"));
  other.losses.push_back(1);
  other.grad_norms.push_back(1);
  verdict = CompareNumbers(AnyNumbers(), other, {});
  EXPECT_EQ(verdict.steps.size(), 3u);
  EXPECT_FALSE(verdict.metric_compared);
  EXPECT_EQ(Find(verdict, "compare.metric").verdict, Verdict::kUnknown);
  DeviceNumbers none = AnyNumbers();
  none.metric = "";
  verdict = CompareNumbers(none, none, {});
  EXPECT_THAT(Find(verdict, "compare.metric").found, HasSubstr("dataset.eval"));
  EXPECT_EQ(CompareNumbers({}, {}, {}).findings[0].verdict, Verdict::kUnknown);
}

}  // namespace
}  // namespace mpsd::study
