// SPDX-License-Identifier: Apache-2.0
// The Scheduler's part in jobs that wait for others (prior_jobs.h) and that go
// on from the results of others (named_results.h).
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "server/jobs/named_results.h"
#include "server/jobs/prior_jobs.h"
#include "server/jobs/scheduler.h"
#include "server/jobs/start_check.h"

namespace mpsd::jobs {
namespace {

// So many waiting jobs are looked at in one Tick; each may be a write.
constexpr size_t kLooks = 20;

}  // namespace

FindJob Scheduler::ReadableJobs(const SubmitRequest& request) {
  return [&request, this](const std::string& id) -> absl::StatusOr<Job> {
    if (request.may_read_job && !request.may_read_job(id)) {
      return absl::NotFoundError(id);
    }
    return dependencies_.store.Get(id);
  };
}

absl::StatusOr<std::vector<std::string>> Scheduler::PriorsOf(
    const SubmitRequest& request, const std::vector<std::string>& named) {
  std::vector<std::string> priors = named;
  std::set<std::string> known(named.begin(), named.end());
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(request.after);
  if (!states.ok()) return states.status();
  for (const std::string& id : request.after) {
    const bool may_read = !request.may_read_job || request.may_read_job(id);
    // Only jobs that exist can be named, and nobody knows the id of a job to
    // be: so no circle comes about.
    if (!may_read || !states->contains(id)) {
      return absl::FailedPreconditionError(absl::StrCat(
          "after: there is no job '", base::Quotable(id),
          "' that you may wait for: `mpsctl list` shows the jobs"));
    }
    if (known.insert(id).second) priors.push_back(id);
  }
  return priors;
}

bool Scheduler::AwaitPriors(const Job& job) {
  if (!AwaitsPriors(job) || job.held) {
    waiting_.Forget(job.id);
    return false;
  }
  // Known as a waiting job before the states are read: a job that ends in
  // between has this one looked at again.
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
  view_.HoldJob(job.id,
                standing.failed.empty() ? standing.waits : standing.failed,
                absl::InfiniteDuration());
  return true;
}

bool Scheduler::StillAwaitsPriors(const Job& job) {
  if (!AwaitsPriors(job)) return false;
  Turn turn(*this);
  return AwaitPriors(job);
}

absl::Time Scheduler::LookAtWaiting() {
  absl::Time next = absl::InfiniteFuture();
  for (size_t i = 0; i < kLooks; ++i) {
    const std::optional<std::string> id = waiting_.Take();
    if (!id) return next;
    Turn turn(*this);
    turn.Wake(*id);
    // A job may be free to start, and further ones are to be looked at.
    next = dependencies_.clock.Now();
    if (LookAtWaiting(*id)) continue;
    waiting_.LookAt(*id);
    return next + options_.poll_interval;
  }
  return next;
}

bool Scheduler::LookAtWaiting(const std::string& id) {
  absl::StatusOr<Job> job = dependencies_.store.Get(id);
  const bool lost =
      absl::IsNotFound(job.status()) || absl::IsDataLoss(job.status());
  if (!job.ok() && !lost) return false;
  if (lost || !AwaitsPriors(*job) || job->held) {
    // TryStart says what is wrong with a row that cannot be read.
    waiting_.Forget(id);
    if (lost) view_.Unhold(id, dependencies_.clock.Now());
    return true;
  }
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(job->after);
  if (!states.ok()) return false;
  const PriorStanding standing = StandingOf(*job, *states);
  if (!standing.failed.empty()) {
    return HoldForPrior(*std::move(job), standing.failed);
  }
  if (!standing.waits.empty()) {
    view_.HoldJob(id, standing.waits, absl::InfiniteDuration());
    return true;
  }
  waiting_.Forget(id);
  // The time that it waited for others is no time that it waited for the
  // device.
  view_.Unhold(id, dependencies_.clock.Now());
  journal_.Add(id, "the jobs that it waited for have succeeded");
  return true;
}

bool Scheduler::HoldForPrior(Job job, const std::string& why) {
  const std::string id = job.id;
  absl::StatusOr<RunningJob> run =
      RunningJob::Load(dependencies_.store, std::move(job));
  if (!run.ok()) return false;
  run->Held(why, dependencies_.clock.Now());
  if (!Stored(run->Flush(dependencies_.store))) return false;
  waiting_.Forget(id);
  view_.HoldJob(id, why, absl::InfiniteDuration());
  journal_.Add(id, absl::StrCat("held: ", why));
  return true;
}

absl::Status Scheduler::ForgetFailedPriors(Job& job) {
  if (!AwaitsPriors(job)) return absl::OkStatus();
  const absl::StatusOr<PriorStates> states =
      dependencies_.store.StatesOf(job.after);
  if (!states.ok()) return states.status();
  job.after = WithoutFailed(job, *states);
  return absl::OkStatus();
}

bool Scheduler::TakeResults(const Job& job, spec::TrainSpec& spec,
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
    // Before the row says RUNNING: whatever kills mpsd in between, the next
    // start takes the results again.
    placed = dependencies_.files.ReplaceSpec(job.id, spec_json);
  }
  if (placed.ok()) return true;
  HoldForPath(job, std::string(placed.message()));
  return false;
}

}  // namespace mpsd::jobs
