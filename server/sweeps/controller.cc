// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/controller.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "server/jobs/rung.h"
#include "server/sweeps/halving.h"

namespace mpsd::sweeps {
namespace {

// A look without a call for it finds what told nobody, as a deleted job.
constexpr absl::Duration kInterval = absl::Seconds(10);
// The next look after one that failed.
constexpr absl::Duration kAgain = absl::Seconds(1);

// The job of a child; null where it was deleted.
const jobs::Job* JobOf(const Child& child, const JobsById& jobs) {
  const auto found = jobs.find(child.job_id);
  return found == jobs.end() ? nullptr : &found->second;
}

// Whether the child has nothing to do before the rung of `step` is decided.
bool IsThere(const jobs::Job* job, int64_t step) {
  if (job == nullptr || jobs::IsFinal(job->state)) return true;
  // Until it is sent on it rests at an earlier rung.
  return jobs::RestsAtRung(*job) && job->until_step == step;
}

// Whether the child may go on: it rests, or has done all that it had to.
bool MayGoOn(const jobs::Job* job) {
  return job != nullptr &&
         (!jobs::IsFinal(job->state) || job->state == jobs::State::kSucceeded);
}

std::string WhyOut(const jobs::Job* job, const Plan& plan, int64_t step,
                   std::optional<double> metric, size_t place, size_t of,
                   int64_t go_on) {
  if (job == nullptr) return absl::StrCat("deleted before step ", step);
  if (!MayGoOn(job)) {
    return absl::StrCat(std::string(jobs::Name(job->state)),
                        " before its sweep decided the rung of step ", step);
  }
  if (!metric) {
    return absl::StrCat("ended by its sweep at step ", step, ": it has no ",
                        plan.metric, " to be ranked by");
  }
  return absl::StrCat("ended by its sweep at step ", step, ": ", plan.metric,
                      " ", *metric, " is place ", place + 1, " of ", of, ", ",
                      go_on == 1 ? "the best one goes on"
                                 : absl::StrCat("the best ", go_on, " go on"));
}

// Pins down what the next step of a child is, and takes it.
absl::Status CarryOutOne(const Plan& plan, const Child& child,
                         const jobs::Job& job, jobs::SweepChildren& children) {
  // A job that runs is looked at again when it comes to rest.
  if (job.state != jobs::State::kQueued || job.until_step == 0) {
    return absl::OkStatus();
  }
  if (child.drop && jobs::RestsAtRung(job)) {
    return children.Drop(job.id, child.out).status();
  }
  // Who was out already, and was queued again by somebody, runs to its end.
  const bool last = !child.out.empty() ||
                    child.rung >= static_cast<int64_t>(plan.rungs.size());
  const int64_t until = last ? 0 : plan.rungs[static_cast<size_t>(child.rung)];
  if (job.until_step == until) return absl::OkStatus();
  return children.SendOn(job.id, until).status();
}

}  // namespace

bool DecideRung(const JobsById& jobs, Sweep& sweep) {
  const Plan& plan = sweep.plan;
  if (sweep.rung >= static_cast<int64_t>(plan.rungs.size())) return false;
  const int64_t step = plan.rungs[static_cast<size_t>(sweep.rung)];
  std::vector<Child*> here;
  std::vector<std::optional<double>> metrics;
  for (Child& child : sweep.children) {
    if (!child.out.empty()) continue;
    const jobs::Job* job = JobOf(child, jobs);
    if (!IsThere(job, step)) return false;
    here.push_back(&child);
    metrics.push_back(MayGoOn(job) ? ValueOf(plan, *job) : std::nullopt);
  }
  const int64_t go_on = GoOn(static_cast<int64_t>(here.size()), plan.eta);
  const std::vector<size_t> ranked = Ranked(metrics, plan.greater_is_better);
  for (size_t place = 0; place < ranked.size(); ++place) {
    Child& child = *here[ranked[place]];
    const jobs::Job* job = JobOf(child, jobs);
    child.metric = metrics[ranked[place]];
    if (child.metric && static_cast<int64_t>(place) < go_on) {
      ++child.rung;
      continue;
    }
    child.out =
        WhyOut(job, plan, step, child.metric, place, ranked.size(), go_on);
    // What has come to its end cannot be taken back.
    child.drop = job != nullptr && !jobs::IsFinal(job->state);
  }
  ++sweep.rung;
  return true;
}

absl::StatusOr<JobsById> ReadJobs(jobs::JobStore& jobs, const std::string& id) {
  jobs::ListFilter filter;
  filter.sweep_id = id;
  filter.summaries = true;
  filter.limit = limits::kSweepJobs;
  absl::StatusOr<std::vector<jobs::Job>> listed = jobs.List(filter);
  if (!listed.ok()) return listed.status();
  JobsById found;
  for (jobs::Job& job : *listed) {
    const std::string job_id = job.id;
    found[job_id] = std::move(job);
  }
  return found;
}

absl::Time Controller::Tick() {
  const absl::StatusOr<std::vector<std::string>> ids = store_.Thinning();
  if (!ids.ok()) {
    Log(absl::StrCat("sweeps cannot be looked at: ", ids.status().message()));
    return clock_.Now() + kAgain;
  }
  if (ids->empty()) return absl::InfiniteFuture();
  absl::Time next = clock_.Now() + kInterval;
  for (const std::string& id : *ids) {
    const absl::Status tended = Tend(id);
    // Meanwhile a job was started, cancelled or deleted.
    if (tended.ok() || absl::IsNotFound(tended)) continue;
    next = clock_.Now() + kAgain;
    if (absl::IsFailedPrecondition(tended) || absl::IsAborted(tended)) continue;
    Log(absl::StrCat("sweep ", id, ": ", tended.message()));
  }
  return next;
}

absl::Status Controller::Tend(const std::string& id) {
  absl::StatusOr<Sweep> sweep = store_.Get(id);
  if (!sweep.ok()) return sweep.status();
  while (true) {
    const absl::StatusOr<JobsById> jobs = ReadJobs(jobs_, id);
    if (!jobs.ok()) return jobs.status();
    absl::Status done = CarryOut(*sweep, *jobs);
    // Who cannot be told yet may not be counted as being on the way.
    if (!done.ok()) return done;
    if (!DecideRung(*jobs, *sweep)) return absl::OkStatus();
    done = store_.Decide(*sweep);
    if (!done.ok()) return done;
    const auto part =
        std::count_if(sweep->children.begin(), sweep->children.end(),
                      [](const Child& child) { return child.out.empty(); });
    Log(absl::StrCat("sweep ", id, ": rung ", sweep->rung, " of ",
                     sweep->plan.rungs.size(), " is decided: ", part,
                     part == 1 ? " child goes on" : " children go on"));
  }
}

absl::Status Controller::CarryOut(const Sweep& sweep, const JobsById& jobs) {
  absl::Status first;
  for (const Child& child : sweep.children) {
    const jobs::Job* job = JobOf(child, jobs);
    if (job == nullptr) continue;
    first.Update(CarryOutOne(sweep.plan, child, *job, children_));
  }
  return first;
}

void Controller::Log(const std::string& line) {
  if (std::exchange(logged_, line) != line) log_(line);
}

}  // namespace mpsd::sweeps
