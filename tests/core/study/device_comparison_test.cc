// SPDX-License-Identifier: Apache-2.0
#include "core/study/device_comparison.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/data/prefetch.h"
#include "tests/core/study/slow_source.h"
#include "tests/core/study/study_job.h"

namespace mpsd::study {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing_support::RecordingObserver;
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

TEST_F(DeviceComparisonTest, MeasuresBothOnTheSameSamples) {
  const auto result =
      Look({{"devices", {"cpu", "cpu"}}, {"steps", 4}, {"warmup_steps", 1}});
  ASSERT_TRUE(result.ok()) << result.status();
  const json& comparison = (*result)["device_comparison"];
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
  EXPECT_NE(comparison["decision"], "DEVICE_DECISION_UNSPECIFIED");
  EXPECT_EQ(job_.Finding("compare.gpu_utilization")["verdict"],
            "VERDICT_UNSPECIFIED");
  EXPECT_EQ(observer_.steps.back().total_steps, 10);
}

// Both sides compute without dropout, which each device would draw otherwise,
// and from the same values: two runs of one device are equal.
TEST_F(DeviceComparisonTest, BothComputeTheSame) {
  const auto result =
      Look({{"devices", {"cpu", "cpu"}}, {"steps", 4}, {"warmup_steps", 1}});
  ASSERT_TRUE(result.ok()) << result.status();
  const json& comparison = (*result)["device_comparison"];
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
  const auto result = Look({{"devices", {"cpu", "cpu"}},
                            {"steps", 2},
                            {"warmup_steps", 0},
                            {"thresholds", {{"compare.speedup", 1}}}});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ((*result)["verdict"], "VERDICT_FAIL");
  EXPECT_EQ((*result)["device_comparison"]["decision"],
            "DEVICE_DECISION_STAY_ON_CPU");
  EXPECT_EQ(job_.Finding("compare.speedup")["threshold"], 1.0);
}

TEST_F(DeviceComparisonTest, WithoutAnAcceleratorItIsRefusedAtItsStart) {
  const auto result = Look(json::object());
  EXPECT_EQ(result.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("neither MPS nor CUDA"));
  EXPECT_THAT(observer_.devices, testing::IsEmpty());
  EXPECT_EQ(Look({{"devices", {"cpu", "mps"}}}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(observer_.steps, testing::IsEmpty()) << "the CPU ran for nothing";
}

TEST_F(DeviceComparisonTest, OptionsAreHeldToTheirBounds) {
  for (const json& bad :
       {json({{"devices", {"cpu"}}}), json({{"devices", {"cpu", "auto"}}}),
        json({{"devices", "cpu"}}), json({{"devices", {"cpu", "cpu", "cpu"}}}),
        json({{"steps", -1}}), json({{"steps", 1001}}),
        json({{"warmup_steps", 1001}}), json({{"steps", 1.5}})}) {
    EXPECT_EQ(Look(bad).status().code(), absl::StatusCode::kInvalidArgument)
        << bad;
  }
}

TEST_F(DeviceComparisonTest, AStopEndsIt) {
  observer_.stop_after = 2;
  const auto run = job_.Study(
      JobKind::kDeviceComparison,
      {{"devices", {"cpu", "cpu"}}, {"steps", 4}, {"warmup_steps", 0}},
      observer_);
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->stopped, train::StopRequest::kPreempt);
  EXPECT_FALSE(std::filesystem::exists(job_.context().out_dir / "result.json"));
}

// A device that computes a step in `compute` behind a loader that needs `load`.
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
  side.loader = *TimeLoader(source, options, 4, [] { return true; });
  return side;
}

// A planted slow loader hides a device that is four times as fast; the control
// has the same devices and a fast loader.
TEST(PlantedLoader, ASlowOneIsToBeFixedAFastOneGoes) {
  const auto slow = absl::Milliseconds(24), fast = absl::ZeroDuration();
  const auto cpu = absl::Milliseconds(20), mps = absl::Milliseconds(5);
  // A busy machine may stand still within a step of either device: it does so
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
  cpu.loader.samples = {"a", "b"};
  mps.loader.samples = {"a", "c"};
  const Found found = TellDevices(cpu, mps, 0, {});
  EXPECT_EQ(found.result["decision"], "DEVICE_DECISION_UNSPECIFIED");
  EXPECT_EQ(found.result["same_batches"], false);
  EXPECT_EQ(runbook::Worst(found.findings), runbook::Verdict::kFail);
}

TEST(FiguresOf, TakesWhatIsToldAlone) {
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
  EXPECT_FALSE(FiguresOf({}).utilization_ratio);
}

}  // namespace
}  // namespace mpsd::study
