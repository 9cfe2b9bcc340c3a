// SPDX-License-Identifier: Apache-2.0
#include "core/spec/classification.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace mpsd::spec {
namespace {

TEST(GlueTask, EveryNameIsFound) {
  const auto names = GlueTaskNames();
  EXPECT_EQ(names.size(), 9);
  for (std::string_view name : names) {
    const GlueTask* task = FindGlueTask(name);
    ASSERT_NE(task, nullptr) << name;
    EXPECT_EQ(task->name, name);
    EXPECT_FALSE(task->metric_for_best_model.empty()) << name;
    // A regression has no names, a classification two at least.
    EXPECT_EQ(task->label_names.empty(),
              task->problem_type == ProblemType::kRegression)
        << name;
  }
  EXPECT_EQ(FindGlueTask("MRPC"), nullptr);
  EXPECT_EQ(FindGlueTask(""), nullptr);
}

TEST(GlueTask, MrpcIsLaidOutAsItsFilesAre) {
  const GlueTask* mrpc = FindGlueTask("mrpc");
  ASSERT_NE(mrpc, nullptr);
  EXPECT_EQ(mrpc->sentence1, "#1 String");
  EXPECT_EQ(mrpc->sentence2, "#2 String");
  EXPECT_EQ(mrpc->label, "Quality");
  EXPECT_EQ(mrpc->label_names[1], "equivalent");
}

TEST(ProblemType, HasTransformersNames) {
  EXPECT_EQ(ToString(ProblemType::kSingleLabel), "single_label_classification");
  EXPECT_EQ(ToString(ProblemType::kRegression), "regression");
  EXPECT_EQ(ToString(ProblemType::kMultiLabel), "multi_label_classification");
}

}  // namespace
}  // namespace mpsd::spec
