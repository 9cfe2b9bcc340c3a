// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_row.h"

#include <memory>
#include <string>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

// Every member with a value of its own, so that two swapped columns show.
jobs::Job FullJob() {
  jobs::Job job = QueuedJob(1);
  job.name = "name";
  job.state = jobs::State::kQueued;
  job.cancel_requested = true;
  job.owner = "owner";
  job.labels = {{"a", "1"}, {"b", ""}};
  job.priority = -5;
  job.create_time = absl::FromUnixMicros(11);
  job.start_time = absl::FromUnixMicros(12);
  job.end_time = absl::FromUnixMicros(13);
  job.not_before = absl::FromUnixMicros(14);
  job.attempt = 3;
  job.failures = 2;
  job.message = "message";
  job.exit_reason = jobs::ExitReason::kHung;
  job.progress.emplace().step = 21;
  job.eval_loss_before = 0.1;
  job.eval_loss_after = 0.2;
  job.train_loss = 0.3;
  job.output_path = "/adapter";
  job.spec_json = "{}";
  job.output_kind = jobs::OutputKind::kModel;
  job.metrics = {{"f1", 0.5}, {"accuracy", 0.25}};
  job.best_evaluation = {8, 1.5, 0, 0, {{"f1", 0.75}}};
  job.confusion_matrix = R"({"labels":["a"],"matrix":[[1]]})";
  job.warnings = {"one", "two"};
  job.interruptions = 4;
  job.behind = true;
  job.boot_id = "boot";
  job.durable_step = 31;
  job.advanced = true;
  job.memory_bytes = 41;
  job.checkpoint_bytes = 42;
  job.device_time = absl::Microseconds(43);
  job.held = true;
  job.hold_reason = "waits for the data";
  job.place = -44;
  job.among_all = true;
  job.ticket = "01J00000000000000000000007";
  job.fresh = true;
  job.after = {"a", "b"};
  job.model = "org/model";
  job.study_json = R"({"rows":7})";
  job.idempotency_key = "key";
  job.request_hash = "hash";
  return job;
}

void ExpectSame(const jobs::Job& a, const jobs::Job& b) {
  EXPECT_EQ(a.id, b.id);
  EXPECT_EQ(a.kind, b.kind);
  EXPECT_EQ(a.study_json, b.study_json);
  EXPECT_EQ(a.name, b.name);
  EXPECT_EQ(a.state, b.state);
  EXPECT_EQ(a.cancel_requested, b.cancel_requested);
  EXPECT_EQ(a.owner, b.owner);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.priority, b.priority);
  EXPECT_EQ(a.create_time, b.create_time);
  EXPECT_EQ(a.start_time, b.start_time);
  EXPECT_EQ(a.end_time, b.end_time);
  EXPECT_EQ(a.not_before, b.not_before);
  EXPECT_EQ(a.attempt, b.attempt);
  EXPECT_EQ(a.failures, b.failures);
  EXPECT_EQ(a.message, b.message);
  EXPECT_EQ(a.exit_reason, b.exit_reason);
  EXPECT_EQ(a.progress.has_value(), b.progress.has_value());
  if (a.progress && b.progress) {
    EXPECT_EQ(a.progress->step, b.progress->step);
  }
  EXPECT_EQ(a.eval_loss_before, b.eval_loss_before);
  EXPECT_EQ(a.eval_loss_after, b.eval_loss_after);
  EXPECT_EQ(a.train_loss, b.train_loss);
  EXPECT_EQ(a.output_path, b.output_path);
  EXPECT_EQ(a.spec_json, b.spec_json);
  EXPECT_EQ(a.output_kind, b.output_kind);
  EXPECT_EQ(a.metrics, b.metrics);
  ASSERT_EQ(a.best_evaluation.has_value(), b.best_evaluation.has_value());
  if (a.best_evaluation && b.best_evaluation) {
    EXPECT_EQ(a.best_evaluation->step, b.best_evaluation->step);
    EXPECT_EQ(a.best_evaluation->eval_loss, b.best_evaluation->eval_loss);
    EXPECT_EQ(a.best_evaluation->metrics, b.best_evaluation->metrics);
  }
  EXPECT_EQ(a.confusion_matrix, b.confusion_matrix);
  EXPECT_EQ(a.warnings, b.warnings);
  EXPECT_EQ(a.interruptions, b.interruptions);
  EXPECT_EQ(a.behind, b.behind);
  EXPECT_EQ(a.boot_id, b.boot_id);
  EXPECT_EQ(a.durable_step, b.durable_step);
  EXPECT_EQ(a.advanced, b.advanced);
  EXPECT_EQ(a.memory_bytes, b.memory_bytes);
  EXPECT_EQ(a.checkpoint_bytes, b.checkpoint_bytes);
  EXPECT_EQ(a.device_time, b.device_time);
  EXPECT_EQ(a.held, b.held);
  EXPECT_EQ(a.hold_reason, b.hold_reason);
  EXPECT_EQ(a.place, b.place);
  EXPECT_EQ(a.among_all, b.among_all);
  EXPECT_EQ(a.ticket, b.ticket);
  EXPECT_EQ(a.fresh, b.fresh);
  EXPECT_EQ(a.after, b.after);
  EXPECT_EQ(a.model, b.model);
  EXPECT_EQ(a.idempotency_key, b.idempotency_key);
  EXPECT_EQ(a.request_hash, b.request_hash);
}

