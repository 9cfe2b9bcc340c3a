// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/start_checks.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "core/base/status_macros.h"
#include "core/base/text.h"
#include "core/base/units.h"

namespace mpsd::jobs {
namespace {

// A job whose path is missing is checked again at least this often.
constexpr absl::Duration kPathInterval = absl::Seconds(30);

}  // namespace

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

std::vector<std::string> ReadInState(const std::set<std::string>& uses,
                                     const spec::TrainSpec& spec,
                                     JobFiles& files) {
  std::set<std::string> roots;
  spec::VisitPaths(spec, [&](const char*, const std::string& path) {
    if (path.empty() || spec::NamesResult(path)) return;
    const std::string place = files.PlaceInState(path);
    const std::vector<std::string> parts = absl::StrSplit(place, '/');
    const bool used =
        parts[0] == "jobs" && parts.size() > 1 && uses.contains(parts[1]);
    if (used) {
      roots.insert((files.state_dir() / "jobs" / parts[1]).string());
    } else if (parts[0] == "models" && &path == &spec.model) {
      roots.insert((files.state_dir() / place).string());
    }
  });
  return {roots.begin(), roots.end()};
}

namespace {

std::map<std::string, std::string> StampsOf(const spec::TrainSpec& spec,
                                            JobFiles& files) {
  std::map<std::string, std::string> stamps;
  spec::VisitPaths(spec, [&](const char* field, const std::string& path) {
    if (!path.starts_with('/')) return;
    const std::string stamp = files.StampOf(path);
    if (!stamp.empty()) stamps[field] = base::Sha256Hex(stamps[field] + stamp);
  });
  return stamps;
}

}  // namespace

std::string InputStamps(const spec::TrainSpec& spec, JobFiles& files) {
  return nlohmann::json(StampsOf(spec, files)).dump();
}

std::string ChangedInputs(const Job& job, const spec::TrainSpec& spec,
                          JobFiles& files) {
  // Older jobs have none.
  auto before = base::ParseTree<nlohmann::json>(job.input_stamps);
  if (!before.is_object()) return "";
  std::vector<std::string> changed;
  for (const auto& [field, stamp] : StampsOf(spec, files)) {
    const auto known = before.find(field);
    if (known != before.end() && *known != stamp) changed.push_back(field);
  }
  if (changed.empty()) return "";
  return absl::StrCat(
      absl::StrJoin(changed, ", "),
      ": files changed after the job was submitted, and the job reads them as "
      "they are now; run.json has the SHA-256 of the model and of the data");
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

bool NamesResultOf(const Job& job, const std::string& id) {
  const std::vector<std::string> named = JobsNamedBy(SpecOf(job));
  return std::find(named.begin(), named.end(), id) != named.end();
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

void StartBlockers::Set(HoldReason reason, const std::string& why) {
  if (!view_.SetQueueHold(reason, why)) return;
  exported_metrics_.Held(view_.holds());
  const std::string name(Name(reason));
  journal_.Add("", why.empty()
                       ? absl::StrCat("jobs start again (", name, ")")
                       : absl::StrCat("no job starts (", name, "): ", why));
}

bool StartBlockers::Stored(const absl::Status& status) {
  // A row that is already there is another program's: this one's memory and the
  // database differ, and only a restart reads the rows again.
  if (absl::IsAlreadyExists(status)) {
    give_up_(absl::StrCat("another program wrote the queue: ",
                          std::string(status.message())));
  }
  if (status.ok()) {
    Set(HoldReason::kStorage, "");
  } else if (!Has(HoldReason::kStorage)) {
    Set(HoldReason::kStorage,
        absl::StrCat("the queue cannot be written, what happens waits in "
                     "memory: ",
                     status.message()));
  }
  return status.ok();
}

bool PriorGate::Await(const Job& job) {
  if (!AwaitsPriors(job) || job.held) {
    waiting_.Forget(job.id);
    return false;
  }
  // Registered as a waiting job before the states are read: a job that ends in
  // between causes another check of this one.
  waiting_.Await(job.id, job.after);
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(job.after);
  PriorStanding standing;
  if (states.ok()) {
    standing = StandingOf(job, *states);
  } else {
    standing.waits = absl::StrCat("the jobs that it waits for cannot be read: ",
                                  states.status().message());
  }
  if (standing.waits.empty() && standing.failed.empty()) {
    waiting_.Forget(job.id);
    return false;
  }
  // The next Tick stores the hold.
  if (!states.ok() || !standing.failed.empty()) waiting_.LookAt(job.id);
  dependencies_.view.HoldJob(
      job.id, standing.failed.empty() ? standing.waits : standing.failed,
      absl::InfiniteDuration());
  return true;
}

void PriorGate::Ended(const std::string& id) {
  waiting_.Forget(id);
  waiting_.Changed(id);
}

bool PriorGate::Look(const std::string& id) {
  if (Check(id)) return true;
  waiting_.LookAt(id);
  return false;
}

bool PriorGate::Check(const std::string& id) {
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  const bool lost =
      absl::IsNotFound(job.status()) || absl::IsDataLoss(job.status());
  if (!job.ok() && !lost) return false;
  const absl::Time now = dependencies_.clock.Now();
  if (lost || !AwaitsPriors(*job) || job->held) {
    // The scheduler reports what is wrong with a row that cannot be read.
    waiting_.Forget(id);
    if (lost) dependencies_.view.Unhold(id, now);
    return true;
  }
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(job->after);
  if (!states.ok()) return false;
  const PriorStanding standing = StandingOf(*job, *states);
  if (!standing.failed.empty()) return Hold(*std::move(job), standing.failed);
  if (!standing.waits.empty()) {
    dependencies_.view.HoldJob(id, standing.waits, absl::InfiniteDuration());
    return true;
  }
  waiting_.Forget(id);
  // The time that it waited for other jobs does not count as waiting for the
  // device.
  dependencies_.view.Unhold(id, now);
  dependencies_.journal.Add(id, "the jobs that it waited for have succeeded");
  return true;
}

bool PriorGate::Hold(Job job, const std::string& why) {
  const std::string id = job.id;
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, std::move(job));
  if (!run.ok()) return false;
  run->Held(why, dependencies_.clock.Now());
  if (!dependencies_.blockers.Stored(run->Flush(dependencies_.store))) {
    return false;
  }
  waiting_.Forget(id);
  dependencies_.view.HoldJob(id, why, absl::InfiniteDuration());
  dependencies_.journal.Add(id, absl::StrCat("held: ", why));
  return true;
}

absl::Status PriorGate::ForgetFailed(Job& job) {
  if (!AwaitsPriors(job)) return absl::OkStatus();
  ASSIGN_OR_RETURN(const PriorStates states,
                   dependencies_.store.StatesOf(job.after));
  job.after = WithoutFailed(job, states);
  return absl::OkStatus();
}

bool StartChecks::IsReady() {
  const absl::Status ready = dependencies_.launcher.Ready();
  dependencies_.blockers.Set(HoldReason::kDevice, std::string(ready.message()));
  const std::string full =
      FullDisk(options_.min_free_bytes, dependencies_.files);
  dependencies_.blockers.Set(HoldReason::kDisk, full);
  return ready.ok() && full.empty();
}

bool StartChecks::HasDisk() const {
  return FullDisk(options_.min_free_bytes, dependencies_.files).empty();
}

bool StartChecks::HasItsFiles(const Job& job, const spec::TrainSpec& spec) {
  std::string lacks = MissingPath(job, spec, dependencies_.files);
  if (lacks.empty()) {
    lacks = NoRoomFor(job, options_.min_free_bytes, dependencies_.files);
  }
  if (lacks.empty()) return true;
  Wait(job.id, lacks, std::min(kPathInterval, options_.retry.max_backoff));
  return false;
}

bool StartChecks::TakeResults(const Job& job, spec::TrainSpec& spec,
                              std::string& spec_json) {
  if (JobsNamedBy(spec).empty()) return true;
  const auto find = [this](const std::string& id) {
    return dependencies_.store.Get(id);
  };
  absl::Status placed = PlaceResults(find, dependencies_.files, spec);
  const std::vector<std::string> left = JobsNamedBy(spec);
  if (placed.ok() && !left.empty()) {
    placed = absl::FailedPreconditionError(
        absl::StrCat("job ", left.front(), " has no result"));
  }
  if (placed.ok()) {
    spec_json = spec::ToJson(spec);
    // Before the row is RUNNING: if mpsd is killed in between, the next start
    // takes the results again.
    placed = dependencies_.files.ReplaceSpec(job.id, spec_json);
  }
  if (placed.ok()) return true;
  Wait(job.id, std::string(placed.message()),
       std::min(kPathInterval, options_.retry.max_backoff));
  return false;
}

bool StartChecks::Clear(const std::string& id) {
  const absl::Status removed = dependencies_.remover.RemoveRun(id);
  if (removed.ok()) return true;
  Wait(id,
       absl::StrCat("what an earlier attempt left cannot be removed: ",
                    removed.message()),
       options_.retry.first_backoff);
  return false;
}

void StartChecks::Wait(const std::string& id, const std::string& why,
                       absl::Duration time) {
  if (dependencies_.view.HoldOf(id) != why) {
    dependencies_.journal.Add(id, absl::StrCat("waits: ", why));
  }
  dependencies_.view.HoldJob(id, why, dependencies_.clock.Monotonic() + time);
}

LaunchRequest LaunchRequestOf(const Job& job, const spec::TrainSpec& spec,
                              absl::Duration hang_timeout,
                              const JobFiles& files) {
  LaunchRequest request;
  request.job_id = job.id;
  request.kind = job.kind;
  request.study = job.study_json;
  request.spec_path = files.SpecPath(job.id);
  request.output_dir = files.OutputDir(job.id);
  request.log_path = files.LogPath(job.id);
  request.hang_timeout = hang_timeout;
  if (job.progress) {
    request.slowest_step = absl::Seconds(job.progress->seconds);
  }
  request.allow_cpu_fallback = spec.allow_cpu_fallback;
  request.model_folder = spec.model;
  request.model_name = job.model;
  return request;
}

}  // namespace mpsd::jobs
