// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/submission.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/backend/traits.h"
#include "core/base/json_depth.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/base/sha256.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "server/jobs/inputs.h"

namespace mpsd::jobs {
namespace {

absl::Status CheckName(const std::string& name) {
  if (name.size() > limits::kNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("job.json: name: has ", name.size(), " bytes, at most ",
                     limits::kNameBytes, " are allowed"));
  }
  if (base::IsPrintable(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("job.json: name: '", base::Quotable(name),
                   "' has a line break, another control character or a mark "
                   "that turns the direction of writing; leave it out"));
}

absl::Status CheckStored(const std::string& spec_json) {
  if (spec_json.size() <= limits::kStoredSpecBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "spec_json: has ", spec_json.size(),
      " bytes with its defaults and the paths on the daemon's machine, at "
      "most ",
      limits::kStoredSpecBytes,
      " are allowed; name fewer files, or the folder around them"));
}

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
                     std::string& path, JobFiles::Use use) {
  absl::StatusOr<std::string> resolved = inputs.Resolve(field, path, use);
  if (!resolved.ok()) return resolved.status();
  path = *std::move(resolved);
  return absl::OkStatus();
}

// Whether a data file may name further files; only the file itself has the
// paths.
bool RowsNameFiles(const spec::TrainSpec& spec) {
  return spec.task == spec::Task::kImageCls;
}

absl::Status PlaceInputs(Inputs& inputs, spec::TrainSpec& spec) {
  spec::DatasetSpec& dataset = spec.dataset;
  const size_t files =
      dataset.train.size() + dataset.eval.size() + dataset.predict.size();
  if (files > limits::kInputs) {
    return absl::InvalidArgumentError(
        absl::StrCat("dataset: train, eval and predict name ", files,
                     " files, at most ", limits::kInputs, " are allowed"));
  }
  absl::Status resolved;
  spec::VisitPaths(spec, [&](const char* field, std::string& path) {
    const bool data = std::string_view(field).starts_with("dataset.");
    if (!resolved.ok() || &path == &spec.model || (path.empty() && !data)) {
      return;
    }
    resolved = Resolve(inputs, field, path,
                       data ? JobFiles::Use::kData : JobFiles::Use::kEither);
  });
  if (!resolved.ok()) return resolved;
  return RowsNameFiles(spec) ? absl::OkStatus() : inputs.CheckAllUsed();
}

// The number of outputs of the head, as far as it is known before the data are
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

// Checks that lora finds its target modules in this model. The worker checks
// the modules of an adapter's folder, which may still be blobs without a
// folder.
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

double Gibibytes(int64_t bytes) {
  return static_cast<double>(bytes) / (1 << 30);
}

// The least memory that the job can run with: auto_find_batch_size goes down to
// single rows whose layers are recomputed.
int64_t LeastMemory(spec::TrainSpec spec, const spec::ModelConfig& model) {
  if (spec.training.auto_find_batch_size) {
    spec.training.per_device_train_batch_size = 1;
    spec.training.set_recompute(spec::Recompute::kFull);
  }
  return spec::EstimateMemory(spec, model).total_bytes;
}

// The memory of the job's device in bytes; 0 where it is not known.
int64_t LimitOf(const MachineMemory& memory, spec::DeviceChoice device) {
  const backend::MemoryPlace place = backend::TraitsOf(device).memory;
  if (place == backend::MemoryPlace::kHost) return memory.host_bytes;
  const bool told =
      memory.device_bytes > 0 && (device == spec::DeviceChoice::kAuto ||
                                  memory.device == backend::NameOf(device));
  if (told) return memory.device_bytes;
  return place == backend::MemoryPlace::kOwn ? 0 : memory.host_bytes;
}

absl::Status CheckFits(const spec::TrainSpec& spec, int64_t needed,
                       const MachineMemory& memory) {
  const int64_t limit = LimitOf(memory, spec.device);
  if (limit <= 0 || needed <= limit) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "the job needs about %.2f GiB of memory and this machine has %.2f GiB "
      "for it: lower training.per_device_train_batch_size or "
      "training.max_length, set training.gradient_checkpointing, or hold the "
      "base in few bits (quantization_config); `mpsctl submit --anyway` "
      "(SubmitRequest.anyway) queues it nonetheless",
      Gibibytes(needed), Gibibytes(limit)));
}

std::string DescribeEstimate(const spec::TrainSpec& spec,
                             const spec::ModelConfig& model) {
  const spec::MemoryEstimate estimate = spec::EstimateMemory(spec, model);
  return absl::StrFormat(
      "estimated device memory %.2f GiB, %d trainable parameters",
      Gibibytes(estimate.total_bytes),
      spec::TrainableParameterCount(spec, model));
}

// Checks a job.json for training: the spec, its inputs, its model and its
// memory.
absl::StatusOr<Submission> CheckTraining(const SubmitRequest& request,
                                         const std::string& job_id,
                                         JobFiles& files, BlobStore& blobs,
                                         const MachineMemory& memory) {
  absl::StatusOr<spec::TrainSpec> spec =
      spec::ParseTrainSpec(request.spec_json, "job.json");
  if (!spec.ok()) return spec.status();
  if (absl::Status s = CheckName(spec->name); !s.ok()) return s;

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
  // Keep the requested id: results name the id, not a folder of this machine.
  if (!spec::RevisionOf(spec->model, model->folder).empty()) {
    spec->model_id = spec->model;
  }
  spec->model = model->folder;
  Submission submission;
  submission.memory_bytes = LeastMemory(*spec, model->config);
  if (!request.anyway) {
    absl::Status fits = CheckFits(*spec, submission.memory_bytes, memory);
    if (!fits.ok()) return fits;
  }
  // A checkpoint holds the values and both moments of the trained weights,
  // without gradients.
  submission.checkpoint_bytes =
      spec::EstimateMemory(*spec, model->config).trainable_bytes / 4 * 3;
  submission.name = spec->name;
  submission.spec_json = spec::ToJson(*spec);
  absl::Status stored = CheckStored(submission.spec_json);
  if (!stored.ok()) return stored;
  submission.links = inputs->Links();
  submission.note = DescribeEstimate(*spec, model->config);
  return submission;
}

}  // namespace

absl::StatusOr<Submission> CheckSubmission(const SubmitRequest& request,
                                           const std::string& job_id,
                                           JobFiles& files, BlobStore& blobs,
                                           const MachineMemory& memory) {
  switch (request.kind) {
    case JobKind::kTraining:
      return CheckTraining(request, job_id, files, blobs, memory);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("kind: this mpsd has no kind of job with the number ",
                   static_cast<int>(request.kind)));
}

std::string RequestHash(const SubmitRequest& request) {
  nlohmann::json spec = base::ParseTree<nlohmann::json>(request.spec_json);
  // "$schema" is for editors: the job is the same with and without the field.
  if (spec.is_object()) spec.erase("$schema");
  std::map<std::string, std::string> inputs;
  for (const InputFile& input : request.inputs) {
    inputs[input.path] = input.sha256;
  }
  nlohmann::json canonical = {
      {"spec", spec.is_discarded() ? nlohmann::json(request.spec_json) : spec},
      {"inputs", inputs},
      {"priority", request.priority},
      {"owner", request.owner},
      {"labels", request.labels}};
  // The kind is left out for training, so that hashes of rows from before there
  // were kinds stay valid.
  if (request.kind != JobKind::kTraining) {
    canonical["kind"] = static_cast<int>(request.kind);
  }
  return base::Sha256Hex(
      canonical.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

}  // namespace mpsd::jobs