class JobRowTest : public testing::Test {
 protected:
  jobs::Job StoredAs(const jobs::Job& job) {
    absl::Status inserted = store_.Insert(job, StateEvent(job, 1));
    EXPECT_TRUE(inserted.ok()) << inserted;
    auto read = store_.Get(job.id);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.ok() ? *read : jobs::Job();
  }
  void Corrupt(const std::string& sql) {
    Connection& c = database_->writer();
    absl::MutexLock lock(&c.mutex());
    c.database().exec("PRAGMA ignore_check_constraints = ON; " + sql);
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  SqliteJobStore store_{*database_};
};

TEST_F(JobRowTest, EveryMemberComesBack) {
  ExpectSame(StoredAs(FullJob()), FullJob());
}

TEST_F(JobRowTest, AbsentMembersStayAbsent) {
  ExpectSame(StoredAs(QueuedJob(7)), QueuedJob(7));
}

TEST_F(JobRowTest, EveryExitReasonComesBack) {
  int number = 0;
  for (jobs::ExitReason reason : jobs::kAllExitReasons) {
    jobs::Job job = QueuedJob(++number);
    job.exit_reason = reason;
    EXPECT_EQ(StoredAs(job).exit_reason, reason) << jobs::Name(reason);
  }
}

TEST_F(JobRowTest, UnknownValuesAreDataLossNamingTheJob) {
  const jobs::Job job = FullJob();
  StoredAs(job);
  for (const char* sql :
       {"UPDATE jobs SET exit_reason = 'Bored'",
        "UPDATE jobs SET exit_reason = NULL, progress = 'x'",
        "UPDATE jobs SET progress = NULL, metrics = '[]'",
        "UPDATE jobs SET metrics = '{}', best_evaluation = '{\"step\": []}'",
        "UPDATE jobs SET best_evaluation = NULL, output_kind = 9",
        "UPDATE jobs SET output_kind = 1, warnings = '{}'",
        "UPDATE jobs SET warnings = '[]', kind = 99"}) {
    Corrupt(sql);
    EXPECT_EQ(store_.Get(job.id).status().code(), absl::StatusCode::kDataLoss)
        << sql;
  }
  Corrupt(
      "DROP TRIGGER jobs_transition; "
      "UPDATE jobs SET kind = 1, state = 9");
  const absl::Status status = store_.Get(job.id).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr(job.id));
}

}  // namespace
}  // namespace mpsd::store
