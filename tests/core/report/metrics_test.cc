// SPDX-License-Identifier: Apache-2.0
#include "core/report/metrics.h"

#include <cmath>
#include <fstream>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/core/status_matchers.h"

namespace mpsd::metrics {
namespace {

using spec::ProblemType;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// What scikit-learn and scipy say: tests/golden/metrics.py.
const nlohmann::json& Golden() {
  static const auto& golden =
      *new nlohmann::json(nlohmann::json::parse(std::ifstream(
          std::string(MPSD_TEST_SOURCE_DIR) + "/tests/golden/metrics.json")));
  return golden;
}

ProblemType ProblemOf(const std::string& name) {
  for (ProblemType type : {ProblemType::kSingleLabel, ProblemType::kRegression,
                           ProblemType::kMultiLabel}) {
    if (name == spec::ToString(type)) return type;
  }
  ADD_FAILURE() << name;
  return ProblemType::kSingleLabel;
}

Predictions Read(const nlohmann::json& row) {
  Predictions p;
  p.problem = ProblemOf(row["problem"]);
  p.outputs = row["outputs"];
  p.logits = row["logits"].get<std::vector<float>>();
  if (p.problem == ProblemType::kSingleLabel) {
    p.truth = row["labels"].get<std::vector<int64_t>>();
  } else {
    p.targets = row["labels"].get<std::vector<float>>();
  }
  return p;
}

TEST(Compute, EqualsScikitLearn) {
  ASSERT_GT(Golden().size(), 30u);
  for (const nlohmann::json& row : Golden()) {
    SCOPED_TRACE(row["problem"].get<std::string>() + ": " +
                 row["name"].get<std::string>());
    const Predictions p = Read(row);
    const std::string task = row["task"];
    const Values values = Compute(p, task);
    ASSERT_EQ(values.size(), row["values"].size());
    std::vector<std::string> names;
    for (size_t i = 0; i < values.size(); ++i) {
      const nlohmann::json& expected = row["values"][i];
      names.push_back(values[i].first);
      EXPECT_EQ(values[i].first, expected[0].get<std::string>());
      if (expected[1].is_null()) {
        EXPECT_TRUE(std::isnan(values[i].second)) << values[i].first;
      } else {
        EXPECT_NEAR(values[i].second, expected[1], 1e-9) << values[i].first;
      }
    }
    EXPECT_EQ(names, MetricNames(p.problem, p.outputs, task));
  }
}

TEST(ConfusionMatrix, EqualsScikitLearn) {
  for (const nlohmann::json& row : Golden()) {
    if (!row.contains("confusion")) continue;
    EXPECT_EQ(ConfusionMatrix(Read(row)),
              row["confusion"].get<std::vector<int64_t>>())
        << row["name"];
  }
}

TEST(Compute, OfNoRowsIsNothing) {
  Predictions none;
  none.outputs = 2;
  EXPECT_THAT(Compute(none, ""), IsEmpty());
  EXPECT_THAT(ConfusionMatrix(none), ElementsAre(0, 0, 0, 0));
  EXPECT_TRUE(std::isnan(Accuracy({}, {})));
  EXPECT_TRUE(std::isnan(F1Macro({}, {})));
  EXPECT_EQ(F1Binary({}, {}, 1), 0);
  EXPECT_EQ(MatthewsCorrelation({}, {}), 0);
}

TEST(Compute, IgnoresATaskOfAnotherProblem) {
  EXPECT_EQ(MetricNames(ProblemType::kMultiLabel, 2, "mrpc"),
            MetricNames(ProblemType::kMultiLabel, 2, ""));
  EXPECT_EQ(MetricNames(ProblemType::kSingleLabel, 5, "stsb"),
            MetricNames(ProblemType::kSingleLabel, 5, ""));
}

TEST(Correlations, AreNaNIfUndefined) {
  EXPECT_TRUE(std::isnan(Pearson({1}, {2})));
  EXPECT_TRUE(std::isnan(Spearman({}, {})));
  EXPECT_TRUE(std::isnan(Pearson({1, kNan, 2}, {1, 2, 3})));
  EXPECT_TRUE(std::isnan(Spearman({1, 2, 3}, {1, kNan, 3})));
}

TEST(Perplexity, IsTheExponentOfTheLoss) {
  EXPECT_NEAR(Perplexity(2), 7.38905609893065, 1e-12);
  EXPECT_EQ(Perplexity(0), 1);
}

TEST(GreaterIsBetter, NotOfErrors) {
  for (const char* less :
       {"loss", "eval_loss", "mse", "eval_mae", "perplexity"}) {
    EXPECT_FALSE(GreaterIsBetter(less)) << less;
  }
  for (const char* more :
       {"accuracy", "eval_f1", "combined_score", "pearson"}) {
    EXPECT_TRUE(GreaterIsBetter(more)) << more;
  }
}

TEST(Predictions, ClassesHaveTheHighestLogitTheFirstOfEquals) {
  Predictions p;
  p.outputs = 3;
  p.logits = {0, 2, 1, -1, -3, -2, 5, 7, 7};
  EXPECT_EQ(p.rows(), 3);
  EXPECT_THAT(p.Classes(), ElementsAre(1, 0, 1));
  EXPECT_EQ(Predictions().rows(), 0);
  EXPECT_THAT(Predictions().Classes(), IsEmpty());
}

}  // namespace
}  // namespace mpsd::metrics
