// SPDX-License-Identifier: Apache-2.0
#include "core/runbook/study_options.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::runbook {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

TEST(StudyOptions, HaveDefaults) {
  const json none = json::object();
  EXPECT_EQ(ProbeOptionsFromJson(none)->warmup_steps, 2);
  EXPECT_EQ(ProbeOptionsFromJson(none)->steps, 8);
  EXPECT_EQ(BatchSweepOptionsFromJson(none)->first_batch, 1);
  EXPECT_EQ(BatchSweepOptionsFromJson(none)->max_batch, 0);
  EXPECT_EQ(BatchSweepOptionsFromJson(none)->steps, 6);
  EXPECT_EQ(BatchSweepOptionsFromJson(none)->memory_limit_bytes, 0);
  EXPECT_EQ(DeviceComparisonOptionsFromJson(none)->steps, 20);
  EXPECT_EQ(DeviceComparisonOptionsFromJson(none)->warmup_steps, 3);
  EXPECT_TRUE(DeviceComparisonOptionsFromJson(none)->devices.empty());
  EXPECT_FALSE(ProfileOptionsFromJson(none)->steps);
  EXPECT_EQ(ProfileOptionsFromJson(none)->warm_up_steps, 10);
  EXPECT_EQ(SmokeOptionsFromJson(none)->rows, 0);
}

TEST(StudyOptions, AreRead) {
  const auto sweep = BatchSweepOptionsFromJson({{"first_batch", 4},
                                                {"max_batch", 64},
                                                {"steps", 3},
                                                {"warmup_steps", 5},
                                                {"memory_limit_bytes", 2e9}});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->first_batch, 4);
  EXPECT_EQ(sweep->max_batch, 64);
  EXPECT_EQ(sweep->steps, 3);
  EXPECT_EQ(sweep->warmup_steps, 5);
  EXPECT_EQ(sweep->memory_limit_bytes, 2e9);
  const auto compared = DeviceComparisonOptionsFromJson(
      {{"devices", {"cpu", "mps"}}, {"warmup_steps", 0}});
  ASSERT_TRUE(compared.ok()) << compared.status();
  EXPECT_EQ(compared->warmup_steps, 0);  // said, unlike an absent one
  EXPECT_EQ(compared->devices,
            (std::vector{backend::Choice::kCpu, backend::Choice::kMps}));
  EXPECT_EQ(ProfileOptionsFromJson({{"steps", 7}})->steps, 7);
  const auto smoke = SmokeOptionsFromJson({{"rows", 9}});
  ASSERT_TRUE(smoke.ok()) << smoke.status();
  EXPECT_EQ(smoke->rows, 9);
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
       }) {
    const absl::Status last = CheckStudyOptions(c.study, {{c.field, c.last}});
    EXPECT_TRUE(last.ok()) << c.study << " " << last;
    const absl::Status past = CheckStudyOptions(c.study, {{c.field, c.past}});
    EXPECT_EQ(past.code(), absl::StatusCode::kInvalidArgument)
        << c.study << " " << c.field;
    EXPECT_THAT(std::string(past.message()), StartsWith(c.field));
  }
}

TEST(StudyOptions, ASweepBeginsNoHigherThanItEnds) {
  EXPECT_TRUE(
      CheckStudyOptions("batch_sweep", {{"first_batch", 8}, {"max_batch", 8}})
          .ok());
  EXPECT_EQ(
      CheckStudyOptions("batch_sweep", {{"first_batch", 9}, {"max_batch", 8}})
          .message(),
      "first_batch: must be at most max_batch, 8, is 9");
}

TEST(StudyOptions, ThresholdsAreThoseOfTheTable) {
  for (const char* study :
       {"probe", "batch_sweep", "device_comparison", "profile", "smoke"}) {
    const json known = {{"thresholds", {{"smoke.epochs", 3}}}};
    EXPECT_TRUE(CheckStudyOptions(study, known).ok()) << study;
    const json unknown = {{"thresholds", {{"smoke.eposch", 3}}}};
    EXPECT_THAT(
        std::string(CheckStudyOptions(study, unknown).message()),
        testing::AllOf(StartsWith("thresholds: "), HasSubstr("smoke.eposch"),
                       HasSubstr("smoke.epochs")));
    const json wrong = {{"thresholds", {{"smoke.epochs", 1}}}};
    EXPECT_EQ(CheckStudyOptions(study, wrong).message(),
              "thresholds: smoke.epochs: must be a whole number from 2 to "
              "1000, is 1");
  }
}

TEST(StudyOptions, WhatIsNoStudyIsRefused) {
  EXPECT_FALSE(CheckStudyOptions("training", json::object()).ok());
  EXPECT_FALSE(CheckStudyOptions("probe", json::array()).ok());
  EXPECT_FALSE(CheckStudyOptions("probe", json()).ok());
  EXPECT_FALSE(CheckStudyOptions("probe", {{"thresholds", 1}}).ok());
}

}  // namespace
}  // namespace mpsd::runbook
