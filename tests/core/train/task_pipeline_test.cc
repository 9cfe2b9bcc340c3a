// SPDX-License-Identifier: Apache-2.0
#include "core/train/task_pipeline.h"

#include <gtest/gtest.h>

#include "core/train/classification.h"
#include "core/train/language_modelling.h"
#include "tests/core/job_folder.h"

namespace mpsd::train {
namespace {

TEST(TaskPipelineTest, IsThatOfTheSpec) {
  spec::TrainSpec spec;
  auto lm = TaskPipeline::Make(spec);
  EXPECT_NE(dynamic_cast<LanguageModelling*>(lm.get()), nullptr);
  EXPECT_EQ(lm->class_labels(), nullptr);
  for (const spec::Task task : {spec::Task::kSeqCls, spec::Task::kImageCls}) {
    spec.task = task;
    auto classes = TaskPipeline::Make(spec);
    EXPECT_NE(dynamic_cast<Classification*>(classes.get()), nullptr);
    EXPECT_NE(classes->class_labels(), nullptr);
  }
}

}  // namespace
}  // namespace mpsd::train
