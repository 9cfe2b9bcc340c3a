// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/named_results.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "core/spec/named_result.h"
#include "server/jobs/start_check.h"

namespace mpsd::jobs {
namespace {

absl::StatusOr<Job> FindNamed(const FindJob& find, const std::string& field,
                              const std::string& id) {
  absl::StatusOr<Job> job =
      find ? find(id) : absl::StatusOr<Job>(absl::NotFoundError(""));
  if (!absl::IsNotFound(job.status())) return job;
  return absl::FailedPreconditionError(
      absl::StrCat(field, ": there is no job ", id,
                   " whose result you may use: `mpsctl list` shows the jobs"));
}

OutputKind KindOf(const Job& job) {
  if (job.state == State::kSucceeded) return job.output_kind;
  return SpecOf(job).fine_tune_type == spec::FineTuneType::kLora
             ? OutputKind::kAdapter
             : OutputKind::kModel;
}

absl::Status CheckKind(const std::string& field, const Job& job) {
  if (IsStudy(job.kind)) {
    return absl::InvalidArgumentError(absl::StrCat(
        field, ": job ", job.id, " is a ", std::string(Name(job.kind)),
        ", which measures and makes neither an adapter nor a "
        "model: name a training job"));
  }
  const bool makes_adapter = KindOf(job) == OutputKind::kAdapter;
  if (makes_adapter == (field == "adapter")) return absl::OkStatus();
  if (!makes_adapter) {
    return absl::InvalidArgumentError(
        absl::StrCat("adapter: job ", job.id,
                     " makes a whole model and no adapter: name it as `model`, "
                     "\"",
                     spec::kNamedResult, job.id, "\""));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model: job ", job.id,
      " makes an adapter and no whole model: name it as `adapter`, beside the "
      "model that the adapter is for, \"",
      base::Quotable(job.model),
      "\"; or merge the two (`mpsctl download`, `mpsctl merge`) and name the "
      "merged folder"));
}

absl::Status Place(const FindJob& find, JobFiles& files,
                   const std::string& field, std::string& path) {
  const std::string id = spec::JobNamedBy(path);
  if (id.empty()) return absl::OkStatus();
  absl::StatusOr<Job> job = FindNamed(find, field, id);
  if (!job.ok()) return job.status();
  if (absl::Status s = CheckKind(field, *job); !s.ok()) return s;
  if (job->state != State::kSucceeded) return absl::OkStatus();
  if (job->output_path.empty() || !files.Exists(job->output_path)) {
    return absl::FailedPreconditionError(absl::StrCat(
        field, ": the result of job ", id, ", ",
        job->output_path.empty() ? "which it did not report" : job->output_path,
        ", is not on the daemon's disk"));
  }
  path = job->output_path;
  return absl::OkStatus();
}

}  // namespace

std::vector<std::string> JobsNamedBy(const spec::TrainSpec& spec) {
  std::vector<std::string> ids;
  for (const std::string& path : {spec.model, spec.adapter}) {
    std::string id = spec::JobNamedBy(path);
    const bool known = std::find(ids.begin(), ids.end(), id) != ids.end();
    if (!id.empty() && !known) ids.push_back(std::move(id));
  }
  return ids;
}

absl::Status PlaceResults(const FindJob& find, JobFiles& files,
                          spec::TrainSpec& spec) {
  absl::Status placed = Place(find, files, "model", spec.model);
  return placed.ok() ? Place(find, files, "adapter", spec.adapter) : placed;
}

absl::StatusOr<JobFiles::Model> ModelToBe(const FindJob& find, JobFiles& files,
                                          const std::string& name) {
  // Each job names one that was there before, so the walk ends; the bound is
  // for a damaged database.
  std::string model = name;
  for (size_t i = 0; i < limits::kAfter; ++i) {
    const std::string id = spec::JobNamedBy(model);
    if (id.empty()) {
      absl::StatusOr<JobFiles::Model> found = files.FindModel(model);
      if (found.ok()) found->folder = name;
      return found;
    }
    const absl::StatusOr<Job> job = FindNamed(find, "model", id);
    if (!job.ok()) return job.status();
    if (job->state == State::kSucceeded) {
      absl::StatusOr<JobFiles::Model> found =
          files.ReadResult(job->output_path);
      if (found.ok()) found->folder = name;
      return found;
    }
    model = job->model;
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "model: behind '", name, "' stand more than ", limits::kAfter,
      " jobs that have not ended: wait for some of them"));
}

std::vector<std::string> ResultsReadBy(const spec::TrainSpec& spec,
                                       const JobFiles& files) {
  std::vector<std::string> folders;
  const std::string jobs = absl::StrCat(files.jobs_dir().string(), "/");
  for (const std::string& path : {spec.model, spec.adapter}) {
    const std::filesystem::path normal =
        std::filesystem::path(path).lexically_normal();
    if (absl::StartsWith(normal.string(), jobs)) {
      folders.push_back(normal.string());
    }
  }
  return folders;
}

}  // namespace mpsd::jobs
