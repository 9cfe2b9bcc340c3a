// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/scheduler.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "server/jobs/submission.h"

namespace mpsd::jobs {
namespace {

constexpr int kPage = 500;
constexpr int kMaxEvents = 1000;

}  // namespace

Scheduler::Scheduler(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      ids_(parts.clock, options_.random),
      gate_(options_.pause) {}

Scheduler::~Scheduler() {
  std::unique_ptr<Worker> worker;
  {
    absl::MutexLock lock(&mutex_);
    draining_ = true;
    if (attempt_) worker = std::move(attempt_->worker);
  }
  // Its last callbacks still find the attempt, without the lock.
  worker.reset();
}

absl::StatusOr<SubmitResult> Scheduler::Submit(const SubmitRequest& request) {
  const std::string hash = RequestHash(request);
  absl::StatusOr<std::optional<SubmitResult>> earlier =
      FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);

  Job job;
  job.id = ids_.Next();
  absl::StatusOr<Submission> checked =
      CheckSubmission(request, job.id, parts_.files, parts_.blobs);
  if (!checked.ok()) return checked.status();
  job.name = checked->name;
  job.spec_json = checked->spec_json;
  job.priority = request.priority;
  job.owner = request.owner;
  job.labels = request.labels;
  job.idempotency_key = request.idempotency_key;
  job.request_hash = hash;
  job.create_time = parts_.clock.Now();

  absl::Status status =
      parts_.files.Create(job.id, job.spec_json, checked->links);
  if (!status.ok()) return status;
  status = Insert(job, checked->note);
  if (status.ok()) {
    Log(job.id, "queued");
    options_.on_change();
    return SubmitResult{std::move(job), false};
  }
  parts_.files.Remove(job.id);
  if (!absl::IsAlreadyExists(status)) return status;
  // The same key came in by another door meanwhile.
  earlier = FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);
  return status;
}

absl::StatusOr<std::optional<SubmitResult>> Scheduler::FindEarlier(
    const SubmitRequest& request, const std::string& hash) {
  if (request.idempotency_key.empty()) return std::nullopt;
  absl::StatusOr<std::optional<Job>> job =
      parts_.store.FindByIdempotencyKey(request.idempotency_key);
  if (!job.ok()) return job.status();
  if (!job->has_value()) return std::nullopt;
  if ((*job)->request_hash != hash) {
    return absl::AlreadyExistsError(absl::StrCat(
        "idempotency_key '", request.idempotency_key, "' was used for job ",
        (*job)->id, " with another request: choose another key"));
  }
  return SubmitResult{**std::move(job), true};
}

absl::Status Scheduler::Insert(const Job& job, const std::string& note) {
  const Event first{job.id, 1, job.create_time,
                    StateChanged{State::kQueued, note}};
  absl::MutexLock lock(&mutex_);
  if (draining_) {
    return absl::UnavailableError("mpsd is stopping: submit again later");
  }
  absl::Status status = parts_.store.Insert(job, first);
  if (!status.ok()) return status;
  Enqueue(job, job.create_time);
  PublishCounts();
  return absl::OkStatus();
}

absl::StatusOr<Job> Scheduler::Get(const std::string& id) {
  return parts_.store.Get(id);
}

absl::StatusOr<std::vector<Job>> Scheduler::List(const ListFilter& filter) {
  return parts_.store.List(filter);
}

absl::StatusOr<Job> Scheduler::Cancel(const std::string& id) {
  absl::StatusOr<Job> job = [&]() -> absl::StatusOr<Job> {
    absl::MutexLock lock(&mutex_);
    const bool holds_device = attempt_ && attempt_->run.job().id == id;
    if (!holds_device || attempt_->ended) return CancelStored(id);
    CancelAttempt();
    return attempt_->run.job();
  }();
  hub_.Wake(id);
  options_.on_change();
  return job;
}

absl::StatusOr<Job> Scheduler::CancelStored(const std::string& id) {
  absl::StatusOr<Job> job = parts_.store.Get(id);
  if (!job.ok() || IsFinal(job->state)) return job;
  if (job->state == State::kRunning) {
    return absl::UnavailableError(
        "the end of the job's last attempt is not stored yet: try again");
  }
  absl::StatusOr<RunningJob> run = LoadRun(*std::move(job));
  if (!run.ok()) return run.status();
  run->Moved(State::kCancelled, "cancelled", parts_.clock.Now());
  if (absl::Status s = run->Flush(parts_.store); !s.ok()) return s;
  queue_.Remove(id);
  parts_.metrics.JobEnded(id);
  PublishCounts();
  Log(id, "cancelled while queued");
  return run->job();
}

