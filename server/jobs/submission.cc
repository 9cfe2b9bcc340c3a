// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/submission.h"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/sha256.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "server/jobs/inputs.h"

namespace mpsd::jobs {
namespace {

constexpr size_t kMaxKeyBytes = 128;

absl::Status Prefixed(absl::StatusCode code, const absl::Status& status) {
  return absl::Status(code, absl::StrCat("model: ", status.message()));
}

absl::StatusOr<JobFiles::Model> FindModel(JobFiles& files,
                                          const std::string& model) {
  if (model.starts_with("./") || model.starts_with("../") ||
      model.starts_with("~")) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: '", model,
                     "' must be the absolute path of a "
                     "folder on the daemon's machine or a Hugging Face id"));
  }
  absl::StatusOr<JobFiles::Model> found = files.FindModel(model);
  if (found.ok()) return found;
  if (absl::IsUnimplemented(found.status())) {
    return Prefixed(absl::StatusCode::kInvalidArgument, found.status());
  }
  return Prefixed(absl::StatusCode::kFailedPrecondition, found.status());
}

absl::Status Resolve(Inputs& inputs, const std::string& field,
                     std::string& path) {
  absl::StatusOr<std::string> resolved = inputs.Resolve(field, path);
  if (!resolved.ok()) return resolved.status();
  path = *std::move(resolved);
  return absl::OkStatus();
}

// Whether a data file may name further files, whose paths only it knows.
bool RowsNameFiles(const spec::TrainSpec& spec) {
  return spec.task == spec::Task::kImageCls;
}

absl::Status PlaceInputs(Inputs& inputs, spec::TrainSpec& spec) {
  spec::DatasetSpec& dataset = spec.dataset;
  const std::pair<const char*, std::vector<std::string>&> sets[] = {
      {"dataset.train", dataset.train},
      {"dataset.eval", dataset.eval},
      {"dataset.predict", dataset.predict}};
  for (const auto& [field, paths] : sets) {
    for (std::string& path : paths) {
      if (absl::Status s = Resolve(inputs, field, path); !s.ok()) return s;
    }
  }
  if (!spec.adapter.empty()) {
    absl::Status s = Resolve(inputs, "adapter", spec.adapter);
    if (!s.ok()) return s;
  }
  std::string& chat_template = spec.training.chat_template_path;
  if (!chat_template.empty()) {
    absl::Status s =
        Resolve(inputs, "training.chat_template_path", chat_template);
    if (!s.ok()) return s;
  }
  return RowsNameFiles(spec) ? absl::OkStatus() : inputs.CheckAllUsed();
}

// The outputs of the head, as far as they can be known before the data are
// read.
int64_t ExpectedLabels(const spec::TrainSpec& spec,
                       const spec::ModelConfig& model) {
  const spec::ClassificationSpec& c = spec.classification;
  if (spec.task == spec::Task::kCausalLm) return 0;
  if (!c.label_names.empty()) return c.label_names.size();
  if (!c.class_weights.empty()) return c.class_weights.size();
  const spec::GlueTask* glue = spec::FindGlueTask(spec.dataset.task_name);
  if (c.problem_type.value_or(glue != nullptr
                                  ? glue->problem_type
                                  : spec::ProblemType::kSingleLabel) ==
      spec::ProblemType::kRegression) {
    return 1;
  }
  if (glue != nullptr) return glue->label_names.size();
  return model.head.num_labels.value_or(2);
}

// That lora finds its modules in this model. What an adapter's folder asks for
// is the worker's to check: it may lie among blobs that have no folder yet.
absl::Status CheckTargets(const spec::TrainSpec& spec,
                          const spec::ModelConfig& model) {
  if (spec.fine_tune_type != spec::FineTuneType::kLora ||
      !spec.adapter.empty()) {
    return absl::OkStatus();
  }
  absl::Status s = spec::CheckPatternKeys(spec.lora, model);
  if (!s.ok()) return s;
  return spec::MatchModulesToSave(spec.lora, model).status();
}

std::string DescribeEstimate(const spec::TrainSpec& spec,
                             const spec::ModelConfig& model) {
  const spec::MemoryEstimate estimate = spec::EstimateMemory(spec, model);
  return absl::StrFormat(
      "estimated device memory %.2f GiB, %d trainable parameters",
      estimate.total_bytes / double(1 << 30),
      spec::TrainableParameterCount(spec, model));
}

}  // namespace

absl::StatusOr<Submission> CheckSubmission(const SubmitRequest& request,
                                           const std::string& job_id,
                                           JobFiles& files, BlobStore& blobs) {
  if (request.idempotency_key.size() > kMaxKeyBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("idempotency_key: at most ", kMaxKeyBytes, " bytes, not ",
                     request.idempotency_key.size()));
  }
  absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(request.spec_json, "job.json");
  if (!spec.ok()) return spec.status();

  absl::StatusOr<Inputs> inputs =
      Inputs::Create(request.inputs, job_id, files, blobs);
  if (!inputs.ok()) return inputs.status();
  if (absl::Status s = PlaceInputs(*inputs, *spec); !s.ok()) return s;

  absl::StatusOr<JobFiles::Model> model = FindModel(files, spec->model);
  if (!model.ok()) return model.status();
  if (absl::Status s = spec::CheckTask(*spec, model->config); !s.ok()) {
    return absl::InvalidArgumentError(s.message());
  }
  model->config.num_labels = ExpectedLabels(*spec, model->config);
  if (absl::Status s = CheckTargets(*spec, model->config); !s.ok()) return s;
  // Results name the id that was asked for, not a folder of this machine.
  if (!spec::RevisionOf(spec->model, model->folder).empty()) {
    spec->model_id = spec->model;
  }
  spec->model = model->folder;
  return Submission{spec->name, spec::ToJson(*spec), inputs->Links(),
                    DescribeEstimate(*spec, model->config)};
}

std::string RequestHash(const SubmitRequest& request) {
  nlohmann::json spec = nlohmann::json::parse(request.spec_json, nullptr,
                                              /*allow_exceptions=*/false);
  std::map<std::string, std::string> inputs;
  for (const InputFile& input : request.inputs) {
    inputs[input.path] = input.sha256;
  }
  const nlohmann::json canonical = {
      {"spec", spec.is_discarded() ? nlohmann::json(request.spec_json) : spec},
      {"inputs", inputs},
      {"priority", request.priority},
      {"owner", request.owner},
      {"labels", request.labels}};
  return base::Sha256Hex(
      canonical.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace mpsd::jobs
