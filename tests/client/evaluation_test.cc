// SPDX-License-Identifier: Apache-2.0
#include "client/evaluation.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

namespace mpsd::client {
namespace {

std::string Metrics(const v1::Job& job) {
  std::ostringstream out;
  PrintMetrics(job, out);
  return out.str();
}

std::string Matrix(const std::string& json) {
  std::ostringstream out;
  PrintConfusionMatrix(json, out);
  return out.str();
}

TEST(Metrics, InALine) {
  MetricMap metrics;
  EXPECT_EQ(MetricsText(metrics), "");
  metrics["pearson"] = std::nan("");
  metrics["accuracy"] = 0.875;
  EXPECT_EQ(MetricsText(metrics), "accuracy 0.8750, pearson nan");
}

TEST(Metrics, BesideThoseOfTheBestEvaluation) {
  v1::Job job;
  EXPECT_EQ(Metrics(job), "");
  job.set_state(v1::JOB_STATE_RUNNING);
  (*job.mutable_metrics())["f1"] = 0.5;
  (*job.mutable_metrics())["accuracy"] = 0.25;
  EXPECT_EQ(Metrics(job),
            "  metric    latest\n"
            "  accuracy  0.2500\n"
            "  f1        0.5000\n");
  job.mutable_best_evaluation()->set_step(40);
  (*job.mutable_best_evaluation()->mutable_metrics())["f1"] = 0.75;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Metrics(job),
            "  metric     final  best, at step 40\n"
            "  accuracy  0.2500                 -\n"
            "  f1        0.5000            0.7500\n");
}

TEST(ConfusionMatrix, TrueDownPredictedAcross) {
  EXPECT_EQ(Matrix(R"({"labels": ["négatif", "positif"],
                       "matrix": [[120, 3], [4, 5]]})"),
            "  true \\ predicted  négatif  positif\n"
            "  négatif               120        3\n"
            "  positif                 4        5\n");
}

TEST(ConfusionMatrix, LabelsDoNotSteerTheTerminal) {
  const std::string text =
      Matrix(R"({"labels": ["\u001b[2J"], "matrix": [[1]]})");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("[2J"), std::string::npos);
}

TEST(ConfusionMatrix, NothingForWhatIsNone) {
  for (const char* json : {"", "x", "[]", R"({"labels": [], "matrix": []})",
                           R"({"labels": ["a"], "matrix": [[1, 2]]})",
                           R"({"labels": ["a", "b"], "matrix": [[1, 2]]})",
                           R"({"labels": "a", "matrix": [[1]]})"}) {
    EXPECT_EQ(Matrix(json), "") << json;
  }
}

}  // namespace
}  // namespace mpsd::client
