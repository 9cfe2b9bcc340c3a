// SPDX-License-Identifier: Apache-2.0
#include "server/store/job_row.h"

#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/status_matchers.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using enum absl::StatusCode;
using testing_support::Fails;
using testing_support::Ok;

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
    auto decoded = Ok(DecodeBody(kind, text));
    EXPECT_EQ(decoded.index(), body.index());
    EXPECT_EQ(EncodeBody(decoded), text);
  }
  EXPECT_EQ(KindOf(bodies[1]), kProgressKind);
}

TEST(EventBody, ProgressKeepsItsMembers) {
  auto progress =
      Ok(DecodeColumn<jobs::Progress>(EncodeColumn(SomeProgress())));
  EXPECT_EQ(progress.step, 3);
  EXPECT_EQ(progress.loss, 1.0 / 3.0);
  EXPECT_EQ(progress.device, "mps");
  EXPECT_EQ(progress.padding_ratio, 0.125);
  EXPECT_EQ(progress.data_wait_ratio, 0.5);
  EXPECT_EQ(progress.memory.footprint_bytes, 1LL << 40);
  EXPECT_EQ(progress.memory.peak_allocated_bytes, 5);
  EXPECT_EQ(progress.cpu_fallback_ops, SomeProgress().cpu_fallback_ops);
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
  auto decoded = Ok(DecodeColumn<Warnings>(EncodeColumn(warnings)));
  EXPECT_EQ(decoded, (std::vector<std::string>{"a \"b\"", "cut \uFFFD"}));
  EXPECT_TRUE(DecodeColumn<Warnings>(EncodeColumn(Warnings{}))->empty());
  for (const char* text : {"", "{}", "[1]", "[\"a\""}) {
    EXPECT_THAT(DecodeColumn<Warnings>(text), Fails(kDataLoss));
  }
}

TEST(EventBody, MetricsKeepTheirOrder) {
  const jobs::Metrics metrics = {{"spearmanr", 0.5}, {"pearson", kNan}};
  EXPECT_EQ(EncodeColumn(metrics), R"({"spearmanr":0.5,"pearson":null})");
  auto decoded = Ok(DecodeColumn<jobs::Metrics>(EncodeColumn(metrics)));
  ASSERT_EQ(decoded.size(), 2u);
  EXPECT_EQ(decoded[0], metrics[0]);
  EXPECT_TRUE(std::isnan(decoded[1].second));
  auto evaluated =
      Ok(DecodeColumn<jobs::Evaluated>(R"({"step": 3, "eval_loss": 2})"));
  EXPECT_TRUE(evaluated.metrics.empty());
  for (const char* text : {"", "[]", R"({"f1": "good"})"}) {
    EXPECT_THAT(DecodeColumn<jobs::Metrics>(text), Fails(kDataLoss));
  }
}

TEST(EventBody, ANonFiniteLossIsNan) {
  jobs::Progress progress = SomeProgress();
  for (double loss : {kNan, HUGE_VAL, -HUGE_VAL}) {
    progress.loss = loss;
    auto decoded = Ok(DecodeColumn<jobs::Progress>(EncodeColumn(progress)));
    EXPECT_TRUE(std::isnan(decoded.loss));
  }
}

TEST(EventBody, OldRowsReadWithDefaults) {
  auto progress =
      Ok(DecodeColumn<jobs::Progress>(R"({"step": 4, "gone_member": 1})"));
  EXPECT_EQ(progress.step, 4);
  EXPECT_EQ(progress.tokens, 0);
  EXPECT_FALSE(progress.memory.footprint_bytes.has_value());
  EXPECT_FALSE(progress.padding_ratio.has_value());
}

TEST(EventBody, WhatItDidNotWriteIsDataLoss) {
  for (const auto& [kind, text] : {std::pair(2, ""),
                                   {2, "[]"},
                                   {2, "{\"step\": \"4\"}"},
                                   {2, "{\"loss\": true}"},
                                   {2, "{\"footprint_bytes\": 0.5}"},
                                   {1, R"({"state": 9})"},
                                   {1, R"({"message": "no state"})"},
                                   {6, "{}"}}) {
    EXPECT_THAT(DecodeBody(kind, text), Fails(kDataLoss)) << text;
  }
}

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

auto Members(const jobs::Job& j) {
  const jobs::Evaluated best = j.best_evaluation.value_or(jobs::Evaluated());
  return std::make_tuple(
      j.id, j.kind, j.study_json, j.name, j.state, j.cancel_requested, j.owner,
      j.labels, j.priority, j.create_time, j.start_time, j.end_time,
      j.not_before, j.attempt, j.failures, j.message, j.exit_reason,
      j.progress.has_value(), j.progress.value_or(jobs::Progress()).step,
      j.eval_loss_before, j.eval_loss_after, j.train_loss, j.output_path,
      j.spec_json, j.output_kind, j.metrics, j.best_evaluation.has_value(),
      best.step, best.eval_loss, best.metrics, j.confusion_matrix, j.warnings,
      j.interruptions, j.behind, j.boot_id, j.durable_step, j.advanced,
      j.memory_bytes, j.checkpoint_bytes, j.device_time, j.held, j.hold_reason,
      j.place, j.among_all, j.ticket, j.fresh, j.after, j.model,
      j.idempotency_key, j.request_hash);
}

class JobRowTest : public StoreFixture {
 protected:
  jobs::Job StoredAs(const jobs::Job& job) {
    auto read = jobs_.Get(Insert(job).id);
    EXPECT_TRUE(read.ok()) << read.status();
    return read.value_or(jobs::Job());
  }
  void Corrupt(const std::string& sql) {
    Execute("PRAGMA ignore_check_constraints = ON; " + sql);
  }
};

TEST_F(JobRowTest, EveryMemberComesBack) {
  EXPECT_EQ(Members(StoredAs(FullJob())), Members(FullJob()));
  EXPECT_EQ(Members(StoredAs(QueuedJob(7))), Members(QueuedJob(7)))
      << "absent members stay absent";
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
    EXPECT_THAT(jobs_.Get(job.id), Fails(kDataLoss)) << sql;
  }
  Corrupt(
      "DROP TRIGGER jobs_transition; "
      "UPDATE jobs SET kind = 1, state = 9");
  EXPECT_THAT(jobs_.Get(job.id), Fails(kDataLoss, job.id));
}

}  // namespace
}  // namespace mpsd::store
