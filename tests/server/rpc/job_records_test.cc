// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/records.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/ended_jobs.h"
#include "server/store/job_store.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/server/store/scratch.h"

namespace mpsd::records {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class JobRecordsTest : public testing::Test {
 protected:
  JobRecordsTest() {
    JobRecords::Options options;
    options.mounts = [this] {
      ++looks_;
      return std::vector<host::Mount>{{"/", "ext4", "/dev/sda1"}};
    };
    options.log = [this](const std::string& line) { log_.push_back(line); };
    records_ = std::make_unique<JobRecords>(
        std::move(options),
        JobRecords::Dependencies{past_, jobs_, files_, watch_, clock_});
  }
  jobs::Job Insert(jobs::State state) {
    jobs::Job job = jobs::QueuedJob(1);
    job.owner = "ada";
    EXPECT_TRUE(jobs_.Insert(job, jobs::StateEvent(job, 1)).ok());
    if (state == jobs::State::kQueued) return job;
    job.state = jobs::State::kRunning;
    EXPECT_TRUE(jobs_.Update(job, {}).ok());
    jobs::StartedJob started;
    started.id = job.id;
    started.queue_wait = absl::Seconds(3);
    watch_.JobStarted(started);
    if (state == jobs::State::kRunning) return job;
    watch_.WorkerExited(jobs::ExitReason::kDone);
    job.state = state;
    job.end_time = clock_.Now();
    EXPECT_TRUE(jobs_.Update(job, {}).ok());
    return job;
  }

  void Execute(const std::string& sql) {
    store::Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec(sql);
  }

  int looks_ = 0;
  std::vector<std::string> log_;
  store::Scratch scratch_;
  std::unique_ptr<store::Database> database_ =
      store::OpenOrDie(scratch_.file());
  jobs::JobStore jobs_{*database_};
  jobs::PastJobs past_{*database_};
  fakes::FakeClock clock_;
  fakes::FakeJobFiles files_;
  fakes::FakeExportedMetrics metrics_;
  RunWatch watch_{{}, metrics_, clock_};
  std::unique_ptr<JobRecords> records_;
};

TEST_F(JobRecordsTest, AJobThatRunsHasARecordAlready) {
  const jobs::Job job = Insert(jobs::State::kRunning);
  const auto record = records_->Get(job.id);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->state(), v1::JOB_STATE_RUNNING);
  ASSERT_THAT(record->attempts(), SizeIs(1));
  EXPECT_EQ(record->attempts(0).exit_reason(), "");
  EXPECT_EQ(record->environment().file_systems().at("state"), "ext4");
  EXPECT_FALSE(record->has_end_time());
}

TEST_F(JobRecordsTest, TheFileSystemsOfAnAttemptAreLookedAtOnce) {
  const jobs::Job job = Insert(jobs::State::kRunning);
  for (int i = 0; i < 3; ++i) {
    clock_.Advance(absl::Minutes(1));
    watch_.HostRead({});
    EXPECT_GT(records_->Tend(), clock_.Now());
  }
  EXPECT_EQ(looks_, 1);
  ASSERT_THAT(*past_.Attempts(job.id), SizeIs(1));
}

TEST_F(JobRecordsTest, WhatIsKeptIsTheRecordOfTheDeletedJob) {
  const jobs::Job job = Insert(jobs::State::kFailed);
  ASSERT_TRUE(past_.Tag(job.id, {"baseline"}, {}).ok());
  ASSERT_TRUE(past_.AddNote(job.id, {clock_.Now(), "eve", "a\nb"}).ok());
  ASSERT_TRUE(records_->Keep(job.id).ok());
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  const auto record = records_->Get(job.id);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->owner(), "ada");
  EXPECT_EQ(record->state(), v1::JOB_STATE_FAILED);
  EXPECT_DOUBLE_EQ(record->durations().queue_seconds(), 3);
  ASSERT_THAT(record->attempts(), SizeIs(1));
  EXPECT_EQ(record->attempts(0).exit_reason(), "Done");
  EXPECT_THAT(record->tags(), ElementsAre("baseline"));
  ASSERT_THAT(record->notes(), SizeIs(1));
  EXPECT_EQ(record->notes(0).text(), "a\nb");
  EXPECT_EQ(record->notes(0).author(), "eve");
  jobs::ListFilter filter;
  filter.text = "JOB 1";
  EXPECT_EQ(*past_.Count(filter), 1);
  EXPECT_TRUE(absl::IsNotFound(records_->Get(jobs::QueuedJob(2).id).status()));
}

TEST_F(JobRecordsTest, ARowThatCannotBeReadLeavesItsOwnerAndTheFault) {
  const jobs::Job job = Insert(jobs::State::kFailed);
  Execute("UPDATE jobs SET warnings = 'no JSON'");
  ASSERT_TRUE(absl::IsDataLoss(jobs_.Get(job.id).status()));
  ASSERT_TRUE(records_->Keep(job.id).ok());
  ASSERT_TRUE(jobs_.Delete(job.id).ok());
  const auto record = records_->Get(job.id);
  ASSERT_TRUE(record.ok()) << record.status();
  EXPECT_EQ(record->owner(), "ada");
  EXPECT_NE(record->message(), "");
}

TEST_F(JobRecordsTest, AFaultIsLoggedOnceAndNothingIsLost) {
  const jobs::Job job = Insert(jobs::State::kFailed);
  Execute(
      "CREATE TRIGGER fault BEFORE INSERT ON run_attempts "
      "BEGIN SELECT RAISE(ABORT, 'no room'); END");
  records_->Tend();
  records_->Tend();
  EXPECT_THAT(log_, ElementsAre(testing::HasSubstr("no room")));
  EXPECT_FALSE(records_->Keep(job.id).ok());
  Execute("DROP TRIGGER fault");
  ASSERT_TRUE(records_->Keep(job.id).ok());
  EXPECT_THAT(records_->Get(job.id)->attempts(), SizeIs(1));
}

}  // namespace
}  // namespace mpsd::records
