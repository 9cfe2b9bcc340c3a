// SPDX-License-Identifier: Apache-2.0
#include "server/openai/objects.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::openai {
namespace {

using ::testing::HasSubstr;

const std::string kId = "01J00000000000000000000007";

v1::Job JobIn(v1::JobState state) {
  v1::Job job;
  job.set_id(kId);
  job.set_state(state);
  job.set_owner("ada");
  job.set_model("org/m");
  job.set_name("mine");
  job.mutable_create_time()->set_seconds(100);
  job.set_spec_json(R"({"training": {"num_train_epochs": 2.0, "seed": 7,
      "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
      "learning_rate": 1e-4}})");
  (*job.mutable_labels())["openai.training_file"] = "file-1";
  (*job.mutable_labels())["team"] = "nlp";
  return job;
}

TEST(JobObject, HasWhatOpenAisClientReads) {
  const Json object =
      JobObject(JobIn(v1::JOB_STATE_QUEUED), {}, absl::FromUnixSeconds(200));
  EXPECT_EQ(object["id"], kId);
  EXPECT_EQ(object["object"], "fine_tuning.job");
  EXPECT_EQ(object["status"], "queued");
  EXPECT_EQ(object["created_at"], 100);
  EXPECT_TRUE(object["finished_at"].is_null());
  EXPECT_TRUE(object["fine_tuned_model"].is_null());
  EXPECT_TRUE(object["error"].is_null());
  EXPECT_EQ(object["model"], "org/m");
  EXPECT_EQ(object["organization_id"], "ada");
  EXPECT_EQ(object["training_file"], "file-1");
  EXPECT_TRUE(object["validation_file"].is_null());
  EXPECT_EQ(object["seed"], 7);
  EXPECT_EQ(object["hyperparameters"].dump(),
            R"({"n_epochs":2,"batch_size":8,"learning_rate_multiplier":0.5})");
  EXPECT_EQ(object["method"]["supervised"]["hyperparameters"],
            object["hyperparameters"]);
  EXPECT_EQ(object["metadata"].dump(), R"({"team":"nlp"})");
  EXPECT_EQ(object["result_files"].dump(), "[]");
}

TEST(JobObject, EachStateHasItsStatus) {
  v1::Job job = JobIn(v1::JOB_STATE_RUNNING);
  job.mutable_progress()->set_eta_seconds(50);
  Json object = JobObject(job, {}, absl::FromUnixSeconds(200));
  EXPECT_EQ(object["status"], "running");
  EXPECT_EQ(object["estimated_finish"], 250);
  job = JobIn(v1::JOB_STATE_SUCCEEDED);
  job.mutable_end_time()->set_seconds(300);
  object = JobObject(job, {"file-x"}, absl::Now());
  EXPECT_EQ(object["status"], "succeeded");
  EXPECT_EQ(object["finished_at"], 300);
  EXPECT_EQ(object["fine_tuned_model"], "job:" + kId);
  EXPECT_EQ(object["result_files"].dump(), R"(["file-x"])");
  job = JobIn(v1::JOB_STATE_FAILED);
  job.set_exit_reason("OutOfMemory");
  job.set_message("too large");
  object = JobObject(job, {}, absl::Now());
  EXPECT_EQ(object["status"], "failed");
  EXPECT_EQ(object["error"].dump(),
            R"({"code":"outofmemory","message":"too large","param":null})");
  EXPECT_EQ(
      JobObject(JobIn(v1::JOB_STATE_CANCELLED), {}, absl::Now())["status"],
      "cancelled");
}

// A job whose spec the caller may not read, or which cannot be read.
TEST(JobObject, NeedsNoSpec) {
  v1::Job job;
  job.set_id(kId);
  for (const std::string& spec :
       {std::string(), std::string("nonsense"), std::string("[]"),
        std::string("{\"training\": 5}"), std::string(5000, '[')}) {
    job.set_spec_json(spec);
    const Json object = JobObject(job, {}, absl::Now());
    EXPECT_EQ(object["training_file"], "");
    EXPECT_TRUE(object["hyperparameters"].is_object());
  }
}

