// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/logbook.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/logbook/make_record.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/fake_job_store.h"
#include "tests/server/logbook/fake_record_store.h"

namespace mpsd::logbook {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class LogbookTest : public testing::Test {
 protected:
  LogbookTest() {
    Logbook::Options options;
    options.version = "0.1.0";
    options.most_records = 5;
    options.log = [this](const std::string& line) { log_.push_back(line); };
    logbook_ = std::make_unique<Logbook>(
        std::move(options),
        Logbook::Dependencies{store_, jobs_, files_, watch_, clock_});
  }
  void EndJob(const std::string& id,
              jobs::State state = jobs::State::kSucceeded) {
    jobs::Job job;
    job.id = id;
    job.owner = "ada";
    job.state = state;
    job.create_time = clock_.Now();
    EXPECT_TRUE(
        jobs_.Insert(job, {id, 1, clock_.Now(), jobs::StateChanged{state, ""}})
            .ok());
    store_.End(id);
  }
  v1::Record Get(const std::string& id) {
    const auto stored = store_.Get(id);
    EXPECT_TRUE(stored.ok()) << id;
    return stored.ok() ? FromRow(*stored) : v1::Record();
  }

  std::vector<std::string> log_;
  fakes::FakeClock clock_;
  fakes::FakeJobStore jobs_;
  fakes::FakeJobFiles files_;
  fakes::FakeExportedMetrics metrics_;
  RunWatch watch_{{}, metrics_, clock_};
  FakeRecordStore store_;
  std::unique_ptr<Logbook> logbook_;
};

TEST_F(LogbookTest, WritesEachRecordOnce) {
  EndJob("A");
  EndJob("B", jobs::State::kCancelled);
  EXPECT_GT(logbook_->Tend(), clock_.Now());
  EXPECT_EQ(Get("A").owner(), "ada");
  EXPECT_EQ(Get("B").state(), v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(store_.unwritten(), IsEmpty());
  EXPECT_EQ(Get("A").environment().daemon_version(), "0.1.0");
}

TEST_F(LogbookTest, WhatWasSeenOfTheRunIsInTheRecord) {
  jobs::StartedJob started;
  started.id = "A";
  started.queue_wait = absl::Seconds(3);
  watch_.JobStarted(started);
  watch_.WorkerExited(jobs::ExitReason::kDone);
  EndJob("A");
  ASSERT_TRUE(logbook_->WriteRecord("A").ok());
  const v1::Record record = Get("A");
  EXPECT_DOUBLE_EQ(record.durations().queue_seconds(), 3);
  ASSERT_THAT(record.attempts(), SizeIs(1));
  EXPECT_EQ(record.attempts(0).exit_reason(), "Done");
}

TEST_F(LogbookTest, AManyEndsNeedSeveralLooks) {
  for (int i = 0; i < 60; ++i) EndJob(absl::StrCat("J", i));
  EXPECT_EQ(logbook_->Tend(), clock_.Now());
  EXPECT_GT(logbook_->Tend(), clock_.Now());
  EXPECT_THAT(store_.unwritten(), IsEmpty());
}

TEST_F(LogbookTest, ADeletedOrReturnedJobIsForgotten) {
  store_.End("GONE");
  EndJob("BACK", jobs::State::kQueued);
  logbook_->Tend();
  EXPECT_THAT(store_.unwritten(), IsEmpty());
  EXPECT_TRUE(absl::IsNotFound(store_.Get("GONE").status()));
  EXPECT_TRUE(absl::IsNotFound(store_.Get("BACK").status()));
}

TEST_F(LogbookTest, AFullDiskIsWaitedFor) {
  jobs::StartedJob started;
  started.id = "A";
  watch_.JobStarted(started);
  watch_.WorkerExited(jobs::ExitReason::kDone);
  EndJob("A");
  store_.Fail(absl::ResourceExhaustedError("the disk is full"));
  logbook_->Tend();
  logbook_->Tend();
  EXPECT_THAT(store_.unwritten(), SizeIs(1));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("the disk is full")));
  EXPECT_TRUE(absl::IsResourceExhausted(logbook_->WriteRecord("A")));
  store_.Fail(absl::OkStatus());
  logbook_->Tend();
  EXPECT_THAT(Get("A").attempts(), SizeIs(1));
}

TEST_F(LogbookTest, ARecordThatCannotBeWrittenHoldsUpNoOther) {
  EndJob("A");
  store_.Fail(absl::InternalError("no"));
  logbook_->Tend();
  store_.Fail(absl::OkStatus());
  EndJob("B");
  logbook_->Tend();
  EXPECT_TRUE(store_.Get("B").ok());
  // The next mpsd tries again; so does who asks for this one.
  EXPECT_THAT(store_.unwritten(), SizeIs(1));
  EXPECT_TRUE(logbook_->WriteRecord("A").ok());
  EXPECT_TRUE(store_.Get("A").ok());
}

TEST_F(LogbookTest, ANoteMayComeBeforeTheRecordIsWritten) {
  EndJob("A");
  ASSERT_TRUE(logbook_->Add("A", "eve", "accepted: within noise").ok());
  const v1::Record record = Get("A");
  ASSERT_THAT(record.notes(), SizeIs(1));
  EXPECT_EQ(record.notes(0).author(), "eve");
  EXPECT_TRUE(absl::IsNotFound(logbook_->Add("NONE", "eve", "x")));
}

TEST_F(LogbookTest, AnEntryHasItsNoteFromTheFirst) {
  const auto id = logbook_->AddEntry("eve", "bf16 is not the cause", true);
  ASSERT_TRUE(id.ok());
  const v1::Record entry = Get(*id);
  EXPECT_EQ(entry.owner(), "eve");
  EXPECT_EQ(entry.kind(), v1::JOB_KIND_UNSPECIFIED);
  ASSERT_THAT(entry.notes(), SizeIs(1));
  EXPECT_TRUE(entry.notes(0).rejected());
  EXPECT_NE(*logbook_->AddEntry("eve", "another", false), *id);
}

TEST_F(LogbookTest, KeepsTheLatestRecords) {
  for (int i = 0; i < 9; ++i) EndJob(absl::StrCat("J", i));
  logbook_->Tend();
  EXPECT_THAT(*store_.Search({}), SizeIs(5));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("removed 4 records")));
}

}  // namespace
}  // namespace mpsd::logbook
