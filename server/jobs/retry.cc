// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {
namespace {

NextState AfterFailure(const RetryPolicy& policy, const Job& job,
                       const std::string& message, absl::Time now) {
  NextState next;
  next.failures = job.failures + 1;
  if (next.failures >= policy.max_failures) {
    next.message = absl::StrCat("gave up after ", next.failures,
                                " failures in a row: ", message);
    return next;
  }
  const absl::Duration wait = Backoff(policy, next.failures);
  next.state = State::kQueued;
  next.not_before = now + wait;
  next.message = absl::StrCat("failure ", next.failures, " of ",
                              policy.max_failures, ", tried again in ",
                              absl::FormatDuration(wait), ": ", message);
  return next;
}

}  // namespace

absl::Duration Backoff(const RetryPolicy& policy, int32_t failures) {
  absl::Duration wait = policy.first_backoff;
  for (int32_t i = 1; i < failures && wait < policy.max_backoff; ++i) wait *= 2;
  return std::min(wait, policy.max_backoff);
}

NextState DecideNext(const RetryPolicy& policy, const Job& job,
                     const WorkerListener::Result& result, absl::Time now) {
  NextState next{State::kFailed, job.failures, std::nullopt, result.message};
  if (result.reason == ExitReason::kDone) {
    next.state = State::kSucceeded;
    next.failures = 0;
    return next;
  }
  if (job.cancel_requested) {
    next.state = State::kCancelled;
    return next;
  }
  switch (result.reason) {
    case ExitReason::kCancelled:
      next.state = State::kCancelled;
      return next;
    case ExitReason::kPreempted:
      next.state = State::kQueued;
      return next;
    case ExitReason::kCrashed:
    case ExitReason::kHung:
    case ExitReason::kProtocolError:
      return AfterFailure(policy, job, result.message, now);
    default:
      return next;
  }
}

}  // namespace mpsd::jobs
