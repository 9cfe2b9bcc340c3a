// SPDX-License-Identifier: Apache-2.0
#include "core/train/results.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/base/file.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::train {
namespace {

using nlohmann::json;
using spec::ProblemType;

metrics::Predictions Predicted(ProblemType problem, int64_t outputs,
                               std::vector<float> logits) {
  metrics::Predictions p;
  p.problem = problem;
  p.outputs = outputs;
  p.logits = std::move(logits);
  return p;
}

data::ClassLabels Named(ProblemType problem, std::vector<std::string> names) {
  data::ClassLabels class_labels;
  class_labels.problem = problem;
  class_labels.names = std::move(names);
  return class_labels;
}

// The lines of predictions.jsonl; `tsv` gets the other file.
std::vector<json> Written(const metrics::Predictions& predictions,
                          const data::ClassLabels& class_labels,
                          std::string* tsv) {
  const auto folder = testing_support::FreshFolder("results");
  const absl::Status s = WritePredictions(folder, predictions, class_labels);
  EXPECT_TRUE(s.ok()) << s;
  std::istringstream lines(*base::ReadFile(folder / "predictions.jsonl"));
  std::vector<json> rows;
  for (std::string line; std::getline(lines, line);) {
    rows.push_back(json::parse(line));
  }
  *tsv = *base::ReadFile(folder / "predictions.tsv");
  return rows;
}

TEST(WritePredictionsTest, ASingleLabelIsNamedWithItsSoftmax) {
  std::string tsv;
  const auto rows =
      Written(Predicted(ProblemType::kSingleLabel, 2, {0, 0, 1, -1}),
              Named(ProblemType::kSingleLabel, {"no", "yes"}), &tsv);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["index"], 0);
  EXPECT_EQ(rows[0]["prediction"], "no");  // the first of equals
  EXPECT_DOUBLE_EQ(rows[0]["scores"]["yes"], 0.5);
  EXPECT_EQ(rows[1]["prediction"], "no");
  EXPECT_NEAR(rows[1]["scores"]["no"], 1 / (1 + std::exp(-2.0)), 1e-12);
  EXPECT_EQ(tsv, "index\tprediction\n0\tno\n1\tno\n");
}

TEST(WritePredictionsTest, LargeLogitsDoNotOverflow) {
  std::string tsv;
  const auto rows =
      Written(Predicted(ProblemType::kSingleLabel, 2, {1000, -1000}),
              Named(ProblemType::kSingleLabel, {"a", "b"}), &tsv);
  EXPECT_EQ(rows[0]["scores"]["a"], 1.0);
  EXPECT_EQ(rows[0]["scores"]["b"], 0.0);
}

TEST(WritePredictionsTest, ARegressionIsItsNumber) {
  std::string tsv;
  const auto rows = Written(Predicted(ProblemType::kRegression, 1, {2.5, -1}),
                            Named(ProblemType::kRegression, {"LABEL_0"}), &tsv);
  EXPECT_EQ(rows[0]["prediction"], 2.5);
  EXPECT_FALSE(rows[0].contains("scores"));
  EXPECT_EQ(tsv, "index\tprediction\n0\t2.5\n1\t-1.0\n");
}

TEST(WritePredictionsTest, SeveralLabelsAreThoseAboveAHalf) {
  std::string tsv;
  const auto rows =
      Written(Predicted(ProblemType::kMultiLabel, 3, {1, -1, 2, -1, -1, -1}),
              Named(ProblemType::kMultiLabel, {"a", "b", "c"}), &tsv);
  EXPECT_EQ(rows[0]["prediction"], json({"a", "c"}));
  EXPECT_EQ(rows[1]["prediction"], json::array());
  EXPECT_NEAR(rows[0]["scores"]["b"], 1 / (1 + std::exp(1.0)), 1e-12);
  EXPECT_EQ(tsv, "index\tprediction\n0\ta,c\n1\t\n");
}

TEST(ConfusionMatrixJsonTest, RowsAreTrueLabels) {
  auto p = Predicted(ProblemType::kSingleLabel, 2, {1, 0, 0, 1, 0, 1});
  p.truth = {0, 0, 1};
  const json matrix = json::parse(
      ConfusionMatrixJson(p, Named(ProblemType::kSingleLabel, {"n", "y"})));
  EXPECT_EQ(matrix["labels"], json({"n", "y"}));
  EXPECT_EQ(matrix["matrix"], json({{1, 1}, {0, 1}}));
}

// Of ImageNet-21k's labels it would be a gigabyte.
TEST(ConfusionMatrixJsonTest, TooManyLabelsHaveNone) {
  for (const int64_t count : {1000, 1001, 21'843}) {
    std::vector<std::string> names;
    for (int64_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
    auto p = Predicted(ProblemType::kSingleLabel, count,
                       std::vector<float>(static_cast<size_t>(count)));
    p.truth = {7};
    const std::string matrix =
        ConfusionMatrixJson(p, Named(ProblemType::kSingleLabel, names));
    EXPECT_EQ(matrix.empty(), count > 1000) << count;
    EXPECT_LT(matrix.size(), size_t{4} << 20) << "a message of the API";
  }
}

TEST(ConfusionMatrixJsonTest, ARegressionHasNone) {
  EXPECT_EQ(ConfusionMatrixJson(Predicted(ProblemType::kRegression, 1, {1}),
                                Named(ProblemType::kRegression, {"LABEL_0"})),
            "");
}

}  // namespace
}  // namespace mpsd::train
