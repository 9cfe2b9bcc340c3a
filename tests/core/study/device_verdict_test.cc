// SPDX-License-Identifier: Apache-2.0
#include "core/study/device_verdict.h"

#include <cmath>
#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::study {
namespace {

using runbook::Thresholds;
using runbook::Verdict;
using testing::HasSubstr;

struct Row {
  const char* name;
  double baseline, measured;  // seconds of a step
  double baseline_wait, wait;
  std::optional<double> utilization;
  DeviceDecision decision;
  Verdict verdict;
  friend void PrintTo(const Row& row, std::ostream* out) { *out << row.name; }
};

DeviceVerdict Decide(const Row& row, const Thresholds& thresholds = {}) {
  return DecideDevice({"cpu", row.baseline, row.baseline_wait},
                      {"mps", row.measured, row.wait, 0.01, row.utilization},
                      thresholds);
}

class DeviceVerdictTable : public testing::TestWithParam<Row> {};

TEST_P(DeviceVerdictTable, Decides) {
  const DeviceVerdict verdict = Decide(GetParam());
  EXPECT_EQ(verdict.decision, GetParam().decision) << verdict.reason;
  EXPECT_EQ(runbook::Worst(verdict.findings), GetParam().verdict);
  EXPECT_FALSE(verdict.reason.empty());
  for (const runbook::Finding& finding : verdict.findings) {
    EXPECT_FALSE(finding.found.empty()) << finding.name;
  }
}

constexpr auto kGo = DeviceDecision::kGo;
constexpr auto kFix = DeviceDecision::kFixData;
constexpr auto kStay = DeviceDecision::kStay;

INSTANTIATE_TEST_SUITE_P(
    Cases, DeviceVerdictTable,
    testing::Values(
        // A step that is shorter by the threshold goes, whatever else is told.
        Row{"twice_as_fast", 1, 0.5, 0, 0, 0.9, kGo, Verdict::kPass},
        Row{"just_fast_enough", 1, 0.779, 0, 0, 0.9, kGo, Verdict::kPass},
        Row{"fast_though_idle", 1, 0.5, 0, 0.4, 0.1, kGo, Verdict::kPass},
        Row{"fast_and_not_told", 1, 0.5, 0, 0.9, {}, kGo, Verdict::kPass},
        // The rule of the runbook: too small a gain on an idle device.
        Row{"idle", 1, 0.79, 0, 0, 0.17, kFix, Verdict::kWarn},
        Row{"idle_and_slower", 1, 2, 0, 0, 0.05, kFix, Verdict::kWarn},
        Row{"idle_for_waiting", 1, 0.9, 0.1, 0.8, 0.1, kFix, Verdict::kWarn},
        // A device that works, and gains too little.
        Row{"busy", 1, 0.79, 0, 0, 0.18, kStay, Verdict::kFail},
        Row{"busy_and_slower", 1, 3, 0, 0.5, 1.0, kStay, Verdict::kFail},
        // Not told: would it be fast enough without the waits?
        Row{"slow_loader", 1, 0.9, 0, 0.5, {}, kFix, Verdict::kWarn},
        Row{"loader_holds_both", 1, 1, 0.1, 0.8, {}, kFix, Verdict::kWarn},
        Row{"slow_loader_slow_device", 1, 2, 0, 0.3, {}, kStay, Verdict::kFail},
        Row{"equal_waits", 1, 1, 0.5, 0.5, {}, kStay, Verdict::kFail},
        Row{"no_waits", 1, 0.95, 0, 0, {}, kStay, Verdict::kFail},
        // Steps that took no time the clock could tell.
        Row{"no_time", 0, 0, 0, 0, {}, kStay, Verdict::kFail}),
    [](const auto& info) { return info.param.name; });

TEST(DeviceVerdict, TakesTheThresholdsOfTheRequest) {
  const Row row{"", 1, 0.79, 0, 0, 0.3, kStay, Verdict::kFail};
  EXPECT_EQ(Decide(row).decision, kStay);
  EXPECT_EQ(
      Decide(row, *Thresholds::FromMap({{"compare.speedup", 0.2}})).decision,
      kGo);
  EXPECT_EQ(
      Decide(row, *Thresholds::FromMap({{"compare.gpu_utilization", 0.5}}))
          .decision,
      kFix);
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
      DecideDevice({"cpu", 1, 0}, {"mps", 0.9, 0.5, 0.8, 0.1}, {});
  EXPECT_THAT(verdict.findings[0].advice, HasSubstr("batches faster"));
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kWarn);
  verdict = DecideDevice({"cpu", 1, 0}, {"mps", 0.9, 0, 0.01, 0.1}, {});
  EXPECT_THAT(verdict.findings[0].advice, HasSubstr("sweep JOB --batch"));
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kPass);
}

