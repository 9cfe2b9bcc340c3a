// SPDX-License-Identifier: Apache-2.0
#include "client/import/run_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using testing::ElementsAre;

RunArguments Some() {
  RunArguments run;
  run.arguments = {{"do_train", {}},          {"bf16", {"No"}},
                   {"seed", {"7"}},           {"rate", {"2e-5"}},
                   {"report_to", {"a", "b"}}, {"odd", {"perhaps"}}};
  return run;
}

TEST(RunValues, ReadsEachKind) {
  const RunArguments run = Some();
  RunValues values(run);
  EXPECT_TRUE(values.IsOn("do_train"));
  EXPECT_FALSE(values.IsOn("bf16"));
  EXPECT_FALSE(values.IsOn("absent"));
  EXPECT_EQ(values.Text("report_to"), "a b");
  EXPECT_EQ(values.Text("absent"), "");
  EXPECT_EQ(values.Number("rate"), 2e-5);
  EXPECT_EQ(values.Number("absent"), std::nullopt);
  EXPECT_TRUE(values.fault().ok());
  EXPECT_THAT(values.asked(),
              ElementsAre("absent", "bf16", "do_train", "rate", "report_to"));
}

TEST(RunValues, KeepsTheFirstFault) {
  const RunArguments run = Some();
  RunValues values(run);
  EXPECT_FALSE(values.IsOn("odd"));
  EXPECT_EQ(values.Number("report_to"), std::nullopt);
  EXPECT_EQ(values.fault(),
            absl::InvalidArgumentError(
                "--odd: expected true or false, found 'perhaps'"));
}

TEST(RunValues, Numbers) {
  EXPECT_EQ(IntegerOf("-1"), -1);
  EXPECT_EQ(IntegerOf("1.5"), std::nullopt);
  EXPECT_EQ(IntegerOf("99999999999999999999"), std::nullopt);
  EXPECT_EQ(NumberOf("1.5"), 1.5);
  EXPECT_EQ(NumberOf("x"), std::nullopt);
  EXPECT_EQ(BoolOf("T"), true);
  EXPECT_EQ(BoolOf("2"), std::nullopt);
}

TEST(RunValues, WhatIsNotWanted) {
  for (const char* off : {"False", "none", "0", "0.0", "no"}) {
    EXPECT_TRUE(IsOff({"x", {off}})) << off;
  }
  for (const char* on : {"true", "all", "4", ""}) {
    EXPECT_FALSE(IsOff({"x", {on}})) << on;
  }
  EXPECT_FALSE(IsOff({"x", {}}));
  EXPECT_FALSE(IsOff({"x", {"none", "none"}}));
}

}  // namespace
}  // namespace mpsd::client
