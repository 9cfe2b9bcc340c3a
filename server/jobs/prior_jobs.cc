// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/prior_jobs.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/units.h"
#include "core/base/limits.h"
#include "core/base/text.h"
#include "core/base/status_macros.h"
#include "core/spec/train_spec.h"

namespace mpsd::jobs {

spec::TrainSpec SpecOf(const Job& job) {
  return spec::ParseTrainSpec(job.spec_json, "job.json")
      .value_or(spec::TrainSpec());
}

std::string MissingPath(const Job& job, const spec::TrainSpec& spec,
                        JobFiles& files) {
  if (!files.Exists(files.SpecPath(job.id))) {
    return absl::StrCat("the job's folder ", files.Folder(job.id),
                        " is not there: it starts when it is back");
  }
  std::string missing;
  spec::VisitPaths(spec, [&](const char* field, const std::string& path) {
    if (!missing.empty() || path.empty() || files.Exists(path)) return;
    missing = absl::StrCat(
        field, ": '", path,
        "' was on this machine when the job was submitted and is not now: the "
        "job starts when it is back");
  });
  return missing;
}

std::string FullDisk(int64_t floor, JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free >= floor) return "";
  return absl::StrCat("the state folder's disk has ", base::BytesText(*free),
                      " left and jobs start with ", base::BytesText(floor),
                      " or more (mpsd --min-free-bytes): make room");
}

std::string NoRoomFor(const Job& job, int64_t floor, JobFiles& files) {
  const std::optional<int64_t> free = files.FreeBytes();
  if (!free || *free - floor >= job.checkpoint_bytes) return "";
  return absl::StrCat("a checkpoint of the job takes about ",
                      base::BytesText(job.checkpoint_bytes),
                      " and the state folder's disk has ",
                      base::BytesText(*free), " left, of which ",
                      base::BytesText(floor),
                      " are kept free (mpsd --min-free-bytes): make room");
}

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
      " makes an adapter and no whole model: name it as `adapter`, next to the "
      "model that the adapter is for, \"",
      base::Quotable(job.model),
      "\"; or merge the two (`mpsctl download`, `mpsctl merge`) and name the "
      "merged folder"));
}

absl::Status Place(const FindJob& find, JobFiles& files,
                   const std::string& field, std::string& path) {
  const std::string id = spec::JobNamedBy(path);
  if (id.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(Job job, FindNamed(find, field, id));
  RETURN_IF_ERROR(CheckKind(field, job));
  if (job.state != State::kSucceeded) return absl::OkStatus();
  if (job.output_path.empty() || !files.Exists(job.output_path)) {
    return absl::FailedPreconditionError(absl::StrCat(
        field, ": the result of job ", id, ", ",
        job.output_path.empty() ? "which it did not report" : job.output_path,
        ", is not on the daemon's disk"));
  }
  path = job.output_path;
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
  // Each job names one that existed before, so the walk ends; the bound is for
  // a damaged database.
  std::string model = name;
  for (size_t i = 0; i < limits::kAfter; ++i) {
    const std::string id = spec::JobNamedBy(model);
    if (id.empty()) {
      absl::StatusOr<JobFiles::Model> found = files.FindModel(model);
      if (found.ok()) found->folder = name;
      return found;
    }
    ASSIGN_OR_RETURN(const Job job, FindNamed(find, "model", id));
    if (job.state == State::kSucceeded) {
      absl::StatusOr<JobFiles::Model> found = files.ReadResult(job.output_path);
      if (found.ok()) found->folder = name;
      return found;
    }
    model = job.model;
  }
  return absl::FailedPreconditionError(
      absl::StrCat("model: '", name, "' depends on more than ", limits::kAfter,
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

namespace {

std::optional<State> Find(const PriorStates& states, const std::string& id) {
  const auto found = states.find(id);
  if (found == states.end()) return std::nullopt;
  return found->second;
}

bool Failed(std::optional<State> state) {
  return !state || *state == State::kFailed || *state == State::kCancelled;
}

std::string Describe(std::optional<State> state) {
  return state ? absl::StrCat(" is ", std::string(Name(*state)))
               : " no longer exists";
}

// As the submitted spec spells it; the path of a result that replaced it never
// names a job that has not succeeded.
bool NamesResultOf(const Job& job, const std::string& id) {
  return absl::StrContains(job.spec_json,
                           absl::StrCat("\"", spec::kNamedResult, id, "\""));
}

std::string WhyHeld(const Job& job, const std::string& prior,
                    std::optional<State> state) {
  const bool named = NamesResultOf(job, prior);
  std::string why = absl::StrCat(
      "job ", prior, Describe(state), ", and this ",
      named ? "job starts from its result" : "job waits for its success");
  if (state)
    absl::StrAppend(&why, "; `mpsctl retry ", prior, "`, then release");
  if (!named) absl::StrAppend(&why, "; released, it no longer waits for it");
  return why.substr(0, limits::kReasonBytes);
}

}  // namespace

bool AwaitsPriors(const Job& job) {
  return job.state == State::kQueued && job.attempt == 0 && !job.after.empty();
}

PriorStanding StandingOf(const Job& job, const PriorStates& states) {
  PriorStanding standing;
  size_t waits = 0;
  for (const std::string& id : job.after) {
    const std::optional<State> state = Find(states, id);
    if (Failed(state) && standing.failed.empty()) {
      standing.failed = WhyHeld(job, id, state);
    }
    if (Failed(state) || *state == State::kSucceeded) continue;
    if (++waits == 1) {
      standing.waits = absl::StrCat("waits for job ", id, ", which",
                                    Describe(state), ", to succeed");
    }
  }
  if (waits > 1) {
    absl::StrAppend(&standing.waits, ", and for ", waits - 1, " more");
  }
  return standing;
}

std::vector<std::string> WithoutFailed(const Job& job,
                                       const PriorStates& states) {
  std::vector<std::string> kept;
  for (const std::string& id : job.after) {
    if (!Failed(Find(states, id)) || NamesResultOf(job, id)) {
      kept.push_back(id);
    }
  }
  return kept;
}

void WaitingJobs::Await(const std::string& id,
                        const std::vector<std::string>& priors) {
  absl::MutexLock lock(&mutex_);
  ForgetLocked(id);
  if (priors.empty()) return;
  priors_[id] = priors;
  for (const std::string& prior : priors) waiting_[prior].insert(id);
}

void WaitingJobs::Forget(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  ForgetLocked(id);
}

void WaitingJobs::ForgetLocked(const std::string& id) {
  changed_.erase(id);
  const auto known = priors_.find(id);
  if (known == priors_.end()) return;
  for (const std::string& prior : known->second) {
    const auto waiting = waiting_.find(prior);
    if (waiting == waiting_.end()) continue;
    waiting->second.erase(id);
    if (waiting->second.empty()) waiting_.erase(waiting);
  }
  priors_.erase(known);
}

void WaitingJobs::Changed(const std::string& prior) {
  absl::MutexLock lock(&mutex_);
  const auto waiting = waiting_.find(prior);
  if (waiting == waiting_.end()) return;
  changed_.insert(waiting->second.begin(), waiting->second.end());
}

void WaitingJobs::LookAt(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  if (priors_.contains(id)) changed_.insert(id);
}

std::optional<std::string> WaitingJobs::Take() {
  absl::MutexLock lock(&mutex_);
  if (changed_.empty()) return std::nullopt;
  return std::move(changed_.extract(changed_.begin()).value());
}

}  // namespace mpsd::jobs
