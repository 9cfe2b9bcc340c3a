// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "server/jobs/exported_metrics.h"

namespace mpsd::jobs {
namespace {

StartedJob Describe(const spec::TrainSpec& spec) {
  Job job;
  job.id = "J1";
  job.name = "night run";
  job.owner = "ada";
  job.start_time = absl::UnixEpoch() + absl::Seconds(5);
  return DescribeStart(job, spec, absl::UnixEpoch());
}

TEST(StartedJob, HasTheWordsOfTheJob) {
  spec::TrainSpec spec;
  spec.task = spec::Task::kSeqCls;
  const StartedJob job = Describe(spec);
  EXPECT_EQ(job.id, "J1");
  EXPECT_EQ(job.name, "night run");
  EXPECT_EQ(job.owner, "ada");
  EXPECT_EQ(job.task, "SEQ_CLS");
  EXPECT_EQ(job.queue_wait, absl::Seconds(5));
  EXPECT_EQ(job.time_left, std::nullopt);
}

TEST(StartedJob, TellsTheTimeLeftOfAJobThatRanBefore) {
  Job job;
  job.start_time = absl::UnixEpoch();
  job.durable_step = 4;
  job.progress.emplace();
  job.progress->step = 6;
  job.progress->total_steps = 8;
  job.progress->eta_seconds = 20;
  EXPECT_EQ(DescribeStart(job, {}, absl::UnixEpoch()).time_left,
            absl::Seconds(40));
}

// The folder's path says where somebody keeps things, its name what it is.
TEST(StartedJob, NamesTheModelByItsIdOrElseItsFolder) {
  spec::TrainSpec spec;
  EXPECT_EQ(Describe(spec).model, "");
  spec.model = "/models/tiny";
  EXPECT_EQ(Describe(spec).model, "tiny");
  spec.model += "/";
  EXPECT_EQ(Describe(spec).model, "tiny");
  spec.model_id = "org/tiny";
  EXPECT_EQ(Describe(spec).model, "org/tiny");
}

}  // namespace
}  // namespace mpsd::jobs
