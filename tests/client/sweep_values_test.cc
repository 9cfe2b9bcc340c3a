// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_values.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::SweepParameter Read(const std::string& text) {
  v1::SweepParameter parameter;
  const absl::Status status = ReadParameter(text, parameter);
  EXPECT_TRUE(status.ok()) << status;
  return parameter;
}
std::string Error(const std::string& text) {
  v1::SweepParameter parameter;
  const absl::Status status = ReadParameter(text, parameter);
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(ReadParameter, ValuesBetweenCommas) {
  const v1::SweepParameter one = Read("training.learning_rate=1e-4,3e-4");
  EXPECT_EQ(one.field(), "training.learning_rate");
  EXPECT_THAT(one.choices().values(), ElementsAre("1e-4", "3e-4"));
  EXPECT_THAT(Read("a=linear").choices().values(), ElementsAre("linear"));
  EXPECT_THAT(Read("a=x=y,z").choices().values(), ElementsAre("x=y", "z"));
}

TEST(ReadParameter, CommasOfJsonAreJsons) {
  EXPECT_THAT(
      Read(R"(a=["q","v"],"all-linear",{"x": [1,2]})").choices().values(),
      ElementsAre(R"(["q","v"])", R"("all-linear")", R"({"x": [1,2]})"));
  EXPECT_THAT(Read(R"(a="b,c","d\"e,f")").choices().values(),
              ElementsAre(R"("b,c")", R"("d\"e,f")"));
  EXPECT_THAT(Read(R"(a=["x]",1],2)").choices().values(),
              ElementsAre(R"(["x]",1])", "2"));
  EXPECT_THAT(Read(R"(a=it"s,b)").choices().values(),
              ElementsAre(R"(it"s)", "b"));
  // What is not closed stays one text: mpsd says what is wrong with it.
  EXPECT_THAT(Read("a=[1,2").choices().values(), ElementsAre("[1,2"));
}

TEST(ReadParameter, Ranges) {
  EXPECT_EQ(Read("a=uniform(0, 0.1)").uniform().high(), 0.1);
  EXPECT_EQ(Read("a=log(1e-5,1e-3)").log_uniform().low(), 1e-5);
  EXPECT_EQ(Read("a=int(-3,7)").integers().low(), -3);
  EXPECT_EQ(Read("a=int(-3,7)").integers().high(), 7);
  // A text that looks like a range is one with quotes.
  EXPECT_THAT(Read("a=\"log(1,2)\"").choices().values(),
              ElementsAre("\"log(1,2)\""));
  EXPECT_THAT(Read("a=logarithm").choices().values(), ElementsAre("logarithm"));
}

TEST(ReadParameter, SaysWhatWasExpected) {
  for (const char* text : {"", "job.json", "=1"}) {
    EXPECT_THAT(Error(text), HasSubstr("expected FIELD=VALUES"));
  }
  EXPECT_THAT(Error("a="), HasSubstr("a value is empty"));
  EXPECT_THAT(Error("a=1,,2"), HasSubstr("a value is empty"));
  for (const char* text :
       {"a=uniform()", "a=uniform(1)", "a=uniform(1,2,3)", "a=uniform(x,2)"}) {
    EXPECT_THAT(Error(text), HasSubstr("expected two numbers")) << text;
  }
  EXPECT_THAT(Error("a=log(1)"), HasSubstr("above 0"));
  EXPECT_THAT(Error("a=int(1.5,2)"), HasSubstr("two integers"));
  EXPECT_THAT(Error("a\x1b[2J"), HasSubstr("a\\x1b[2J"));
}

}  // namespace
}  // namespace mpsd::client