void Scheduler::CancelAttempt() {
  if (attempt_->run.job().cancel_requested) return;
  attempt_->run.CancelRequested(parts_.clock.Now());
  FlushAttempt();
  if (attempt_->worker) attempt_->worker->Cancel(options_.stop_grace);
  Log(attempt_->run.job().id, "cancel requested");
}

absl::StatusOr<std::vector<Checkpoint>> Scheduler::Checkpoints(
    const std::string& id) {
  absl::StatusOr<Job> job = parts_.store.Get(id);
  if (!job.ok()) return job.status();
  return parts_.store.Checkpoints(id);
}

std::optional<int32_t> Scheduler::QueuePosition(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  return queue_.Position(id);
}

absl::StatusOr<std::vector<Event>> Scheduler::Events(const std::string& id,
                                                     int64_t after) {
  absl::StatusOr<std::vector<Event>> events =
      parts_.store.Events(id, after, kMaxEvents);
  if (events.ok() && events->empty()) {
    if (absl::StatusOr<Job> job = parts_.store.Get(id); !job.ok()) {
      return job.status();
    }
  }
  return events;
}

int64_t Scheduler::Subscribe(const std::string& id,
                             std::function<void()> wake) {
  return hub_.Subscribe(id, std::move(wake));
}

void Scheduler::Unsubscribe(int64_t token) { hub_.Unsubscribe(token); }

ManagerInfo Scheduler::Info() {
  absl::StatusOr<std::map<State, int64_t>> jobs = parts_.store.CountByState();
  absl::MutexLock lock(&mutex_);
  ManagerInfo info = info_;
  if (jobs.ok()) info.jobs = *std::move(jobs);
  if (attempt_ && !attempt_->ended) {
    info.running_job_id = attempt_->run.job().id;
    info.pause = AttemptPause();
  } else {
    info.pause.reasons = gate_.reasons();
  }
  return info;
}

std::string Scheduler::LogPath(const std::string& id) const {
  return IsJobId(id) ? parts_.files.LogPath(id) : "";
}

std::string Scheduler::JobFolder(const std::string& id) const {
  return IsJobId(id) ? parts_.files.Folder(id) : "";
}

absl::Status Scheduler::Recover() {
  ListFilter filter;
  filter.states = {State::kRunning, State::kQueued};
  filter.limit = kPage;
  while (true) {
    absl::StatusOr<std::vector<Job>> page = parts_.store.List(filter);
    if (!page.ok()) return page.status();
    for (Job& job : *page) {
      filter.before_id = job.id;
      if (absl::Status s = RecoverJob(std::move(job)); !s.ok()) return s;
    }
    if (page->size() < kPage) break;
  }
  PublishCounts();
  return absl::OkStatus();
}

absl::Status Scheduler::RecoverJob(Job job) {
  const absl::Time now = parts_.clock.Now();
  absl::MutexLock lock(&mutex_);
  if (job.state == State::kQueued) {
    Enqueue(job, job.create_time);
    return absl::OkStatus();
  }
  absl::StatusOr<RunningJob> run = LoadRun(std::move(job));
  if (!run.ok()) return run.status();
  if (run->job().cancel_requested) {
    run->Moved(State::kCancelled, "cancelled; mpsd ended before the worker did",
               now);
  } else {
    run->Moved(State::kQueued,
               "mpsd ended while the job ran; it resumes from its last "
               "checkpoint",
               now);
    Enqueue(run->job(), now);
  }
  Log(run->job().id, run->job().message);
  return run->Flush(parts_.store);
}

absl::StatusOr<RunningJob> Scheduler::LoadRun(Job job) {
  absl::StatusOr<int64_t> sequence = parts_.store.LastSequence(job.id);
  if (!sequence.ok()) return sequence.status();
  absl::StatusOr<std::vector<Checkpoint>> checkpoints =
      parts_.store.Checkpoints(job.id);
  if (!checkpoints.ok()) return checkpoints.status();
  const int64_t last = checkpoints->empty() ? 0 : checkpoints->back().step;
  return RunningJob(std::move(job), *sequence, last);
}

void Scheduler::Enqueue(const Job& job, absl::Time since) {
  queue_.Push({job.id, job.priority, since,
               job.not_before.value_or(absl::InfinitePast())});
}

void Scheduler::PublishCounts() {
  absl::StatusOr<std::map<State, int64_t>> jobs = parts_.store.CountByState();
  if (jobs.ok()) parts_.metrics.JobCounts(*jobs);
}

void Scheduler::Log(const std::string& id, const std::string& line) {
  parts_.files.AppendLog(id, line);
  options_.log(absl::StrCat("job ", id, ": ", line));
}

}  // namespace mpsd::jobs
