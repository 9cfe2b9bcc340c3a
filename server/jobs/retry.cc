// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "server/jobs/blame.h"

namespace mpsd::jobs {
namespace {

// Returns the job to the queue after a wait, for the `count`th early end of at
// most `limit`.
void Wait(const RetryPolicy& policy, const std::string& what, int32_t count,
          int32_t limit, absl::Time now, NextState& next) {
  const absl::Duration wait = Backoff(policy, count);
  next.state = State::kQueued;
  next.not_before = now + wait;
  next.message =
      absl::StrCat(what, " ", count, " of ", limit, ", tried again in ",
                   absl::FormatDuration(wait), ": ", next.message);
}

void AfterFailure(const RetryPolicy& policy, absl::Time now, NextState& next) {
  if (++next.failures < policy.max_failures) {
    return Wait(policy, "failure", next.failures, policy.max_failures, now,
                next);
  }
  next.message = absl::StrCat("gave up after ", next.failures,
                              " failures in a row: ", next.message);
}

void AfterInterruption(const RetryPolicy& policy, bool advanced, absl::Time now,
                       NextState& next) {
  if (advanced) {
    next.state = State::kQueued;
    next.message += "; it resumes from its last checkpoint";
    return;
  }
  if (++next.interruptions < policy.max_interruptions) {
    next.behind = true;
    return Wait(policy, "interruption", next.interruptions,
                policy.max_interruptions, now, next);
  }
  next.message = absl::StrCat(
      "gave up after ", next.interruptions,
      " interruptions in a row without a new checkpoint between: ",
      next.message,
      "; `mpsctl retry` queues it again, a smaller training.save_steps keeps "
      "more of an attempt");
}

}  // namespace

absl::Duration Backoff(const RetryPolicy& policy, int32_t count) {
  absl::Duration wait = policy.first_backoff;
  for (int32_t i = 1; i < count && wait < policy.max_backoff; ++i) wait *= 2;
  return std::min(wait, policy.max_backoff);
}

NextState DecideNext(const RetryPolicy& policy, const Job& job,
                     const WorkerListener::Result& result, absl::Time now) {
  NextState next;
  next.failures = job.failures;
  next.interruptions = job.interruptions;
  next.message = result.message;
  if (job.fresh && !job.cancel_requested &&
      result.reason != ExitReason::kTimeLimit) {
    next.state = State::kQueued;
    next.failures = next.interruptions = 0;
    next.message = "runs again from scratch, as was asked";
    return next;
  }
  if (result.reason == ExitReason::kDone) {
    next.state = State::kSucceeded;
    next.failures = next.interruptions = 0;
    return next;
  }
  if (job.cancel_requested || result.reason == ExitReason::kCancelled) {
    next.state = State::kCancelled;
    return next;
  }
  switch (BlamedPartyFor(result.reason)) {
    case BlamedParty::kNobody:
    case BlamedParty::kMachine:
      next.state = State::kQueued;
      break;
    case BlamedParty::kJob:
      if (!IsForGood(result.reason)) AfterFailure(policy, now, next);
      break;
    case BlamedParty::kInterruption:
      AfterInterruption(policy, job.advanced, now, next);
      break;
  }
  return next;
}

}  // namespace mpsd::jobs