TEST(EventObject, SaysWhatHappened) {
  v1::JobEvent event;
  event.set_sequence(9);
  event.mutable_time()->set_seconds(100);
  event.mutable_state()->set_state(v1::JOB_STATE_FAILED);
  event.mutable_state()->set_message("too large");
  Json object = EventObject(kId, event);
  EXPECT_EQ(object["id"], "ftevent-" + kId + "-9");
  EXPECT_EQ(object["object"], "fine_tuning.job.event");
  EXPECT_EQ(object["created_at"], 100);
  EXPECT_EQ(object["level"], "error");
  EXPECT_EQ(object["type"], "message");
  EXPECT_EQ(object["message"], "the job is failed: too large");
  event.mutable_progress()->set_step(2);
  event.mutable_progress()->set_total_steps(4);
  event.mutable_progress()->set_loss(0.5);
  object = EventObject(kId, event);
  EXPECT_EQ(object["type"], "metrics");
  EXPECT_EQ(object["message"], "step 2 of 4: training loss 0.5000");
  EXPECT_EQ(object["data"]["train_loss"], 0.5);
  event.mutable_evaluated()->set_eval_loss(0.25);
  (*event.mutable_evaluated()->mutable_metrics())["accuracy"] = 0.75;
  object = EventObject(kId, event);
  EXPECT_EQ(object["data"]["valid_loss"], 0.25);
  EXPECT_EQ(object["data"]["accuracy"], 0.75);
  event.set_warning("slow");
  EXPECT_EQ(EventObject(kId, event)["level"], "warn");
  event.set_note("loading");
  EXPECT_EQ(EventObject(kId, event)["message"], "loading");
  event.mutable_checkpoint()->set_step(8);
  EXPECT_EQ(EventObject(kId, event)["message"], "checkpoint at step 8");
}

TEST(CheckpointObject, NamesItsStep) {
  v1::Checkpoint checkpoint;
  checkpoint.set_step(8);
  checkpoint.mutable_create_time()->set_seconds(100);
  const Json object = CheckpointObject(kId, checkpoint);
  EXPECT_EQ(object["id"], "ftckpt-" + kId + "-8");
  EXPECT_EQ(object["step_number"], 8);
  EXPECT_EQ(object["fine_tuning_job_id"], kId);
  EXPECT_EQ(object["created_at"], 100);
}

TEST(FileObject, OfAFileAndOfAResult) {
  jobs::NamedFile file{"file-1", "ada", "a.jsonl",
                       "",       5,     absl::FromUnixSeconds(100)};
  EXPECT_EQ(FileObject(file).dump(),
            R"({"id":"file-1","object":"file","bytes":5,"created_at":100,)"
            R"("expires_at":null,"filename":"a.jsonl","purpose":"fine-tune",)"
            R"("status":"processed","status_details":null})");
  const Json result =
      FileObject(ResultFile{kId, "a/b.json", 5, absl::FromUnixSeconds(100)});
  EXPECT_EQ(result["id"], "file-" + kId + "-a/b.json");
  EXPECT_EQ(result["purpose"], "fine-tune-results");
}

TEST(ResultModel, IsReadAsItWasWritten) {
  EXPECT_EQ(JobOfModel(ResultModel(kId)), kId);
  for (const char* name : {"", "job:", "job:x", "org/m", "JOB:", "job:../.."}) {
    EXPECT_EQ(JobOfModel(name), "") << name;
  }
}

TEST(ModelObject, HasAnOwner) {
  v1::Model model;
  model.set_name("org/m");
  EXPECT_THAT(ModelObject(model).dump(), HasSubstr("Hugging Face cache"));
  model.set_owner("ada");
  EXPECT_EQ(ModelObject(model)["owned_by"], "ada");
  EXPECT_EQ(ModelObject(JobIn(v1::JOB_STATE_SUCCEEDED))["id"], "job:" + kId);
}

}  // namespace
}  // namespace mpsd::openai
