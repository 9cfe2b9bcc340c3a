// SPDX-License-Identifier: Apache-2.0
#include "core/study/study_progress.h"

#include <gtest/gtest.h>

#include "tests/core/job_folder.h"

namespace mpsd::study {
namespace {

TEST(StudyProgress, StepsAreTheStudys) {
  testing_support::RecordingObserver observer;
  StudyProgress progress(observer, 5);
  report::Progress step;
  step.step = 1;
  step.total_steps = 1000;
  step.loss = 2;
  progress.Add(step);
  progress.Skip(2);
  progress.Add(step);
  ASSERT_EQ(observer.steps.size(), 2u);
  EXPECT_EQ(observer.steps[1].step, 4);
  EXPECT_EQ(observer.steps[1].total_steps, 5);
  EXPECT_EQ(observer.steps[1].loss, 2);
  progress.set_total_steps(1);
  progress.Add(step);
  EXPECT_EQ(observer.steps[2].total_steps, 5) << "no fewer than are done";
}

}  // namespace
}  // namespace mpsd::study
