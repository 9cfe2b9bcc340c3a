// SPDX-License-Identifier: Apache-2.0
// The Scheduler's part in sweeps (sweep_children.h): many jobs that are queued
// as one, or not at all, and that stop at the steps of their rungs.
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/job_mentions.h"
#include "server/jobs/request_file.h"
#include "server/jobs/rung.h"
#include "server/jobs/scheduler.h"

namespace mpsd::jobs {
namespace {

absl::Status Of(const ChildRequest& child, const absl::Status& why) {
  return absl::Status(why.code(),
                      absl::StrCat(child.name, ": ", why.message()));
}

}  // namespace

absl::StatusOr<std::vector<Job>> Scheduler::SubmitChildren(
    absl::Span<const ChildRequest> children, const std::string& sweep_id,
    int64_t until_step, const SweepChildren::Insert& insert) {
  const SubmitRequest& first = children.front().request;
  if (absl::Status s = CheckAccepts(first); !s.ok()) return s;
  if (absl::Status s = CheckLimits(first); !s.ok()) return s;
  const FolderClaims::Watch watch = claims_.Begin();
  std::vector<NewJob> made;
  for (const ChildRequest& child : children) {
    if (absl::Status s = CheckAccepts(first); !s.ok()) return s;
    absl::StatusOr<NewJob> one =
        MakeJob(child.request, RequestHash(child.request));
    if (!one.ok()) return Of(child, one.status());
    one->job.sweep_id = sweep_id;
    one->job.until_step = until_step;
    made.push_back(*std::move(one));
  }
  if (absl::Status s = CountInputs(first); !s.ok()) return s;
  // Folders come before rows, as in Submit; those of a kill in between are
  // leftovers, too.
  absl::Status status;
  for (size_t i = 0; status.ok() && i < made.size(); ++i) {
    status = CheckAccepts(first);
    if (!status.ok()) break;
    status =
        dependencies_.files.Create(made[i].job.id, made[i].job.spec_json,
                                   RequestFile::Encode(children[i].request),
                                   made[i].checked.links, first.wanted);
  }
  if (status.ok()) status = CheckAccepts(first);
  if (status.ok()) status = InsertChildren(made, first.limits, insert, watch);
  if (!status.ok()) {
    RemoveFolders(made);
    return status;
  }
  std::vector<Job> jobs;
  jobs.reserve(made.size());
  for (NewJob& one : made) {
    journal_.Add(one.job.id, absl::StrCat("queued by sweep ", sweep_id));
    jobs.push_back(std::move(one.job));
  }
  journal_.Write();
  options_.on_change();
  return jobs;
}

absl::Status Scheduler::InsertChildren(std::vector<NewJob>& children,
                                       const UserLimits& limits,
                                       const SweepChildren::Insert& insert,
                                       const FolderClaims::Watch& watch) {
  std::set<std::string> needed;
  for (const NewJob& child : children) {
    needed.merge(JobsNeededBy(child.job));
  }
  const absl::StatusOr<FolderClaims::Use> use = claims_.Take(needed, &watch);
  if (!use.ok()) return use.status();
  const std::string owner = children.front().job.owner;
  Turn turn(*this);
  if (draining_) {
    return absl::UnavailableError("mpsd is stopping: submit again later");
  }
  // Each of them has to fit; the last one is refused first.
  absl::Status status = CheckQueued(
      owner, limits,
      view_.CountOf(owner) + static_cast<int64_t>(children.size()) - 1);
  if (!status.ok()) return status;
  std::vector<Job> rows;
  std::vector<Event> events;
  for (NewJob& child : children) {
    child.job.place = view_.LastPlace(owner, child.job.priority);
    rows.push_back(child.job);
    events.push_back({child.job.id, 1, child.job.create_time,
                      StateChanged{State::kQueued, child.checked.note}});
  }
  status = insert(rows, events);
  if (!status.ok()) return status;
  Stored(status);
  for (const Job& row : rows) Enqueue(row, row.create_time);
  counts_.Ask();
  return absl::OkStatus();
}

void Scheduler::RemoveFolders(const std::vector<NewJob>& children) {
  for (const NewJob& child : children) {
    dependencies_.files.Remove(child.job.id);
  }
}

bool Scheduler::HoldAtRung(const Job& job) {
  if (!RestsAtRung(job)) return false;
  // Who holds the job says more.
  if (!job.held) {
    view_.HoldJob(job.id, DescribeRung(job), absl::InfiniteDuration());
  }
  return true;
}

bool Scheduler::StillRests(const Job& job) {
  if (!RestsAtRung(job)) return false;
  Turn turn(*this);
  // Somebody may have sent it on since its row was read.
  const absl::StatusOr<Job> now = dependencies_.store.Get(job.id);
  return !now.ok() || HoldAtRung(*now);
}

absl::StatusOr<Job> Scheduler::SendOn(const std::string& id,
                                      int64_t until_step) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  absl::StatusOr<RunningJob> run =
      LoadQueued(id, "only a QUEUED job is sent on");
  if (!run.ok()) return run.status();
  if (run->job().until_step == until_step) return run->job();
  const absl::Time now = dependencies_.clock.Now();
  run->SentOn(until_step, now);
  journal_.Add(id, until_step > 0 ? absl::StrCat("goes on to step ", until_step)
                                  : "goes on to its end");
  // The time at the rung is no time that it waited for the device.
  return StoreQueued(*run, now);
}

absl::StatusOr<Job> Scheduler::Drop(const std::string& id,
                                    const std::string& why) {
  Turn turn(*this);
  turn.Wake(id);
  turn.AskForTick();
  absl::StatusOr<RunningJob> run =
      LoadQueued(id, "only a QUEUED job is dropped from its sweep");
  if (!run.ok()) return run.status();
  run->Dropped(why, dependencies_.clock.Now());
  return StoreCancelled(*run);
}

}  // namespace mpsd::jobs
