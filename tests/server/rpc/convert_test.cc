// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/convert.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/proto_text.h"

namespace mpsd::rpc {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

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

// Of what `value` becomes in the API.
template <typename Out, typename Value>
Out Converted(const Value& value) {
  Out out;
  ToProto(value, out);
  return out;
}

TEST(Convert, ProgressHasEveryField) {
  EXPECT_THAT(Converted<v1::Progress>(SomeProgress()), EqualsProto(R"pb(
                step: 1
                total_steps: 2
                epoch: 3
                loss: 4
                learning_rate: 5
                grad_norm: 6
                tokens: 7
                step_seconds: 8
                tokens_per_second: 9
                eta_seconds: 10
                memory {
                  current_allocated_bytes: 11
                  driver_allocated_bytes: 12
                  recommended_max_bytes: 13
                  footprint_bytes: 0
                }
              )pb"));
  EXPECT_THAT(Converted<v1::DeviceMemory>(jobs::MemoryCounters()),
              EqualsProto(""));
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

TEST(Convert, AJobHasEveryField) {
  jobs::Job job;
  job.id = "id";
  job.name = "name";
  job.state = jobs::State::kRunning;
  job.cancel_requested = true;
  job.owner = "owner";
  job.labels = {{"a", "b"}};
  job.priority = -2;
  job.durable_step = 4;
  job.create_time = absl::FromUnixMillis(1500);
  job.start_time = absl::FromUnixSeconds(2);
  job.end_time = absl::FromUnixSeconds(3);
  job.not_before = absl::FromUnixSeconds(4);
  job.attempt = 5;
  job.message = "crashed: \xff\xfe";
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
  v1::Job out = Converted<v1::Job>(job), parsed;
  EXPECT_TRUE(parsed.ParseFromString(out.SerializeAsString()));
  EXPECT_EQ(out.progress().step(), 1);
  out.clear_progress();
  EXPECT_THAT(out, EqualsProto(R"pb(
                id: "id"
                name: "name"
                state: JOB_STATE_RUNNING
                cancel_requested: true
                owner: "owner"
                priority: -2
                checkpoint_step: 4
                labels { key: "a" value: "b" }
                create_time { seconds: 1 nanos: 500000000 }
                start_time { seconds: 2 }
                end_time { seconds: 3 }
                not_before { seconds: 4 }
                attempt: 5
                message: "crashed: \uFFFD\uFFFD"
                exit_reason: "OutOfMemory"
                eval_loss_before: 0
                eval_loss_after: 1.5
                train_loss: 2.5
                adapter_path: "/a"
                spec_json: "{}"
                output_path: "/a"
                output_kind: OUTPUT_KIND_ADAPTER
                kind: JOB_KIND_TRAINING
                metrics { key: "f1" value: 0.5 }
                best_evaluation {
                  step: 4
                  eval_loss: 1.25
                  metrics { key: "f1" value: 0.75 }
                }
                confusion_matrix_json: "{\"labels\": []}"
                warnings: "memory grows"
                warnings: "\uFFFD"
              )pb"));
  job.output_kind = jobs::OutputKind::kModel;
  out = Converted<v1::Job>(job);
  EXPECT_EQ(out.output_path(), "/a");
  EXPECT_EQ(out.output_kind(), v1::OUTPUT_KIND_MODEL);
  EXPECT_EQ(out.adapter_path(), "") << "a model is no adapter";
}

TEST(Convert, WhatAJobHasNotIsUnset) {
  EXPECT_THAT(Converted<v1::Job>(jobs::Job()), EqualsProto(R"pb(
                state: JOB_STATE_QUEUED
                kind: JOB_KIND_TRAINING
                checkpoint_step: 0
                create_time {}
              )pb"));
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
    auto out = Converted<v1::JobEvent>(
        jobs::Event{"id", 7, absl::FromUnixSeconds(5), std::move(body)});
    EXPECT_EQ(out.sequence(), 7);
    EXPECT_EQ(out.time().seconds(), 5);
    out.clear_sequence();
    out.clear_time();
    return out;
  };
  EXPECT_THAT(
      convert(jobs::StateChanged{jobs::State::kFailed, "why"}),
      EqualsProto(R"pb(state { state: JOB_STATE_FAILED message: "why" })pb"));
  EXPECT_EQ(convert(SomeProgress()).progress().loss(), 4);
  EXPECT_THAT(convert(jobs::Evaluated{3, 1.5, 0, 0, {{"f1", 0.5}}}),
              EqualsProto(R"pb(
                evaluated {
                  step: 3
                  eval_loss: 1.5
                  metrics { key: "f1" value: 0.5 }
                }
              )pb"));
  EXPECT_THAT(
      convert(jobs::Checkpoint{{5, "/c", 6, 0.5}, absl::FromUnixSeconds(9)}),
      EqualsProto(R"pb(
        checkpoint {
          step: 5
          path: "/c"
          size_bytes: 6
          create_time { seconds: 9 }
        }
      )pb"));
  EXPECT_THAT(convert(report::Sampled{4, {"a\nb", "\xff"}}),
              EqualsProto(
                  R"pb(sampled {
                         step: 4
                         completions: "a\nb"
                         completions: "\uFFFD"
                       })pb"));
  EXPECT_THAT(convert(jobs::Note{"loading"}),
              EqualsProto(R"pb(note: "loading")pb"));
  EXPECT_THAT(convert(jobs::Note{"grows \xff", true}),
              EqualsProto(R"pb(warning: "grows \uFFFD")pb"));
}

TEST(Convert, ASubmitRequestGoesThereAndBack) {
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
  request.set_anyway(true);
  request.set_held(true);
  request.set_round_trip_seconds(0.25);
  (*request.mutable_study()->mutable_profile()->mutable_thresholds())["a"] = 2;
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
  EXPECT_EQ(out.kind, jobs::JobKind::kProfile);
  EXPECT_EQ(out.study_json, R"({"thresholds":{"a":2}})");
  // Back again, but without the caller's fields: a clone would hold those of
  // who made this job.
  request.clear_owner();
  request.clear_idempotency_key();
  request.clear_round_trip_seconds();
  request.set_kind(v1::JOB_KIND_PROFILE);
  EXPECT_EQ(Converted<v1::SubmitRequest>(out).SerializeAsString(),
            request.SerializeAsString());
}

TEST(HostState, HasEveryField) {
  EXPECT_THAT(Converted<v1::HostReading>(host::Reading()), EqualsProto(""));
  EXPECT_THAT(
      Converted<v1::HostReading>(host::Reading{
          host::PowerSource::kMains, 0.5, false, host::Thermal::kNominal,
          host::MemoryPressure::kNormal, 1, 0.25, 0, 0, 0}),
      EqualsProto(R"pb(
        on_battery: false
        battery_ratio: 0.5
        low_power_mode: false
        thermal_level: THERMAL_LEVEL_NOMINAL
        memory_pressure: MEMORY_PRESSURE_NORMAL
        swap_used_bytes: 1
        gpu_utilization_ratio: 0.25
        gpu_resets: 0
        wired_limit_bytes: 0
        user_idle_seconds: 0
      )pb"));
  for (int level = 0; level < 5; ++level) {
    host::Reading reading;
    reading.thermal = static_cast<host::Thermal>(level);
    EXPECT_EQ(Converted<v1::HostReading>(reading).thermal_level(), level + 1);
  }
  for (int level = 0; level < 3; ++level) {
    host::Reading reading;
    reading.memory_pressure = static_cast<host::MemoryPressure>(level);
    EXPECT_EQ(Converted<v1::HostReading>(reading).memory_pressure(), level + 1);
  }
}

TEST(PauseState, NamesEveryReason) {
  jobs::Pause pause;
  for (jobs::PauseReason reason : jobs::kAllPauseReasons) {
    pause.reasons.insert(reason);
  }
  pause.held = true;
  pause.since = absl::FromUnixSeconds(7);
  const auto out = Converted<v1::Pause>(pause);
  EXPECT_THAT(out.reasons(), testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_TRUE(out.held());
  EXPECT_EQ(out.since().seconds(), 7);
}

TEST(ToGrpc, ALongMessageIsCut) {
  const grpc::Status status =
      ToGrpc(absl::InternalError(std::string(100'000, 'x')));
  EXPECT_LT(status.error_message().size(), 6200u);
  EXPECT_EQ(status.error_message().substr(0, 3), "xxx");
}

TEST(ValidUtf8, ReplacesWhatIsNot) {
  EXPECT_EQ(ValidUtf8("a\xff z"), "a\uFFFD z");
  EXPECT_EQ(ValidUtf8("\x80"), "\uFFFD");
  EXPECT_EQ(ValidUtf8("\xc3"), "\uFFFD");                      // cut
  EXPECT_EQ(ValidUtf8("\xc0\xaf"), "\uFFFD\uFFFD");            // overlong
  EXPECT_EQ(ValidUtf8("\xed\xa0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate
  EXPECT_EQ(ValidUtf8("\xf4\x90\x80\x80"),
            "\uFFFD\uFFFD\uFFFD\uFFFD");  // above U+10FFFF
  EXPECT_EQ(ValidUtf8("\xe2\x82x"), "\uFFFD\uFFFDx");
}

void FillIn(Message& message);

void FillOne(Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  const bool many = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      FillIn(many ? *reflection.AddMessage(&message, &field)
                  : *reflection.MutableMessage(&message, &field));
      break;
    case FieldDescriptor::CPPTYPE_STRING:
      many ? reflection.AddString(&message, &field, "s")
           : reflection.SetString(&message, &field, "s");
      break;
    case FieldDescriptor::CPPTYPE_BOOL:
      reflection.SetBool(&message, &field, true);
      break;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      reflection.SetDouble(&message, &field, 1.5);
      break;
    case FieldDescriptor::CPPTYPE_INT32:
      reflection.SetInt32(&message, &field, 1);
      break;
    case FieldDescriptor::CPPTYPE_INT64:
      reflection.SetInt64(&message, &field, 1);
      break;
    case FieldDescriptor::CPPTYPE_ENUM:
      many ? reflection.AddEnumValue(&message, &field, 1)
           : reflection.SetEnumValue(&message, &field, 1);
      break;
    default:
      ADD_FAILURE() << field.full_name() << ": a type this test knows not";
  }
}

// Sets every field of the message, and of those in it.
void FillIn(Message& message) {
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    FillOne(message, *message.GetDescriptor()->field(i));
  }
}

std::set<std::string> SetFields(const Message& message) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  std::set<std::string> names;
  for (const FieldDescriptor* field : fields) names.insert(field->name());
  return names;
}

TEST(KeepPublicPart, ClearsAllButThese) {
  v1::Job job;
  FillIn(job);
  ASSERT_EQ(static_cast<int>(SetFields(job).size()),
            v1::Job::descriptor()->field_count());
  KeepPublicPart(job);
  EXPECT_THAT(SetFields(job),
              UnorderedElementsAre("id", "state", "cancel_requested", "owner",
                                   "priority", "kind", "attempt",
                                   "device_seconds", "create_time",
                                   "start_time", "end_time", "not_before",
                                   "queue_position", "pause", "progress"));
  EXPECT_THAT(SetFields(job.progress()),
              UnorderedElementsAre("step", "total_steps", "eta_seconds"));
}

TEST(StudyCodec, AContradictionHasNoKind) {
  v1::SubmitRequest request;
  request.mutable_study()->mutable_smoke();
  request.set_kind(v1::JOB_KIND_PROFILE);
  EXPECT_EQ(KindOf(request), std::nullopt);
  request.set_kind(v1::JOB_KIND_TRAINING);
  EXPECT_EQ(KindOf(request), std::nullopt);
  request.clear_study();
  request.set_kind(v1::JOB_KIND_PROFILE);
  EXPECT_EQ(KindOf(request), std::nullopt) << "a study without its options";
  request.set_kind(static_cast<v1::JobKind>(99));
  EXPECT_EQ(KindOf(request), std::nullopt);
  // A study that only a newer client knows.
  request.clear_kind();
  request.mutable_study();
  EXPECT_EQ(KindOf(request), std::nullopt);
}

// A kind of study that one of the lists lacks would be found here.
TEST(StudyCodec, EveryKindGoesThereAndBack) {
  for (const jobs::JobKind kind : jobs::kAllJobKinds) {
    if (!jobs::IsStudy(kind)) continue;
    const std::string options = kind == jobs::JobKind::kGenerate
                                    ? R"({"raw":true,"top_k":0})"
                                    : R"({"thresholds":{"smoke.epochs":3}})";
    v1::Study study;
    DecodeStudy(kind, options, study);
    v1::SubmitRequest request;
    *request.mutable_study() = study;
    EXPECT_EQ(KindOf(request), kind) << jobs::Name(kind);
    EXPECT_EQ(EncodeStudy(study), options);
    v1::StudyResult result;
    const std::string name(jobs::Name(kind));
    EXPECT_TRUE(
        DecodeStudyResult(
            kind, R"({"verdict":"VERDICT_WARN",")" + name + R"(":{}})", result)
            .ok())
        << name;
    EXPECT_EQ(result.verdict(), v1::VERDICT_WARN);
  }
}

TEST(StudyCodec, WhatMakesNoSenseIsNoResult) {
  v1::StudyResult result;
  for (const char* json :
       {"", "[]", "{}", R"({"smoke":{}})", R"({"profile":7})", "\xff"}) {
    const absl::Status status =
        DecodeStudyResult(jobs::JobKind::kProfile, json, result);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << json;
    EXPECT_THAT(std::string(status.message()), HasSubstr("profile"));
  }
  EXPECT_TRUE(DecodeStudyResult(jobs::JobKind::kProfile,
                                R"({"profile":{},"of_tomorrow":[1]})", result)
                  .ok());
}

}  // namespace
}  // namespace mpsd::rpc
