// SPDX-License-Identifier: Apache-2.0
#include "client/runbook_steps.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::client {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RunbookSteps, APlansFigures) {
  v1::Plan plan;
  plan.mutable_data()->mutable_train()->set_rows(1234);
  plan.mutable_steps()->set_total_steps(77);
  plan.mutable_memory()->set_peak_bytes(3'000'000'000);
  plan.mutable_memory()->set_source(v1::PLAN_SOURCE_PROBE);
  const auto lines = PlanLines(plan);
  EXPECT_THAT(lines, Contains(HasSubstr("1,234 rows")));
  EXPECT_THAT(lines, Contains(HasSubstr("77 steps")));
  EXPECT_THAT(lines, Contains(HasSubstr("2.79 GiB (as a probe measured).")));
  EXPECT_EQ(lines.size(), 2u) << "a time that nobody knows is not there";
  plan.mutable_time()->set_total_seconds(90);
  plan.mutable_time()->set_source(v1::PLAN_SOURCE_ROOFLINE);
  EXPECT_THAT(PlanLines(plan),
              Contains(HasSubstr("1m30s (by the chip's rates)")));
}

TEST(RunbookSteps, AStudysFiguresAndItsChart) {
  v1::StudyResult sweep;
  sweep.mutable_batch_sweep()->set_knee_batch(8);
  v1::BatchPoint& point = *sweep.mutable_batch_sweep()->add_points();
  point.set_batch(16);
  point.set_why_not("out of memory");
  EXPECT_THAT(StudyLines(sweep), Contains(HasSubstr("the knee 8")));
  EXPECT_THAT(StudyLines(sweep), Contains(HasSubstr("that fits is not found")));
  EXPECT_THAT(StudyChart(sweep), HasSubstr("<svg"));
  v1::StudyResult smoke;
  smoke.mutable_smoke()->set_memory_growth(0.125);
  smoke.mutable_smoke()->mutable_step_seconds()->set_median(0.0021);
  EXPECT_THAT(StudyLines(smoke), Contains(HasSubstr("12.5 %")));
  EXPECT_THAT(StudyLines(smoke), Contains(HasSubstr("took 0.0021 s.")));
  EXPECT_THAT(StudyChart(smoke), HasSubstr("<svg"));
  v1::StudyResult parity;
  parity.mutable_parity()->set_device("mps");
  EXPECT_EQ(StudyChart(parity), "");
  EXPECT_THAT(StudyLines({}), IsEmpty());
}

TEST(RunbookSteps, TheSweepsBatchesAreATableThatNamesTheKnee) {
  v1::StudyResult result;
  v1::BatchSweepResult& sweep = *result.mutable_batch_sweep();
  sweep.set_job_batch(1);
  sweep.set_knee_batch(2);
  sweep.set_largest_batch(2);
  for (const int batch : {1, 2}) {
    v1::BatchPoint& point = *sweep.add_points();
    point.set_batch(batch);
    point.set_fits(true);
    point.set_tokens_per_second(1500 * batch);
    point.set_rows_per_second(20.25 * batch);
    point.set_peak_bytes(batch * 1'000'000'000LL);
    point.mutable_step_seconds()->set_median(0.125);
  }
  v1::BatchPoint& miss = *sweep.add_points();
  miss.set_batch(4);
  miss.set_predicted(true);
  miss.set_peak_bytes(4'000'000'000);
  miss.set_why_not("would need more");
  const StepTable table = StudyTable(result);
  EXPECT_THAT(table.header, ElementsAre("batch", "a step", "tokens a second",
                                        "rows a second", "memory", ""));
  EXPECT_THAT(
      table.rows,
      ElementsAre(
          ElementsAre("1", "0.125 s", "1,500", "20.25", "1.0 GB", "the job's"),
          ElementsAre("2", "0.125 s", "3,000", "40.5", "2.0 GB",
                      "knee, largest"),
          ElementsAre("4", "-", "-", "-", "~4.0 GB", "would need more")));
  EXPECT_THAT(StudyTable({}).rows, IsEmpty());
}

TEST(RunbookSteps, TwoPointsMakeASweepAndACurve) {
  v1::Runbook runbook;
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(HasBatches(runbook));
    EXPECT_FALSE(HasMemoryCurve(runbook));
    runbook.mutable_batch_sweep()->mutable_batch_sweep()->add_points();
    runbook.mutable_smoke()->mutable_smoke()->add_epochs();
  }
  EXPECT_TRUE(HasBatches(runbook));
  EXPECT_TRUE(HasMemoryCurve(runbook));
}

}  // namespace
}  // namespace mpsd::client
