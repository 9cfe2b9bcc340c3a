// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/convert.h"

#include <cmath>
#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace mpsd::rpc {
namespace {

jobs::Progress SomeProgress() {
  jobs::Progress progress;
  progress.step = 1;
  progress.total_steps = 2;
  progress.epoch = 3;
  progress.loss = 4;
  progress.learning_rate = 5;
  progress.grad_norm = 6;
  progress.tokens = 7;
  progress.seconds = 8;
  progress.tokens_per_second = 9;
  progress.eta_seconds = 10;
  progress.memory.current_allocated_bytes = 11;
  progress.memory.driver_allocated_bytes = 12;
  progress.memory.recommended_max_bytes = 13;
  progress.memory.footprint_bytes = 0;
  return progress;
}

TEST(Convert, ProgressHasEveryField) {
  v1::Progress out;
  ToProto(SomeProgress(), out);
  EXPECT_EQ(out.step(), 1);
  EXPECT_EQ(out.total_steps(), 2);
  EXPECT_EQ(out.epoch(), 3);
  EXPECT_EQ(out.loss(), 4);
  EXPECT_EQ(out.learning_rate(), 5);
  EXPECT_EQ(out.grad_norm(), 6);
  EXPECT_EQ(out.tokens(), 7);
  EXPECT_EQ(out.step_seconds(), 8);
  EXPECT_EQ(out.tokens_per_second(), 9);
  EXPECT_EQ(out.eta_seconds(), 10);
  EXPECT_EQ(out.memory().current_allocated_bytes(), 11);
  EXPECT_EQ(out.memory().driver_allocated_bytes(), 12);
  EXPECT_EQ(out.memory().recommended_max_bytes(), 13);
  EXPECT_TRUE(out.memory().has_footprint_bytes());
}

TEST(Convert, TheApisKindsAreTheQueues) {
  for (jobs::JobKind kind : jobs::kAllJobKinds) {
    EXPECT_TRUE(v1::JobKind_IsValid(ToProto(kind))) << Name(kind);
    EXPECT_EQ(FromProto(ToProto(kind)), kind);
  }
  for (int number = 1; number <= v1::JobKind_MAX; ++number) {
    EXPECT_EQ(v1::JobKind_IsValid(number),
              FromProto(static_cast<v1::JobKind>(number)).has_value());
  }
  EXPECT_EQ(ToProto(jobs::JobKind::kTraining), v1::JOB_KIND_TRAINING);
  EXPECT_EQ(FromProto(v1::JOB_KIND_UNSPECIFIED), jobs::JobKind::kTraining);
  EXPECT_EQ(FromProto(v1::SubmitRequest()).kind, jobs::JobKind::kTraining);
  EXPECT_EQ(FromProto(static_cast<v1::JobKind>(99)), std::nullopt);
}

TEST(Convert, AbsentCountersStayAbsent) {
  v1::DeviceMemory out;
  ToProto(jobs::MemoryCounters(), out);
  EXPECT_EQ(out.ByteSizeLong(), 0u);
}

TEST(Convert, AJobHasEveryField) {
  jobs::Job job;
  job.id = "id";
  job.name = "name";
  job.state = jobs::State::kRunning;
  job.cancel_requested = true;
  job.owner = "owner";
  job.labels = {{"a", "b"}};
  job.priority = -2;
  job.create_time = absl::FromUnixMillis(1500);
  job.start_time = absl::FromUnixSeconds(2);
  job.end_time = absl::FromUnixSeconds(3);
  job.not_before = absl::FromUnixSeconds(4);
  job.attempt = 5;
  job.message = "message";
  job.exit_reason = jobs::ExitReason::kOutOfMemory;
  job.progress = SomeProgress();
  job.eval_loss_before = 0;
  job.eval_loss_after = 1.5;
  job.train_loss = 2.5;
  job.output_path = "/a";
  job.spec_json = "{}";
  job.metrics = {{"f1", 0.5}};
  job.best_evaluation = {4, 1.25, 0, 0, {{"f1", 0.75}}};
  job.confusion_matrix = "{\"labels\": []}";
  job.warnings = {"memory grows", "\xff"};
  v1::Job out;
  ToProto(job, out);
  EXPECT_EQ(out.id(), "id");
  EXPECT_EQ(out.name(), "name");
  EXPECT_EQ(out.state(), v1::JOB_STATE_RUNNING);
  EXPECT_TRUE(out.cancel_requested());
  EXPECT_EQ(out.owner(), "owner");
  EXPECT_EQ(out.labels().at("a"), "b");
  EXPECT_EQ(out.priority(), -2);
  EXPECT_EQ(out.create_time().seconds(), 1);
  EXPECT_EQ(out.create_time().nanos(), 500'000'000);
  EXPECT_EQ(out.start_time().seconds(), 2);
  EXPECT_EQ(out.end_time().seconds(), 3);
  EXPECT_EQ(out.not_before().seconds(), 4);
  EXPECT_EQ(out.attempt(), 5);
  EXPECT_EQ(out.message(), "message");
  EXPECT_EQ(out.exit_reason(), "OutOfMemory");
  EXPECT_EQ(out.progress().step(), 1);
  EXPECT_TRUE(out.has_eval_loss_before());
  EXPECT_EQ(out.eval_loss_after(), 1.5);
  EXPECT_EQ(out.train_loss(), 2.5);
  EXPECT_EQ(out.adapter_path(), "/a");
  EXPECT_EQ(out.spec_json(), "{}");
  EXPECT_EQ(out.output_path(), "/a");
  EXPECT_EQ(out.output_kind(), v1::OUTPUT_KIND_ADAPTER);
  EXPECT_EQ(out.metrics().at("f1"), 0.5);
  EXPECT_EQ(out.best_evaluation().step(), 4);
  EXPECT_EQ(out.best_evaluation().metrics().at("f1"), 0.75);
  EXPECT_EQ(out.confusion_matrix_json(), "{\"labels\": []}");
  ASSERT_EQ(out.warnings_size(), 2);
  EXPECT_EQ(out.warnings(0), "memory grows");
  EXPECT_EQ(out.warnings(1), "\uFFFD");
  EXPECT_FALSE(out.has_queue_position());
}

TEST(Convert, WhatAJobHasNotIsUnset) {
  v1::Job out;
  ToProto(jobs::Job(), out);
  EXPECT_FALSE(out.has_start_time());
  EXPECT_FALSE(out.has_end_time());
  EXPECT_FALSE(out.has_not_before());
  EXPECT_FALSE(out.has_progress());
  EXPECT_FALSE(out.has_train_loss());
  EXPECT_FALSE(out.has_best_evaluation());
  EXPECT_EQ(out.output_kind(), v1::OUTPUT_KIND_UNSPECIFIED);
  EXPECT_EQ(out.exit_reason(), "");
}

TEST(Convert, AModelIsNoAdapter) {
  jobs::Job job;
  job.output_path = "/m";
  job.output_kind = jobs::OutputKind::kModel;
  v1::Job out;
  ToProto(job, out);
  EXPECT_EQ(out.output_path(), "/m");
  EXPECT_EQ(out.output_kind(), v1::OUTPUT_KIND_MODEL);
  EXPECT_EQ(out.adapter_path(), "");
}

TEST(Convert, TextIsValidUtf8) {
  jobs::Job job;
  job.message = "crashed: \xff\xfe";
  v1::Job out, parsed;
  ToProto(job, out);
  EXPECT_EQ(out.message(), "crashed: \uFFFD\uFFFD");
  EXPECT_TRUE(parsed.ParseFromString(out.SerializeAsString()));
}

TEST(Convert, TimesBeforeTheEpochAreNormalised) {
  google::protobuf::Timestamp out;
  ToProto(absl::FromUnixMillis(-1500), out);
  EXPECT_EQ(out.seconds(), -2);
  EXPECT_EQ(out.nanos(), 500'000'000);
}

TEST(Convert, StatesGoBothWays) {
  for (jobs::State state : jobs::kAllStates) {
    EXPECT_EQ(FromProto(ToProto(state)), state);
    EXPECT_EQ("JOB_STATE_" + std::string(jobs::Name(state)),
              v1::JobState_Name(ToProto(state)));
  }
  EXPECT_EQ(FromProto(v1::JOB_STATE_UNSPECIFIED), std::nullopt);
  EXPECT_EQ(FromProto(static_cast<v1::JobState>(99)), std::nullopt);
}

TEST(Convert, EveryEventHasItsBody) {
  const auto convert = [](decltype(jobs::Event::body) body) {
    v1::JobEvent out;
    ToProto(jobs::Event{"id", 7, absl::FromUnixSeconds(5), std::move(body)},
            out);
    EXPECT_EQ(out.sequence(), 7);
    EXPECT_EQ(out.time().seconds(), 5);
    return out;
  };
  const v1::JobEvent state =
      convert(jobs::StateChanged{jobs::State::kFailed, "why"});
  EXPECT_EQ(state.state().state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(state.state().message(), "why");
  EXPECT_EQ(convert(SomeProgress()).progress().loss(), 4);
  const v1::JobEvent evaluated =
      convert(jobs::Evaluated{3, 1.5, 0, 0, {{"f1", 0.5}}});
  EXPECT_EQ(evaluated.evaluated().step(), 3);
  EXPECT_EQ(evaluated.evaluated().eval_loss(), 1.5);
  EXPECT_EQ(evaluated.evaluated().metrics().at("f1"), 0.5);
  const v1::JobEvent checkpoint =
      convert(jobs::Checkpoint{{5, "/c", 6, 0.5}, absl::FromUnixSeconds(9)});
  EXPECT_EQ(checkpoint.checkpoint().step(), 5);
  EXPECT_EQ(checkpoint.checkpoint().path(), "/c");
  EXPECT_EQ(checkpoint.checkpoint().size_bytes(), 6);
  EXPECT_EQ(checkpoint.checkpoint().create_time().seconds(), 9);
  EXPECT_EQ(convert(jobs::Note{"loading"}).note(), "loading");
  const v1::JobEvent warning = convert(jobs::Note{"grows \xff", true});
  EXPECT_EQ(warning.warning(), "grows \uFFFD");
  EXPECT_FALSE(warning.has_note());
}

TEST(Convert, ASubmitRequestHasEveryField) {
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  auto& input = *request.add_inputs();
  input.set_path("train.jsonl");
  input.set_sha256("abc");
  request.set_priority(3);
  request.set_owner("ana");
  (*request.mutable_labels())["team"] = "nlp";
  request.set_idempotency_key("key");
  request.add_after("a");
  const jobs::SubmitRequest out = FromProto(request);
  EXPECT_EQ(out.spec_json, "{}");
  ASSERT_EQ(out.inputs.size(), 1u);
  EXPECT_EQ(out.inputs[0].path, "train.jsonl");
  EXPECT_EQ(out.inputs[0].sha256, "abc");
  EXPECT_EQ(out.priority, 3);
  EXPECT_EQ(out.owner, "ana");
  EXPECT_EQ(out.labels.at("team"), "nlp");
  EXPECT_EQ(out.idempotency_key, "key");
  EXPECT_EQ(out.after, std::vector<std::string>{"a"});
  // Back again, but for what is the caller's.
  v1::SubmitRequest back;
  ToProto(out, back);
  request.clear_owner();
  request.clear_idempotency_key();
  request.set_kind(v1::JOB_KIND_TRAINING);
  EXPECT_EQ(back.SerializeAsString(), request.SerializeAsString());
}

TEST(Convert, AStudyGoesThereAndBack) {
  v1::SubmitRequest request;
  request.set_spec_json("{}");
  (*request.mutable_study()->mutable_profile()->mutable_thresholds())["a"] = 2;
  const jobs::SubmitRequest out = FromProto(request);
  EXPECT_EQ(out.kind, jobs::JobKind::kProfile);
  EXPECT_EQ(out.study_json, R"({"thresholds":{"a":2}})");
  v1::SubmitRequest back;
  ToProto(out, back);
  EXPECT_EQ(back.kind(), v1::JOB_KIND_PROFILE);
  EXPECT_EQ(back.study().SerializeAsString(),
            request.study().SerializeAsString());
}

}  // namespace
}  // namespace mpsd::rpc
