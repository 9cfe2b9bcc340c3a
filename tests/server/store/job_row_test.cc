// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_row.h"

#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/sqlite_job_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

// --- event body --------------------------------------------------------------

using Warnings = std::vector<std::string>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

jobs::Progress SomeProgress() {
  jobs::Progress progress;
  progress.step = 3;
  progress.total_steps = 9;
  progress.epoch = 0.5;
  progress.loss = 1.0 / 3.0;
  progress.learning_rate = 1e-4;
  progress.grad_norm = 2;
  progress.tokens = 100;
  progress.label_tokens = 60;
  progress.seconds = 0.25;
  progress.padding_ratio = 0.125;
  progress.data_wait_ratio = 0.5;
  progress.tokens_per_second = 400;
  progress.eta_seconds = 1.5;
  progress.device = "mps";
  progress.memory.current_allocated_bytes = 1;
  progress.memory.driver_allocated_bytes = 2;
  progress.memory.recommended_max_bytes = 3;
  progress.memory.footprint_bytes = 1LL << 40;
  progress.memory.peak_allocated_bytes = 5;
  progress.cpu_fallback_ops = {{"aten::a", 2}};
  return progress;
}

TEST(EventBody, EveryKindComesBackAsWritten) {
  const EventBody bodies[] = {
      jobs::StateChanged{jobs::State::kFailed, "line 1\nline \"2\""},
      SomeProgress(),
      jobs::Evaluated{5, 2.25, 9, 0.5, {{"f1", 0.5}, {"a", kNan}}},
      jobs::Checkpoint{{5, "/c/5", 77, 0.5}, absl::FromUnixMicros(123456789)},
      jobs::Note{"loading"}};
  int kind = 0;
  for (const EventBody& body : bodies) {
    EXPECT_EQ(KindOf(body), ++kind);
    const std::string text = EncodeBody(body);
    auto decoded = DecodeBody(kind, text);
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_EQ(decoded->index(), body.index());
    EXPECT_EQ(EncodeBody(*decoded), text);
  }
  EXPECT_EQ(KindOf(bodies[1]), kProgressKind);
}

TEST(EventBody, ProgressKeepsItsMembers) {
  auto progress = DecodeColumn<jobs::Progress>(EncodeColumn(SomeProgress()));
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->step, 3);
  EXPECT_EQ(progress->loss, 1.0 / 3.0);
  EXPECT_EQ(progress->device, "mps");
  EXPECT_EQ(progress->padding_ratio, 0.125);
  EXPECT_EQ(progress->data_wait_ratio, 0.5);
  EXPECT_EQ(progress->memory.footprint_bytes, 1LL << 40);
  EXPECT_EQ(progress->memory.peak_allocated_bytes, 5);
  EXPECT_EQ(progress->cpu_fallback_ops, SomeProgress().cpu_fallback_ops);
}

// To the byte, as the rows of every release.
TEST(EventBody, BodiesAreThoseOfTheFirstRelease) {
  EXPECT_EQ(
      EncodeColumn(SomeProgress()),
      R"({"step":3,"total_steps":9,"epoch":0.5,"loss":0.3333333333333333,)"
      R"("learning_rate":0.0001,"grad_norm":2.0,"tokens":100,)"
      R"("label_tokens":60,"step_seconds":0.25,"padding_ratio":0.125,)"
      R"("data_wait_ratio":0.5,"tokens_per_second":400.0,"eta_seconds":1.5,)"
      R"("device":"mps","current_allocated_bytes":1,)"
      R"("driver_allocated_bytes":2,"recommended_max_bytes":3,)"
      R"("footprint_bytes":1099511627776,"peak_allocated_bytes":5,)"
      R"("cpu_fallback_ops":{"aten::a":2}})");
  EXPECT_EQ(EncodeBody(jobs::StateChanged{jobs::State::kFailed, "why"}),
            R"({"state":4,"message":"why"})");
  EXPECT_EQ(EncodeBody(jobs::Evaluated{5, 2.25, 9, 0.5, {{"f1", kNan}}, true}),
            R"({"step":5,"eval_loss":2.25,"metrics":{"f1":null}})");
  EXPECT_EQ(EncodeBody(jobs::Checkpoint{{5, "/c/5", 77, 0.5},
                                        absl::FromUnixMicros(123456789)}),
            R"({"step":5,"path":"/c/5","size_bytes":77,"seconds":0.5,)"
            R"("create_time_us":123456789})");
}

