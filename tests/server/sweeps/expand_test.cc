// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/expand.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

using Combinations = std::vector<std::vector<std::string>>;

Plan Grid(std::vector<Parameter> parameters) {
  Plan plan;
  plan.parameters = std::move(parameters);
  return plan;
}
Plan Random(int64_t count, std::vector<Parameter> parameters,
            int64_t seed = 1) {
  Plan plan = Grid(std::move(parameters));
  plan.strategy = Strategy::kRandom;
  plan.count = count;
  plan.seed = seed;
  return plan;
}
Combinations Expanded(const Plan& plan) {
  const auto all = Expand(plan);
  EXPECT_TRUE(all.ok()) << all.status();
  return all.value_or(Combinations());
}
std::string Error(const Plan& plan) {
  const absl::Status status = Expand(plan).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}
Choices Numbers(int count) {
  Choices choices;
  for (int i = 0; i < count; ++i) choices.values.push_back(absl::StrCat(i));
  return choices;
}

TEST(Expand, AGridHasEveryCombinationTheLastFieldFastest) {
  EXPECT_THAT(
      Expanded(Grid({{"training.learning_rate", Choices{{"1e-4", "3e-4"}}},
                     {"lora.r", Choices{{"8", "16", "true"}}}})),
      ElementsAre(ElementsAre("0.0001", "8"), ElementsAre("0.0001", "16"),
                  ElementsAre("0.0001", "true"), ElementsAre("0.0003", "8"),
                  ElementsAre("0.0003", "16"), ElementsAre("0.0003", "true")));
  // What is no JSON is a text.
  EXPECT_THAT(Expanded(Grid({{"f", Choices{{"linear", "\"5\"", "[1]"}}}})),
              ElementsAre(ElementsAre("\"linear\""), ElementsAre("\"5\""),
                          ElementsAre("[1]")));
}

TEST(Expand, TooLargeAGridIsRefusedWithItsSize) {
  EXPECT_EQ(Expanded(Grid({{"a", Numbers(500)}})).size(), 500);
  EXPECT_THAT(Error(Grid({{"a", Numbers(3)}, {"b", Numbers(167)}})),
              HasSubstr("has 501 combinations, at most 500"));
  EXPECT_THAT(
      Error(
          Grid({{"a", Numbers(100)}, {"b", Numbers(100)}, {"c", Numbers(10)}})),
      HasSubstr("has 100000 combinations, at most 500"));
  // 500 to the 16th is beyond every integer.
  std::vector<Parameter> wide;
  for (int i = 0; i < 16; ++i) {
    wide.push_back({absl::StrCat("f", i), Numbers(500)});
  }
  EXPECT_THAT(Error(Grid(wide)), HasSubstr("very many combinations"));
}

TEST(Expand, AGridHasNoRanges) {
  EXPECT_THAT(Error(Grid({{"f", Uniform{0, 1}}})), HasSubstr("no ranges"));
}

TEST(Expand, TheSameSeedIsTheSameChildrenOnEveryMachine) {
  const std::vector<Parameter> fields = {
      {"training.learning_rate", LogUniform{1e-5, 1e-3}},
      {"lora.r", Choices{{"8", "16", "32"}}},
      {"lora.lora_dropout", Uniform{0, 0.1}},
      {"training.seed", Integers{1, 100}}};
  EXPECT_EQ(Expanded(Random(20, fields, 7)), Expanded(Random(20, fields, 7)));
  EXPECT_NE(Expanded(Random(20, fields, 7)), Expanded(Random(20, fields, 8)));
  // A longer sweep begins with the shorter one's children.
  Combinations longer = Expanded(Random(30, fields, 7));
  longer.resize(20);
  EXPECT_EQ(longer, Expanded(Random(20, fields, 7)));
  // SplitMix64 of seed 7 gives these, whatever the platform.
  EXPECT_EQ(Expanded(Random(2, fields, 7)),
            (Combinations{{"6.021e-05", "8", "0.09008", "4"},
                          {"8.033e-05", "8", "0.0468", "83"}}));
}

TEST(Expand, DrawnValuesLieInTheirRangesAndAreShort) {
  const Combinations all = Expanded(Random(500, {{"a", LogUniform{1e-5, 1e-3}},
                                                 {"b", Uniform{-1, 0.1}},
                                                 {"c", Integers{-2, 2}}}));
  ASSERT_EQ(all.size(), 500);
  int small = 0;
  std::set<std::string> integers;
  for (const std::vector<std::string>& one : all) {
    double a = 0, b = 0;
    ASSERT_TRUE(absl::SimpleAtod(one[0], &a) && absl::SimpleAtod(one[1], &b));
    EXPECT_GE(a, 1e-5);
    EXPECT_LE(a, 1e-3);
    EXPECT_GE(b, -1);
    EXPECT_LE(b, 0.1);
    EXPECT_LT(one[0].size(), 11) << one[0];
    small += a < 1e-4 ? 1 : 0;
    integers.insert(one[2]);
  }
  // Half of a range in the logarithm is half of the draws.
  EXPECT_GT(small, 200);
  EXPECT_LT(small, 300);
  EXPECT_THAT(integers,
              testing::UnorderedElementsAre("-2", "-1", "0", "1", "2"));
}

TEST(Expand, NoTwoChildrenAreAlike) {
  const std::vector<Parameter> fields = {{"a", Numbers(5)}, {"b", Numbers(4)}};
  const Combinations all = Expanded(Random(20, fields));
  EXPECT_EQ(std::set(all.begin(), all.end()).size(), 20)
      << "all that there are";
  EXPECT_THAT(Error(Random(21, fields)),
              HasSubstr("no 21 different combinations, only 20"));
  EXPECT_EQ(Expanded(Random(500, {{"a", Integers{1, 500}}})).size(), 500);
}

TEST(Expand, LongValuesCostNoMoreThanShortOnesUntilAChildGetsThem) {
  // There is one combination, so that a second one is sought in vain: each of
  // 110,000 draws read the values anew, for minutes.
  std::string numbers = "[1";
  while (numbers.size() < 4000) numbers += ",1";
  numbers += "]";
  std::vector<Parameter> fields;
  for (int i = 0; i < 16; ++i) {
    fields.push_back({absl::StrCat("f", i), Choices{{numbers}}});
  }
  const absl::Time start = absl::Now();
  EXPECT_THAT(Error(Random(500, fields)),
              HasSubstr("no 500 different combinations, only 1"));
  EXPECT_LT(absl::Now() - start, absl::Seconds(45));
}

TEST(Expand, TheValuesOfAllChildrenAreBounded) {
  const Parameter long_one = {"a", Choices{{std::string(3000, 'x')}}};
  EXPECT_EQ(Expanded(Grid({long_one, {"b", Numbers(300)}})).size(), 300);
  EXPECT_THAT(Error(Grid({long_one, {"b", Numbers(500)}})),
              HasSubstr("of all 500 children have 1502390 bytes together, at "
                        "most 1048576"));
  EXPECT_THAT(Error(Random(500, {long_one, {"b", Uniform{0, 1}}})),
              HasSubstr("at most 1048576"));
}

TEST(Expand, TheCountIsBounded) {
  for (const int64_t count : {int64_t{0}, int64_t{-1}, int64_t{501}}) {
    EXPECT_THAT(Error(Random(count, {{"a", Uniform{0, 1}}})),
                HasSubstr("count: must be 1 to 500"));
  }
}

}  // namespace
}  // namespace mpsd::sweeps
