// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/prior_jobs.h"

#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/spec/named_result.h"

namespace mpsd::jobs {
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
               : " exists no more";
}

// As the submitted spec spells it; the path of a result that was put in its
// place never names a job that has not succeeded.
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
