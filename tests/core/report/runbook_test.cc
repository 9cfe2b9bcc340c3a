// SPDX-License-Identifier: Apache-2.0
#include "core/report/runbook.h"

#include <cmath>

#include "core/base/limits.h"
#include "tests/core/status_matchers.h"

namespace mpsd::runbook {
namespace {

TEST(Finding, JsonHasWhatIsThereAloneAndTheWorstDecides) {
  EXPECT_EQ(ToJson({"disk.free", Verdict::kWarn, "3 GB", "make room", 3.0, 5.0,
                    "GB"}),
            nlohmann::json({{"name", "disk.free"},
                            {"verdict", "VERDICT_WARN"},
                            {"found", "3 GB"},
                            {"advice", "make room"},
                            {"value", 3.0},
                            {"threshold", 5.0},
                            {"unit", "GB"}}));
  EXPECT_EQ(ToJson({"power", Verdict::kUnknown, "unknown"}),
            nlohmann::json({{"name", "power"},
                            {"verdict", "VERDICT_UNSPECIFIED"},
                            {"found", "unknown"}}));
  EXPECT_EQ(Worst({}), Verdict::kUnknown);
  EXPECT_EQ(Worst({{"a", Verdict::kUnknown, ""}, {"b", Verdict::kPass, ""}}),
            Verdict::kPass);
  EXPECT_EQ(Worst({{"a", Verdict::kFail, ""}, {"b", Verdict::kWarn, ""}}),
            Verdict::kFail);
  std::vector<Finding> findings = {{"a", Verdict::kPass, ""},
                                   {"b", Verdict::kFail, ""},
                                   {"c", Verdict::kPass, ""},
                                   {"d", Verdict::kUnknown, ""},
                                   {"e", Verdict::kFail, ""}};
  SortBySeverity(findings);
  std::string order;
  for (const Finding& finding : findings) order += finding.name;
  EXPECT_EQ(order, "beacd");
}

using nlohmann::json;

TEST(Options, ZeroAndNothingMeanTheDefaultOthersAreRefusedByName) {
  EXPECT_EQ(*IntOption({{"steps", 0}}, "steps", 8, 1, 10), 8);
  EXPECT_EQ(*IntOption(json::object(), "steps", 8, 1, 10), 8);
  EXPECT_EQ(*IntOption({{"steps", 10}}, "steps", 8, 1, 10), 10);
  EXPECT_EQ(*NumberOption({{"bytes", 1.5e9}}, "bytes", 0, 1, 1e15), 1.5e9);
  for (const json& value : {json(11), json(-1), json("8"), json(2.5),
                            json::array(), json(true), json(nullptr)}) {
    ASSERT_THAT(IntOption({{"steps", value}}, "steps", 8, 1, 10),
                Fails(absl::StatusCode::kInvalidArgument, "steps"))
        << value;
  }
  EXPECT_EQ(IntOption({{"steps", 11}}, "steps", 8, 1, 10).status().message(),
            "steps: must be a whole number from 1 to 10, or 0 for mpsd's own "
            "choice, is 11");
  EXPECT_EQ(*IntIfThere(json::object(), "steps", 0, 10), std::nullopt);
  EXPECT_EQ(*IntIfThere({{"steps", 0}}, "steps", 0, 10), 0);
  EXPECT_EQ(IntIfThere({{"steps", 0}}, "steps", 1, 10).status().message(),
            "steps: must be a whole number from 1 to 10, is 0");
  // Protocol Buffers spell what is not finite as a text.
  EXPECT_EQ(
      NumberOption({{"bytes", "NaN"}}, "bytes", 0, 1, 9).status().message(),
      "bytes: must be a number from 1 to 9, or 0 for mpsd's own choice, is "
      "\"NaN\"");
  EXPECT_EQ(DeviceNamed("device", "m\x1b[31mps").status().message(),
            "device: must be cpu, cuda or mps, is \"m\\u001b[31mps\"");
  const std::string message(
      DeviceNamed("device", std::string(5000, 'x')).status().message());
  EXPECT_LT(message.size(), 200u);
  EXPECT_EQ(*DeviceNamed("device", "mps"), backend::Choice::kMps);
  for (const json& name : {json("auto"), json(""), json(1), json(nullptr)}) {
    EXPECT_TRUE(absl::IsInvalidArgument(DeviceNamed("device", name).status()))
        << name;
  }
}

// Each bound at its value, and one past it.
TEST(StudyOptions, AreHeldToTheirBounds) {
  struct Case {
    const char* study;
    const char* field;
    json last;
    json past;
  };
  for (const Case& c : std::vector<Case>{
           {"probe", "steps", 1000, 1001},
           {"probe", "steps", 1, -1},
           {"probe", "warmup_steps", 1000, 1001},
           {"batch_sweep", "first_batch", 65536, 65537},
           {"batch_sweep", "max_batch", 65536, 65537},
           {"batch_sweep", "steps", 1000, 1001},
           {"batch_sweep", "warmup_steps", 1000, 1001},
           {"batch_sweep", "memory_limit_bytes", 1e15, 1.1e15},
           {"batch_sweep", "memory_limit_bytes", 1, 0.5},
           {"batch_sweep", "memory_limit_bytes", 0, "Infinity"},
           {"device_comparison", "steps", 1000, 1001},
           {"device_comparison", "warmup_steps", 0, -1},
           {"device_comparison", "warmup_steps", 1000, 1001},
           {"device_comparison", "devices", json::array({"cpu", "cpu"}),
            json::array({"cpu", "tpu"})},
           {"device_comparison", "devices", json::array(),
            json::array({"cpu"})},
           {"device_comparison", "devices", json::array({"cuda", "mps"}),
            json::array({"cpu", "cuda", "mps"})},
           {"profile", "steps", 1, 0},
           {"profile", "steps", 1000, 1001},
           {"profile", "steps", 2, 2.5},
           {"profile", "warm_up_steps", 1, 0},
           {"profile", "warm_up_steps", 1000, 1e300},
           {"smoke", "rows", 1000000, 1000001},
           {"generate", "max_new_tokens", 8192, 8193},
           {"generate", "max_new_tokens", 1, 0},
           {"generate", "temperature", 100, 0},
           {"generate", "top_p", 0, -0.1},
           {"generate", "top_p", 1, 1.1},
           {"generate", "min_p", 1, "NaN"},
           {"generate", "top_k", 0, -1},
           {"generate", "repetition_penalty", 100, 101},
           {"generate", "do_sample", true, 1},
           {"generate", "raw", true, "true"},
           {"generate", "stop_strings", std::string(256, 'a'), ""},
           {"generate", "seed", 2147483647, 2147483648},
       }) {
    const absl::Status last = CheckStudyOptions(c.study, {{c.field, c.last}});
    EXPECT_TRUE(last.ok()) << c.study << " " << last;
    EXPECT_THAT(CheckStudyOptions(c.study, {{c.field, c.past}}),
                Fails(absl::StatusCode::kInvalidArgument, StartsWith(c.field)))
        << c.study << " " << c.field;
  }
}

TEST(StudyOptions, ThresholdsAreThoseOfTheTableAndWhatIsNoStudyIsRefused) {
  EXPECT_TRUE(
      CheckStudyOptions("batch_sweep", {{"first_batch", 8}, {"max_batch", 8}})
          .ok());
  EXPECT_EQ(
      CheckStudyOptions("batch_sweep", {{"first_batch", 9}, {"max_batch", 8}})
          .message(),
      "first_batch: must be at most max_batch, 8, is 9");
  for (const char* study :
       {"probe", "batch_sweep", "device_comparison", "profile", "smoke"}) {
    const json known = {{"thresholds", {{"smoke.epochs", 3}}}};
    EXPECT_TRUE(CheckStudyOptions(study, known).ok()) << study;
    const json unknown = {{"thresholds", {{"smoke.eposch", 3}}}};
    EXPECT_THAT(CheckStudyOptions(study, unknown),
                Says(testing::AllOf(StartsWith("thresholds: "),
                                    HasSubstr("smoke.eposch"),
                                    HasSubstr("smoke.epochs"))));
    const json wrong = {{"thresholds", {{"smoke.epochs", 1}}}};
    EXPECT_EQ(CheckStudyOptions(study, wrong).message(),
              "thresholds: smoke.epochs: must be a whole number from 2 to "
              "1000, is 1");
  }
  EXPECT_FALSE(CheckStudyOptions("training", json::object()).ok());
  EXPECT_FALSE(CheckStudyOptions("probe", json::array()).ok());
  EXPECT_FALSE(CheckStudyOptions("probe", json()).ok());
  EXPECT_FALSE(CheckStudyOptions("probe", {{"thresholds", 1}}).ok());
}

TEST(Thresholds, TheTableHasItsOrderAndASourceForEach) {
  std::string before;
  for (const Threshold& threshold : kThresholds) {
    EXPECT_LT(before, threshold.name);
    before = threshold.name;
    EXPECT_NE(std::string(threshold.unit), "") << before;
    EXPECT_THAT(threshold.source,
                testing::AnyOf(testing::StartsWith("runbook: "),
                               testing::StartsWith("mpsd: ")))
        << before;
  }
  // The three of the field's runbook.
  const Thresholds thresholds;
  EXPECT_EQ(thresholds.Get("compare.speedup"), 0.22);
  EXPECT_EQ(thresholds.Get("compare.gpu_utilization"), 0.18);
  EXPECT_EQ(thresholds.Get("smoke.memory_growth"), 0.26);
}

TEST(Thresholds, WhatMakesNoSenseIsRefused) {
  EXPECT_THAT(Thresholds::FromMap({{"compare.sped\x1bup", 1}}),
              Fails(absl::StatusCode::kInvalidArgument,
                    testing::AllOf(HasSubstr("compare.sped\\x1bup"),
                                   HasSubstr("compare.speedup"))));
  for (const double value :
       {-0.1, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(Thresholds::FromMap({{"compare.speedup", value}}).ok());
  }
  EXPECT_THAT(Thresholds::FromJson({{"compare.speedup", "much"}}),
              Says("compare.speedup: must be a number, is \"much\""));
  std::map<std::string, double> values;
  for (int i = 0; i <= limits::kThresholds; ++i) {
    values[std::to_string(i)] = 1;
  }
  EXPECT_EQ(Thresholds::FromMap(values).status().message(),
            "thresholds: has 65 entries, at most 64 are allowed");
}

// Each bound at its value and one past it.
TEST(Thresholds, CountsOfStepsHaveBounds) {
  const auto may = [](const char* name, double value) {
    return Thresholds::FromMap({{name, value}}).ok();
  };
  EXPECT_TRUE(may("profile.steps", 1) && may("profile.steps", 1000));
  EXPECT_FALSE(may("profile.steps", 0) || may("profile.steps", 1001));
  EXPECT_FALSE(may("profile.steps", 2.5));
  EXPECT_TRUE(may("smoke.epochs", 2) && may("smoke.epochs", 1000));
  EXPECT_FALSE(may("smoke.epochs", 1) || may("smoke.epochs", 1001));
  EXPECT_TRUE(may("compare.speedup", 0) && may("compare.speedup", 1e300));
  for (const Threshold& threshold : kThresholds) {
    EXPECT_TRUE(may(threshold.name, threshold.value)) << threshold.name;
  }
}

}  // namespace
}  // namespace mpsd::runbook
