// SPDX-License-Identifier: Apache-2.0
#include "client/text/json.h"

#include <google/protobuf/descriptor.pb.h>
#include <gtest/gtest.h>

#include <cmath>

#include "mpsd/v1/jobs.pb.h"

namespace mpsd::client {
namespace {

TEST(JsonTest, EveryFieldOfAJobIsThere) {
  v1::Job job;
  const auto json = ToJson(job);
  const auto& type = *v1::Job::descriptor();
  EXPECT_EQ(static_cast<int>(json.size()), type.field_count());
  EXPECT_EQ(json.begin().key(), "id");
  EXPECT_TRUE(json["state"].is_null());
  EXPECT_TRUE(json["progress"].is_null());
  EXPECT_TRUE(json["eval_loss_before"].is_null());
  EXPECT_EQ(json["priority"], 0);
}

TEST(JsonTest, EveryFieldOfAStepIsThere) {
  v1::Job job;
  job.mutable_progress()->mutable_memory();
  const auto json = ToJson(job)["progress"];
  EXPECT_EQ(static_cast<int>(json.size()),
            v1::Progress::descriptor()->field_count());
  EXPECT_EQ(static_cast<int>(json["memory"].size()),
            v1::DeviceMemory::descriptor()->field_count());
}

TEST(JsonTest, Values) {
  v1::Job job;
  job.set_id("J");
  job.set_state(v1::JOB_STATE_QUEUED);
  (*job.mutable_labels())["team"] = "nlp";
  job.mutable_create_time()->set_seconds(1767323045);
  job.mutable_create_time()->set_nanos(250'000'000);
  job.mutable_progress()->set_tokens(1LL << 40);
  job.set_queue_position(0);
  job.set_spec_json(R"({"model": "m", "lora": {"r": 4}})");
  const auto json = ToJson(job);
  EXPECT_EQ(json["state"], "QUEUED");
  EXPECT_EQ(json["labels"].dump(), R"({"team":"nlp"})");
  EXPECT_EQ(json["create_time"], "2026-01-02T03:04:05.25Z");
  EXPECT_EQ(json["progress"]["tokens"], 1LL << 40);
  EXPECT_EQ(json["queue_position"], 0);
  EXPECT_EQ(json["spec"]["lora"]["r"], 4);
  EXPECT_FALSE(json.contains("spec_json"));
}

TEST(JsonTest, OfAOneofTheOneThatIsSet) {
  v1::JobEvent event;
  event.set_sequence(7);
  event.mutable_evaluated()->set_eval_loss(0.5);
  EXPECT_EQ(ToJson(event).dump(), R"({"sequence":7,"time":null,)"
                                  R"("evaluated":{"step":0,"eval_loss":0.5,)"
                                  R"("metrics":{}}})");
}

TEST(JsonTest, WhatAJobReached) {
  v1::Job job;
  for (const char* name : {"f1", "accuracy", "z", "b"}) {
    (*job.mutable_metrics())[name] = 0.5;
  }
  job.mutable_best_evaluation()->set_step(4);
  job.set_output_kind(v1::OUTPUT_KIND_MODEL);
  job.set_confusion_matrix_json(R"({"labels": ["a"], "matrix": [[3]]})");
  const auto json = ToJson(job);
  EXPECT_EQ(json["metrics"].dump(),
            R"({"accuracy":0.5,"b":0.5,"f1":0.5,"z":0.5})");
  EXPECT_EQ(json["best_evaluation"]["step"], 4);
  EXPECT_EQ(json["output_kind"], "MODEL");
  EXPECT_EQ(json["confusion_matrix"]["matrix"][0][0], 3);
  EXPECT_TRUE(ToJson(v1::Job())["confusion_matrix"].is_null());
}

TEST(JsonTest, ListsOfMessages) {
  v1::CheckpointsResponse response;
  response.add_checkpoints()->set_step(5);
  const auto json = ToJson(response);
  ASSERT_EQ(json["checkpoints"].size(), 1u);
  EXPECT_EQ(json["checkpoints"][0]["step"], 5);
}

TEST(JsonTest, ListsOfNumbersAreNumbers) {
  google::protobuf::FileDescriptorSet files;
  google::protobuf::FileDescriptorProto& file = *files.add_file();
  file.add_public_dependency(4);
  file.add_public_dependency(1 << 30);
  EXPECT_EQ(ToJson(file)["public_dependency"].dump(), "[4,1073741824]");
  file.add_dependency("\"linear\"");
  EXPECT_EQ(ToJson(files)["file"][0]["dependency"].dump(), R"(["\"linear\""])");
}

TEST(JsonTest, NonFiniteNumbersAreNull) {
  v1::Evaluated evaluated;
  evaluated.set_eval_loss(std::nan(""));
  (*evaluated.mutable_metrics())["pearson"] = std::nan("");
  EXPECT_EQ(ToJson(evaluated).dump(),
            R"({"step":0,"eval_loss":null,"metrics":{"pearson":null}})");
}

TEST(JsonTest, AStateOfANewerDaemonHasNoName) {
  v1::StateChanged state;
  state.set_state(static_cast<v1::JobState>(99));
  EXPECT_NO_THROW(ToJson(state).dump());
}

}  // namespace
}  // namespace mpsd::client