TEST(EventBody, AWarningIsANoteThatSaysSo) {
  const std::string text = EncodeBody(jobs::Note{"memory grows", true});
  EXPECT_EQ(text, R"({"text":"memory grows","is_warning":true})");
  auto note = DecodeBody(5, text);
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_TRUE(std::get<jobs::Note>(*note).is_warning);
  // As before there were warnings, and as what is none is still written.
  note = DecodeBody(5, R"({"text":"loading"})");
  ASSERT_TRUE(note.ok()) << note.status();
  EXPECT_FALSE(std::get<jobs::Note>(*note).is_warning);
  EXPECT_EQ(EncodeBody(*note), R"({"text":"loading"})");
}

TEST(EventBody, WarningsAreAList) {
  const std::vector<std::string> warnings = {"a \"b\"", "cut \xc3"};
  auto decoded = DecodeColumn<Warnings>(EncodeColumn(warnings));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, (std::vector<std::string>{"a \"b\"", "cut \uFFFD"}));
  EXPECT_TRUE(DecodeColumn<Warnings>(EncodeColumn(Warnings{}))->empty());
  for (const char* text : {"", "{}", "[1]", "[\"a\""}) {
    EXPECT_EQ(DecodeColumn<Warnings>(text).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(EventBody, MetricsKeepTheirOrder) {
  const jobs::Metrics metrics = {{"spearmanr", 0.5}, {"pearson", kNan}};
  EXPECT_EQ(EncodeColumn(metrics), R"({"spearmanr":0.5,"pearson":null})");
  auto decoded = DecodeColumn<jobs::Metrics>(EncodeColumn(metrics));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  ASSERT_EQ(decoded->size(), 2u);
  EXPECT_EQ((*decoded)[0], metrics[0]);
  EXPECT_TRUE(std::isnan((*decoded)[1].second));
  auto evaluated =
      DecodeColumn<jobs::Evaluated>(R"({"step": 3, "eval_loss": 2})");
  ASSERT_TRUE(evaluated.ok()) << evaluated.status();
  EXPECT_TRUE(evaluated->metrics.empty());
  for (const char* text : {"", "[]", R"({"f1": "good"})"}) {
    EXPECT_EQ(DecodeColumn<jobs::Metrics>(text).status().code(),
              absl::StatusCode::kDataLoss);
  }
}

TEST(EventBody, ANonFiniteLossIsNan) {
  jobs::Progress progress = SomeProgress();
  for (double loss : {kNan, HUGE_VAL, -HUGE_VAL}) {
    progress.loss = loss;
    auto decoded = DecodeColumn<jobs::Progress>(EncodeColumn(progress));
    ASSERT_TRUE(decoded.ok()) << decoded.status();
    EXPECT_TRUE(std::isnan(decoded->loss));
  }
}

TEST(EventBody, OldRowsReadWithDefaults) {
  auto progress =
      DecodeColumn<jobs::Progress>(R"({"step": 4, "gone_member": 1})");
  ASSERT_TRUE(progress.ok()) << progress.status();
  EXPECT_EQ(progress->step, 4);
  EXPECT_EQ(progress->tokens, 0);
  EXPECT_FALSE(progress->memory.footprint_bytes.has_value());
  EXPECT_FALSE(progress->padding_ratio.has_value());
}

TEST(EventBody, WhatItDidNotWriteIsDataLoss) {
  for (const char* text : {"", "[]", "{\"step\": \"4\"}", "{\"loss\": true}",
                           "{\"footprint_bytes\": 0.5}"}) {
    EXPECT_EQ(DecodeBody(2, text).status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
  for (const char* text : {R"({"state": 9})", R"({"message": "no state"})"}) {
    EXPECT_EQ(DecodeBody(1, text).status().code(), absl::StatusCode::kDataLoss)
        << text;
  }
  EXPECT_EQ(DecodeBody(6, "{}").status().code(), absl::StatusCode::kDataLoss);
}

// --- job row -----------------------------------------------------------------

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
