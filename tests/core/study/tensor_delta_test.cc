// SPDX-License-Identifier: Apache-2.0
#include "core/study/tensor_delta.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::study {
namespace {

using runbook::Summarize;

using Values = std::vector<float>;
constexpr auto kGradient = TensorRole::kGradient;

TEST(DeltaTable, EqualTensorsDifferByNothing) {
  DeltaTable table;
  table.Add("a", kGradient, Values{1, 2}, Values{1, 2});
  table.Add("zero", kGradient, Values{0, 0}, Values{0, 0});
  EXPECT_EQ(table.compared(), 2);
  EXPECT_EQ(table.equal(), 2);
  EXPECT_EQ(table.Whole(kGradient), 0);
  for (const TensorDelta& delta : table.Worst()) {
    EXPECT_EQ(delta.max_abs, 0);
    EXPECT_EQ(delta.relative_l2, 0);
  }
}

TEST(DeltaTable, TheWorstComesFirst) {
  DeltaTable table;
  table.Add("near", kGradient, Values{1, 1}, Values{1, 1.001f});
  table.Add("far", kGradient, Values{3, 4}, Values{3, 4.5f});
  const auto worst = table.Worst();
  ASSERT_EQ(worst.size(), 2u);
  EXPECT_EQ(worst[0].name, "far");
  EXPECT_DOUBLE_EQ(worst[0].max_abs, 0.5);
  EXPECT_DOUBLE_EQ(worst[0].norm, 5);
  EXPECT_NEAR(worst[0].relative_l2, 0.5 / std::sqrt(9 + 4.5 * 4.5), 1e-12);
  EXPECT_EQ(table.equal(), 0);
  EXPECT_EQ(table.Worst(1).size(), 1u);
}

// The gradient of a key's bias is nothing but rounding.
TEST(DeltaTable, NoiseIsNoDifference) {
  DeltaTable table;
  table.Add("weight", kGradient, Values(100, 1.f), Values(100, 1.f));
  table.Add("key.bias", kGradient, Values(10, 1e-9f), Values(10, -1e-9f));
  EXPECT_LT(table.Worst()[0].relative_l2, 1e-5);
  // Control: the same is a difference where all gradients are so small.
  DeltaTable small;
  small.Add("weight", kGradient, Values(100, 1e-9f), Values(100, 1e-9f));
  small.Add("key.bias", kGradient, Values(10, 1e-9f), Values(10, -1e-9f));
  EXPECT_NEAR(small.Worst()[0].relative_l2, 2, 1e-6);
}

TEST(DeltaTable, RolesAreCountedApart) {
  DeltaTable table;
  table.Add("w", kGradient, Values{1}, Values{2});
  table.Add("w", TensorRole::kLastValue, Values{4}, Values{4});
  EXPECT_DOUBLE_EQ(table.Whole(kGradient), 0.5);
  EXPECT_EQ(table.Whole(TensorRole::kLastValue), 0);
  EXPECT_FALSE(table.Has(TensorRole::kFirstValue));
  EXPECT_EQ(table.Whole(TensorRole::kFirstValue), 0);
}

// Numbers that are none are the worst of all, and fit into JSON.
TEST(DeltaTable, NotANumberIsTheWorst) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  DeltaTable table;
  table.Add("far", kGradient, Values{1, 1}, Values{1, -1});
  table.Add("nan", kGradient, Values{nan, 1}, Values{1, 1});
  EXPECT_EQ(table.Worst()[0].name, "nan");
  EXPECT_GT(table.Worst()[0].max_abs, 1e300);
  table.Add("infinite", kGradient, Values{1}, Values{infinity});
  table.Add("from nothing", kGradient, Values{1}, Values{0});
  EXPECT_EQ(table.equal(), 0);
  for (const TensorDelta& delta : table.Worst()) {
    for (const auto& item : ToJson(delta)) EXPECT_FALSE(item.is_null());
    EXPECT_EQ(ToJson(delta).dump().find("null"), std::string::npos);
  }
}

TEST(DeltaTable, SummariesTellNoMoreThanTheTruth) {
  const Values ours = {1, 2, 3, 4, 5, 6, 7, 8};
  Values theirs = ours;
  theirs[2] = 3.5f;  // one of the probes
  DeltaTable truth, told;
  truth.Add("w", kGradient, ours, theirs);
  told.Add("w", kGradient, 8, Summarize(ours), Summarize(theirs));
  EXPECT_DOUBLE_EQ(told.Worst()[0].max_abs, 0.5);
  EXPECT_LE(told.Worst()[0].relative_l2, truth.Worst()[0].relative_l2 + 1e-9);
  EXPECT_GT(told.Worst()[0].relative_l2, 0);
  EXPECT_EQ(told.equal(), 0);
  theirs = ours;
  theirs[3] = 4.5f;  // no probe: the norm tells
  DeltaTable hidden;
  hidden.Add("w", kGradient, 8, Summarize(ours), Summarize(theirs));
  EXPECT_GT(hidden.Worst()[0].relative_l2, 0);
  DeltaTable same;
  same.Add("w", kGradient, 8, Summarize(ours), Summarize(ours));
  EXPECT_EQ(same.equal(), 1);
  EXPECT_EQ(same.Worst()[0].relative_l2, 0);
}

TEST(TensorDelta, HasTheNamesOfTheMessage) {
  EXPECT_EQ(ToJson(TensorDelta{"w", TensorRole::kFirstValue, 1, 2, 3, 4}),
            nlohmann::json({{"name", "w"},
                            {"role", "TENSOR_ROLE_FIRST_VALUE"},
                            {"max_abs", 1.0},
                            {"relative_l2", 2.0},
                            {"norm", 3.0},
                            {"reference_norm", 4.0}}));
}

}  // namespace
}  // namespace mpsd::study
