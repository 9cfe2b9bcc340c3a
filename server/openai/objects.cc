// SPDX-License-Identifier: Apache-2.0
#include "server/openai/objects.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "core/base/json_depth.h"
#include "server/jobs/job_id.h"
#include "server/openai/job_order.h"

namespace mpsd::openai {
namespace {

constexpr char kModelPrefix[] = "job:";

Json SecondsOf(const google::protobuf::Timestamp& time) {
  return time.seconds();
}

const char* StatusOf(const v1::Job& job) {
  switch (job.state()) {
    case v1::JOB_STATE_RUNNING:
      return "running";
    case v1::JOB_STATE_SUCCEEDED:
      return "succeeded";
    case v1::JOB_STATE_FAILED:
      return "failed";
    case v1::JOB_STATE_CANCELLED:
      return "cancelled";
    default:
      return "queued";
  }
}

Json ErrorOf(const v1::Job& job) {
  if (job.state() != v1::JOB_STATE_FAILED) return nullptr;
  return {{"code", absl::AsciiStrToLower(job.exit_reason())},
          {"message", job.message()},
          {"param", nullptr}};
}

// A whole number as an integer: what Python's client shows as 3, not 3.0.
Json Number(double value) {
  if (value == std::floor(value) && std::abs(value) < 1e15) {
    return static_cast<int64_t>(value);
  }
  return value;
}

Json LabelOr(const v1::Job& job, const char* key, Json otherwise) {
  const auto label = job.labels().find(key);
  return label == job.labels().end() ? std::move(otherwise)
                                     : Json(label->second);
}

Json MetadataOf(const v1::Job& job) {
  Json metadata = Json::object();
  for (const auto& [key, value] : job.labels()) {
    if (!key.starts_with(kOwnLabels)) metadata[key] = value;
  }
  return metadata;
}

Json HyperparametersOf(const nlohmann::json& training) {
  if (!training.is_object()) return Json::object();
  const double rows = training.value("per_device_train_batch_size", 8.0) *
                      training.value("gradient_accumulation_steps", 1.0);
  return {
      {"n_epochs", Number(training.value("num_train_epochs", 3.0))},
      {"batch_size", Number(rows)},
      {"learning_rate_multiplier",
       training.value("learning_rate", kBaseLearningRate) / kBaseLearningRate}};
}

Json EstimatedFinish(const v1::Job& job, absl::Time now) {
  if (job.state() != v1::JOB_STATE_RUNNING ||
      job.progress().eta_seconds() <= 0) {
    return nullptr;
  }
  return absl::ToUnixSeconds(now + absl::Seconds(job.progress().eta_seconds()));
}

struct Said {
  std::string message;
  const char* level = "info";
  Json data = nullptr;  // of metrics
};

std::string StateWords(const v1::StateChanged& changed) {
  std::string state = v1::JobState_Name(changed.state());
  constexpr size_t kPrefix = sizeof("JOB_STATE_") - 1;
  state = absl::AsciiStrToLower(state.substr(std::min(kPrefix, state.size())));
  return absl::StrCat("the job is ", state,
                      changed.message().empty() ? "" : ": ", changed.message());
}

Said Read(const v1::Progress& progress) {
  return {absl::StrFormat("step %d of %d: training loss %.4f", progress.step(),
                          progress.total_steps(), progress.loss()),
          "info",
          {{"step", progress.step()},
           {"total_steps", progress.total_steps()},
           {"train_loss", progress.loss()},
           {"learning_rate", progress.learning_rate()},
           {"tokens_per_second", progress.tokens_per_second()}}};
}

Said Read(const v1::Evaluated& evaluated) {
  Json data = {{"step", evaluated.step()},
               {"valid_loss", evaluated.eval_loss()}};
  for (const auto& [name, value] : evaluated.metrics()) data[name] = value;
  return {absl::StrFormat("validation loss %.4f at step %d",
                          evaluated.eval_loss(), evaluated.step()),
          "info", std::move(data)};
}

Said SaidBy(const v1::JobEvent& event) {
  switch (event.event_case()) {
    case v1::JobEvent::kState:
      return {StateWords(event.state()),
              event.state().state() == v1::JOB_STATE_FAILED ? "error" : "info"};
    case v1::JobEvent::kProgress:
      return Read(event.progress());
    case v1::JobEvent::kEvaluated:
      return Read(event.evaluated());
    case v1::JobEvent::kCheckpoint:
      return {absl::StrCat("checkpoint at step ", event.checkpoint().step())};
    case v1::JobEvent::kNote:
      return {event.note()};
    case v1::JobEvent::kWarning:
      return {event.warning(), "warn"};
    default:
      return {"an event that this door does not know"};
  }
}

Json ModelObject(const std::string& id, Json created,
                 const std::string& owner) {
  return {{"id", id},
          {"object", "model"},
          {"created", std::move(created)},
          {"owned_by", owner}};
}

}  // namespace

Json FileObject(const jobs::NamedFile& file) {
  return {{"id", file.id},
          {"object", "file"},
          {"bytes", file.size_bytes},
          {"created_at", absl::ToUnixSeconds(file.create_time)},
          {"expires_at", nullptr},
          {"filename", file.name},
          {"purpose", "fine-tune"},
          {"status", "processed"},
          {"status_details", nullptr}};
}

std::string ResultFileId(const std::string& job_id, const std::string& path) {
  return absl::StrCat("file-", job_id, "-", path);
}

Json FileObject(const ResultFile& file) {
  return {{"id", ResultFileId(file.job_id, file.path)},
          {"object", "file"},
          {"bytes", file.size_bytes},
          {"created_at", absl::ToUnixSeconds(file.create_time)},
          {"expires_at", nullptr},
          {"filename", file.path},
          {"purpose", "fine-tune-results"},
          {"status", "processed"},
          {"status_details", nullptr}};
}

std::string ResultModel(std::string_view job_id) {
  return absl::StrCat(kModelPrefix, std::string(job_id));
}

std::string JobOfModel(std::string_view model) {
  if (!model.starts_with(kModelPrefix)) return "";
  model.remove_prefix(sizeof(kModelPrefix) - 1);
  return jobs::IsJobId(model) ? std::string(model) : "";
}

Json JobObject(const v1::Job& job, const std::vector<std::string>& result_files,
               absl::Time now) {
  const auto spec = base::ParseTree<nlohmann::json>(job.spec_json());
  const nlohmann::json training =
      spec.is_object() ? spec.value("training", nlohmann::json::object())
                       : nlohmann::json::object();
  const Json hyperparameters = HyperparametersOf(training);
  const bool done = job.state() == v1::JOB_STATE_SUCCEEDED;
  return {{"id", job.id()},
          {"object", "fine_tuning.job"},
          {"created_at", SecondsOf(job.create_time())},
          {"finished_at",
           job.has_end_time() ? SecondsOf(job.end_time()) : Json(nullptr)},
          {"estimated_finish", EstimatedFinish(job, now)},
          {"model", job.model()},
          {"fine_tuned_model", done ? Json(ResultModel(job.id())) : nullptr},
          {"organization_id", job.owner()},
          {"status", StatusOf(job)},
          {"error", ErrorOf(job)},
          {"training_file", LabelOr(job, kTrainingLabel, "")},
          {"validation_file", LabelOr(job, kValidationLabel, nullptr)},
          {"result_files", result_files},
          {"hyperparameters", hyperparameters},
          {"method",
           {{"type", "supervised"},
            {"supervised", {{"hyperparameters", hyperparameters}}}}},
          {"seed", training.is_object() ? training.value("seed", 42) : 42},
          {"trained_tokens", nullptr},
          {"integrations", Json::array()},
          {"user_provided_suffix",
           job.name().empty() ? Json(nullptr) : Json(job.name())},
          {"metadata", MetadataOf(job)}};
}

std::string EventId(const std::string& job_id, int64_t sequence) {
  return absl::StrCat("ftevent-", job_id, "-", sequence);
}

Json EventObject(const std::string& job_id, const v1::JobEvent& event) {
  Said said = SaidBy(event);
  const bool is_metrics = !said.data.is_null();
  return {{"id", EventId(job_id, event.sequence())},
          {"object", "fine_tuning.job.event"},
          {"created_at", SecondsOf(event.time())},
          {"level", said.level},
          {"message", said.message},
          {"type", is_metrics ? "metrics" : "message"},
          {"data", is_metrics ? std::move(said.data) : Json::object()}};
}

std::string CheckpointId(const std::string& job_id, int64_t step) {
  return absl::StrCat("ftckpt-", job_id, "-", step);
}

Json CheckpointObject(const std::string& job_id,
                      const v1::Checkpoint& checkpoint) {
  return {{"id", CheckpointId(job_id, checkpoint.step())},
          {"object", "fine_tuning.job.checkpoint"},
          {"created_at", SecondsOf(checkpoint.create_time())},
          {"fine_tuning_job_id", job_id},
          {"fine_tuned_model_checkpoint",
           absl::StrCat(ResultModel(job_id), ":step-", checkpoint.step())},
          {"step_number", checkpoint.step()},
          {"metrics", {{"step", checkpoint.step()}}}};
}

Json ModelObject(const v1::Model& model) {
  return ModelObject(model.name(), SecondsOf(model.create_time()),
                     model.owner().empty() ? "the daemon's Hugging Face cache"
                                           : model.owner());
}

Json ModelObject(const v1::Job& job) {
  return ModelObject(ResultModel(job.id()), SecondsOf(job.end_time()),
                     job.owner());
}

}  // namespace mpsd::openai
