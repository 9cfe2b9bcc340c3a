// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/plan_json.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

using testing::ElementsAre;

TEST(PlanJson, APlanComesBackAsItWas) {
  Plan plan;
  plan.strategy = Strategy::kRandom;
  plan.parameters = {{"a", Choices{{"1e-4", "\"x\"", "\xff"}}},
                     {"b", Uniform{0.1, 1.0 / 3}},
                     {"c", LogUniform{1e-300, 1e300}},
                     {"d", Integers{-5, int64_t{1} << 53}}};
  plan.count = 12;
  plan.seed = INT64_MIN;
  plan.eta = 3;
  plan.rungs = {2, 6};
  plan.metric = "f1";
  plan.greater_is_better = true;
  const auto back = DecodePlan(EncodePlan(plan));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_EQ(back->strategy, Strategy::kRandom);
  ASSERT_EQ(back->parameters.size(), 4);
  // Bytes that are no UTF-8 do not survive, and break nothing.
  EXPECT_EQ(std::get<Choices>(back->parameters[0].values).values.size(), 3);
  for (size_t i = 1; i < 4; ++i) {
    EXPECT_EQ(back->parameters[i], plan.parameters[i]);
  }
  EXPECT_EQ(back->count, 12);
  EXPECT_EQ(back->seed, INT64_MIN);
  EXPECT_EQ(back->eta, 3);
  EXPECT_THAT(back->rungs, ElementsAre(2, 6));
  EXPECT_EQ(back->metric, "f1");
  EXPECT_TRUE(back->greater_is_better);
}

TEST(PlanJson, WhatIsNoPlanIsDataLoss) {
  for (const char* json :
       {"", "[]", "{}", "7", "{\"strategy\":1}",
        R"({"strategy":"grid","parameters":[{"field":"a","uniform":[1]}],)"
        R"("count":0,"seed":0,"eta":0,"rungs":[],"metric":"",)"
        R"("greater_is_better":false})"}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodePlan(json).status())) << json;
  }
  EXPECT_TRUE(absl::IsDataLoss(DecodePlan(std::string(1000, '[')).status()));
}

TEST(PlanJson, ValuesComeBackAsTheyWere) {
  const auto back = DecodeValues(EncodeValues({"0.0001", "\"a\\\"b\"", ""}));
  ASSERT_TRUE(back.ok()) << back.status();
  EXPECT_THAT(*back, ElementsAre("0.0001", "\"a\\\"b\"", ""));
  for (const char* json : {"", "{}", "[1]", "\"a\""}) {
    EXPECT_TRUE(absl::IsDataLoss(DecodeValues(json).status())) << json;
  }
}

}  // namespace
}  // namespace mpsd::sweeps
