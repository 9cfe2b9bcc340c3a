// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/submission.h"

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/sha256.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "server/jobs/blob_store.h"

namespace mpsd::jobs {
namespace fs = std::filesystem;
namespace {

constexpr char kAdapterFolder[] = "adapter";
constexpr size_t kMaxKeyBytes = 128;

// Gives uploaded files their place below inputs/ and remembers which were used.
class Inputs {
 public:
  Inputs(const std::string& job_id, JobFiles& files, BlobStore& blobs)
      : job_id_(job_id), files_(files), blobs_(blobs) {}

  absl::Status Add(const std::vector<InputFile>& inputs) {
    for (const InputFile& input : inputs) {
      if (!IsSha256(input.sha256)) {
        return absl::InvalidArgumentError(
            absl::StrCat("input '", input.path,
                         "': sha256 must be 64 lower-case hexadecimal digits"));
      }
      if (!unused_.emplace(input.path, input.sha256).second) {
        return absl::InvalidArgumentError(
            absl::StrCat("input '", input.path, "' is given twice"));
      }
      if (!blobs_.Has(input.sha256)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "input '", input.path, "' (", input.sha256,
            ") has not been uploaded: send it with ArtifactService.Upload"));
      }
    }
    return absl::OkStatus();
  }

  // The path the worker gets for a data file of the spec.
  absl::StatusOr<std::string> File(const std::string& field,
                                   const std::string& path) {
    if (auto placed = placed_.find(path); placed != placed_.end()) {
      return placed->second;
    }
    auto input = unused_.find(path);
    if (input == unused_.end()) return Local(field, path);
    const std::string name = UniqueName(fs::path(path).filename().string());
    Place(name, input->second);
    unused_.erase(input);
    return placed_[path] = files_.InputPath(job_id_, name);
  }

  // The same for a folder: its files are the inputs below it.
  absl::StatusOr<std::string> Folder(const std::string& field,
                                     const std::string& folder) {
    bool found = false;
    for (auto it = unused_.begin(); it != unused_.end();) {
      const fs::path below =
          fs::path(it->first).lexically_relative(fs::path(folder) / "");
      if (below.empty() || *below.begin() == ".." || below == ".") {
        ++it;
        continue;
      }
      Place((fs::path(kAdapterFolder) / below).string(), it->second);
      it = unused_.erase(it);
      found = true;
    }
    if (!found) return Local(field, folder);
    return files_.InputPath(job_id_, kAdapterFolder);
  }

  absl::StatusOr<std::vector<JobFiles::Link>> TakeLinks() {
    if (unused_.empty()) return std::move(links_);
    return absl::InvalidArgumentError(
        absl::StrCat("input '", unused_.begin()->first,
                     "' is not named by the spec: dataset.train, dataset.eval "
                     "or a file below adapter must spell it the same way"));
  }

 private:
  absl::StatusOr<std::string> Local(const std::string& field,
                                    const std::string& path) {
    if (!fs::path(path).is_absolute()) {
      return absl::InvalidArgumentError(absl::StrCat(
          field, ": '", path,
          "' is a relative path and was not uploaded; list "
          "it in inputs (mpsctl submit does), or give the absolute path of a "
          "file on the daemon's machine"));
    }
    if (!files_.Exists(path)) {
      return absl::FailedPreconditionError(
          absl::StrCat(field, ": '", path,
                       "' is neither uploaded nor on the daemon's "
                       "machine"));
    }
    return path;
  }

  std::string UniqueName(std::string name) {
    if (name.empty() || name == "." || name == "..") name = "data";
    std::string unique = name;
    for (int i = 2; !names_.insert(unique).second; ++i) {
      unique = absl::StrCat(i, "-", name);
    }
    return unique;
  }

  void Place(const std::string& relative, const std::string& sha256) {
    links_.push_back({relative, blobs_.PathOf(sha256)});
  }

  const std::string& job_id_;
  JobFiles& files_;
  BlobStore& blobs_;
  std::map<std::string, std::string> unused_;  // path → sha256
  std::map<std::string, std::string> placed_;  // path → path for the worker
  std::set<std::string> names_ = {kAdapterFolder};
  std::vector<JobFiles::Link> links_;
};

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

absl::Status PlaceFiles(Inputs& inputs, const std::string& field,
                        std::vector<std::string>& paths) {
  for (std::string& path : paths) {
    absl::StatusOr<std::string> placed = inputs.File(field, path);
    if (!placed.ok()) return placed.status();
    path = *std::move(placed);
  }
  return absl::OkStatus();
}

absl::Status PlaceInputs(Inputs& inputs, spec::TrainSpec& spec) {
  absl::Status s = PlaceFiles(inputs, "dataset.train", spec.dataset.train);
  if (s.ok()) s = PlaceFiles(inputs, "dataset.eval", spec.dataset.eval);
  if (!s.ok() || spec.adapter.empty()) return s;
  absl::StatusOr<std::string> adapter = inputs.Folder("adapter", spec.adapter);
  if (!adapter.ok()) return adapter.status();
  spec.adapter = *std::move(adapter);
  return absl::OkStatus();
}

// That lora finds its modules in this model. What an adapter's folder asks for
// is the worker's to check: it may lie among blobs that have no folder yet.
absl::Status CheckTargets(const spec::TrainSpec& spec,
                          const spec::ModelConfig& model) {
  if (!spec.adapter.empty()) return absl::OkStatus();
  auto targets = spec::MatchTargets(spec.lora, model);
  if (!targets.ok()) return targets.status();
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

  Inputs inputs(job_id, files, blobs);
  if (absl::Status s = inputs.Add(request.inputs); !s.ok()) return s;
  if (absl::Status s = PlaceInputs(inputs, *spec); !s.ok()) return s;
  absl::StatusOr<std::vector<JobFiles::Link>> links = inputs.TakeLinks();
  if (!links.ok()) return links.status();

  absl::StatusOr<JobFiles::Model> model = FindModel(files, spec->model);
  if (!model.ok()) return model.status();
  if (absl::Status s = CheckTargets(*spec, model->config); !s.ok()) return s;
  spec->model = model->folder;
  return Submission{spec->name, spec::ToJson(*spec), *std::move(links),
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