// Two devices that wait for one loader gain nothing from each other: the loader
// is named nonetheless.
TEST(DeviceVerdict, ASlowLoaderIsNamedWhereTheDeviceGainsNothing) {
  DeviceVerdict verdict = DecideDevice({"cpu", 1, 0.9}, {"cpu", 1, 0.9, 1}, {});
  EXPECT_EQ(verdict.decision, kStay);
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kWarn);
  EXPECT_THAT(verdict.reason, HasSubstr("; without the waits for batches it "
                                        "is 0.0 % shorter than on cpu"));
  verdict = DecideDevice({"cpu", 1, 0.05}, {"cpu", 1, 0.05, 0.01}, {});
  EXPECT_EQ(verdict.findings[2].verdict, Verdict::kPass);
  EXPECT_THAT(verdict.reason, HasSubstr("the data are not what holds it up"));
}

TEST(DeviceVerdict, AUtilisationThatIsNotToldIsNotMadeUp) {
  const DeviceVerdict verdict =
      DecideDevice({"cpu", 1, 0}, {"cuda", 0.5, 0, 0.01}, {});
  EXPECT_EQ(verdict.findings[1].verdict, Verdict::kNotTold);
  EXPECT_FALSE(verdict.findings[1].value.has_value());
  EXPECT_THAT(verdict.findings[1].found, HasSubstr("does not tell"));
}

TEST(DeviceVerdict, NamesAreThoseOfTheMessage) {
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

TEST(CompareNumbers, EqualOnesPass) {
  const NumbersVerdict verdict = CompareNumbers(AnyNumbers(), AnyNumbers(), {});
  EXPECT_EQ(runbook::Worst(verdict.findings), Verdict::kPass);
  ASSERT_EQ(verdict.steps.size(), 3u);
  EXPECT_EQ(verdict.steps[2].loss, 1.5);
  EXPECT_EQ(verdict.steps[2].difference, 0);
  EXPECT_TRUE(verdict.metric_compared);
  EXPECT_EQ(verdict.dtype, "fp32");
}

TEST(CompareNumbers, ALossBeyondTheToleranceFails) {
  DeviceNumbers other = AnyNumbers();
  other.losses[1] = 2.0009;  // 4.5e-4 of it
  EXPECT_EQ(
      Find(CompareNumbers(AnyNumbers(), other, {}), "compare.loss").verdict,
      Verdict::kPass);
  other.losses[1] = 2.0011;  // 5.5e-4
  const auto loss =
      Find(CompareNumbers(AnyNumbers(), other, {}), "compare.loss");
  EXPECT_EQ(loss.verdict, Verdict::kFail);
  EXPECT_THAT(loss.found, HasSubstr("step 2"));
  EXPECT_THAT(loss.advice, HasSubstr("mpsd-worker --selftest"));
  EXPECT_NEAR(*loss.value, 5.5e-4, 1e-6);
  EXPECT_EQ(*loss.threshold, 5e-4);
  EXPECT_EQ(
      Find(CompareNumbers(AnyNumbers(), other,
                          *Thresholds::FromMap({{"compare.loss_fp32", 1e-3}})),
           "compare.loss")
          .verdict,
      Verdict::kPass);
}

TEST(CompareNumbers, AWrongGradientFails) {
  DeviceNumbers other = AnyNumbers();
  other.grad_norms[0] = 1.0001;
  EXPECT_EQ(
      Find(CompareNumbers(AnyNumbers(), other, {}), "compare.gradient").verdict,
      Verdict::kPass);
  other.grad_norms[0] = 1.0003;
  EXPECT_EQ(
      Find(CompareNumbers(AnyNumbers(), other, {}), "compare.gradient").verdict,
      Verdict::kFail);
}

TEST(CompareNumbers, NumbersThatAreNoneFail) {
  const double nan = std::nan("");
  EXPECT_EQ(RelativeDifference(nan, nan), 1);
  DeviceNumbers other = AnyNumbers();
  other.losses[2] = nan;
  EXPECT_EQ(
      Find(CompareNumbers(AnyNumbers(), other, {}), "compare.loss").verdict,
      Verdict::kFail);
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
  EXPECT_EQ(Find(verdict, "compare.metric").verdict, Verdict::kNotTold);
  DeviceNumbers none = AnyNumbers();
  none.metric = "";
  verdict = CompareNumbers(none, none, {});
  EXPECT_THAT(Find(verdict, "compare.metric").found, HasSubstr("dataset.eval"));
  EXPECT_EQ(CompareNumbers({}, {}, {}).findings[0].verdict, Verdict::kNotTold);
}

}  // namespace
}  // namespace mpsd::study
