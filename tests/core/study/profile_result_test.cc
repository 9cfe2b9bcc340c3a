// SPDX-License-Identifier: Apache-2.0
#include "core/study/profile_result.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/core/study/profile_samples.h"

namespace mpsd::study {
namespace {

using nlohmann::json;

TEST(ProfileResultTest, TimesAreThoseOfAStep) {
  const json result = ProfileResult(SoundFacts());
  EXPECT_EQ(result["device"], "mps");
  const json& steps = result["steps"];
  EXPECT_EQ(steps["warm_up"], 4);
  EXPECT_EQ(steps["plain"], 10);
  EXPECT_EQ(steps["profiled"], 20);
  EXPECT_EQ(steps["first_seconds"], 2);
  EXPECT_EQ(steps["warm_up_seconds"], 0.2);
  EXPECT_NEAR(steps["steady_seconds"], 0.1, 1e-9);
  EXPECT_NEAR(steps["data_wait_share"], 0.01, 1e-9);
  EXPECT_EQ(steps["first_epoch_seconds"], 0.1);
  EXPECT_EQ(steps["later_epochs_seconds"], 0.1);
  const json& mm = result["operators"][0];
  EXPECT_EQ(mm["name"], "aten::mm");
  EXPECT_EQ(mm["calls"], 100);
  EXPECT_NEAR(mm["self_seconds"], 0.08, 1e-9);
  EXPECT_NEAR(mm["share"], 80.0 / 90, 1e-9);
  EXPECT_FALSE(mm.contains("device_seconds"));
  const json& block = result["blocks"][0];
  EXPECT_EQ(block["name"], "attention");
  EXPECT_EQ(block["phase"], "backward");
  EXPECT_NEAR(block["seconds"], 0.06, 1e-9);
  EXPECT_NEAR(block["operator_seconds"], 0.055, 1e-9);
  EXPECT_EQ(result["layers"].size(), 4u);
  EXPECT_NEAR(result["layers"][3]["backward_seconds"], 0.015, 1e-9);
  EXPECT_NEAR(result["gaps"]["share"], 5.0 / 110, 1e-9);
  EXPECT_EQ(result["captures"][0],
            (json{{"name", "data"}, {"steps", 3}, {"seconds", 0.011}}));
  EXPECT_EQ(result["memory"]["peak_allocated_bytes"], 1500);
  EXPECT_FALSE(result["memory"].contains("peak_driver_bytes"));
  EXPECT_FALSE(result.contains("trace"));
}

TEST(ProfileResultTest, TheDevicesTimeOrdersOperatorsWhereItIsTold) {
  ProfileFacts facts = SoundFacts();
  facts.tally.device_told = true;
  facts.tally.device_busy_ns = 3;
  facts.tally.device_window_ns = 4;
  facts.tally.operators["aten::mul"].device_ns = 20 * 30 * kMilli;
  const json result = ProfileResult(facts);
  EXPECT_EQ(result["operators"][0]["name"], "aten::mul");
  EXPECT_NEAR(result["operators"][0]["device_seconds"], 0.03, 1e-9);
  EXPECT_EQ(result["operators"][0]["share"], 1);
  EXPECT_EQ(result["gaps"]["device_idle_ratio"], 0.25);
}

TEST(ProfileResultTest, ListsHaveBounds) {
  ProfileFacts facts = SoundFacts();
  for (int i = 0; i < 1000; ++i) {
    const std::string name = "aten::op" + std::to_string(i);
    facts.tally.operators[name] = {1, 1, 0};
    facts.tally.layers[i] = {};
    facts.tally.waits[name] = {1, 1, {{"mlp", 1}}};
    facts.steps.back().progress.cpu_fallback_ops[name] = 1;
  }
  const json result = ProfileResult(facts);
  EXPECT_EQ(result["operators"].size(), 50u);
  EXPECT_EQ(result["layers"].size(), 512u);
  EXPECT_LE(result["waits"].size(), 21u);
  EXPECT_EQ(result["cpu_fallback_ops"].size(), 100u);
}

TEST(ProfileResultTest, TheStepsOwnReadBackIsToldApart) {
  ProfileFacts facts = SoundFacts();
  facts.tally.waits["aten::nonzero"] = {
      40, 20 * kMilli, {{"head", 1}, {"mlp", 39}}};
  const json waits = ProfileResult(facts)["waits"];
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0]["block"], "mlp");
  EXPECT_EQ(waits[0]["calls"], 2);
  EXPECT_FALSE(waits[0].contains("own"));
  EXPECT_EQ(waits[1]["own"], true);
}

TEST(ProfileResultTest, NoStepsAreNoReasonToDivideByZero) {
  const std::string text = ProfileResult({}).dump();
  EXPECT_EQ(text.find("null"), std::string::npos) << text;
}

}  // namespace
}  // namespace mpsd::study
