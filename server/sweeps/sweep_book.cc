// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/sweep_book.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/printable.h"
#include "core/base/sha256.h"
#include "server/jobs/submission.h"
#include "server/sweeps/child_specs.h"
#include "server/sweeps/controller.h"
#include "server/sweeps/plan_json.h"

namespace mpsd::sweeps {
namespace {

std::string HashOf(const SweepBook::Request& request) {
  const auto& greater = request.greater_is_better;
  return base::Sha256Hex(absl::StrCat(
      jobs::RequestHash(request.submission), "|", EncodePlan(request.plan), "|",
      greater.has_value() ? absl::StrCat(*greater) : ""));
}

}  // namespace

absl::StatusOr<std::optional<SweepBook::Made>> SweepBook::FindEarlier(
    const Request& request, const std::string& hash) {
  const jobs::SubmitRequest& submission = request.submission;
  if (submission.idempotency_key.empty()) return std::nullopt;
  absl::StatusOr<std::optional<Sweep>> found =
      dependencies_.store.FindByIdempotencyKey(submission.owner,
                                               submission.idempotency_key);
  if (!found.ok()) return found.status();
  if (!found->has_value()) return std::nullopt;
  if ((*found)->request_hash != hash) {
    return absl::AlreadyExistsError(absl::StrCat(
        "idempotency_key '", base::Quotable(submission.idempotency_key),
        "' was used for sweep ", (*found)->id,
        " with another request: choose another key"));
  }
  return Made{**std::move(found), true};
}

absl::StatusOr<SweepBook::Made> SweepBook::Create(const Request& request) {
  const jobs::SubmitRequest& submission = request.submission;
  const std::string hash = HashOf(request);
  absl::StatusOr<std::optional<Made>> earlier = FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);
  absl::StatusOr<Children> made =
      MakeChildren(submission, request.plan, request.greater_is_better);
  if (!made.ok()) return made.status();

  Sweep sweep;
  sweep.id = ids_.Next();
  sweep.name = made->name;
  sweep.owner = submission.owner;
  sweep.create_time = dependencies_.clock.Now();
  sweep.plan = std::move(made->plan);
  sweep.idempotency_key = submission.idempotency_key;
  sweep.request_hash = hash;
  const int64_t first = sweep.plan.rungs.empty() ? 0 : sweep.plan.rungs.front();
  const auto insert = [&](absl::Span<const jobs::Job> jobs,
                          absl::Span<const jobs::Event> events) {
    sweep.children.clear();
    for (size_t i = 0; i < jobs.size(); ++i) {
      Child& child = sweep.children.emplace_back();
      child.job_id = jobs[i].id;
      child.values = made->values[i];
    }
    return dependencies_.store.Insert(sweep, jobs, events);
  };
  absl::Status queued =
      dependencies_.children
          .SubmitChildren(made->requests, sweep.id, first, insert)
          .status();
  if (queued.ok()) {
    on_change_();
    return Made{std::move(sweep), false};
  }
  // Another call may have made a sweep with the same key meanwhile, which may
  // have taken the last jobs that the user was allowed.
  if (!absl::IsAlreadyExists(queued) && !absl::IsResourceExhausted(queued)) {
    return queued;
  }
  earlier = FindEarlier(request, hash);
  if (!earlier.ok()) return earlier.status();
  if (earlier->has_value()) return **std::move(earlier);
  return queued;
}

absl::StatusOr<JobsById> SweepBook::JobsOf(const std::string& id) {
  return ReadJobs(dependencies_.jobs, id);
}

absl::Status SweepBook::Cancel(const std::string& id) {
  const absl::StatusOr<JobsById> jobs = JobsOf(id);
  if (!jobs.ok()) return jobs.status();
  absl::Status first;
  for (const auto& [job_id, job] : *jobs) {
    if (jobs::IsFinal(job.state)) continue;
    const absl::Status cancelled =
        dependencies_.manager.Cancel(job_id).status();
    // Deleted meanwhile.
    if (!absl::IsNotFound(cancelled)) first.Update(cancelled);
  }
  on_change_();
  return first;
}

}  // namespace mpsd::sweeps
