// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "server/jobs/attempt_end.h"

namespace mpsd::jobs {
namespace {

using testing::HasSubstr;

const absl::Time kNow = absl::FromUnixSeconds(1000);
const RetryPolicy kPolicy = {3, 5, absl::Seconds(10), absl::Seconds(60)};

NextState Next(ExitReason reason, const Job& job = {}) {
  WorkerListener::Result result;
  result.reason = reason;
  result.message = "why";
  return DecideNext(kPolicy, job, result, kNow);
}

TEST(DecideNext, DoneSucceeds) {
  EXPECT_EQ(Next(ExitReason::kDone).state, State::kSucceeded);
  Job job;
  job.cancel_requested = true;
  EXPECT_EQ(Next(ExitReason::kDone, job).state, State::kSucceeded);
}

TEST(DecideNext, WhatWouldEndTheSameWayIsNotTriedAgain) {
  for (ExitReason reason : {ExitReason::kRejected, ExitReason::kOutOfMemory,
                            ExitReason::kNonFinite}) {
    EXPECT_EQ(Next(reason).state, State::kFailed) << Name(reason);
    EXPECT_EQ(Next(reason).message, "why");
    EXPECT_EQ(Next(reason).not_before, std::nullopt);
  }
}

TEST(DecideNext, QueuesOnlyWhatMayReturn) {
  for (ExitReason reason : kAllExitReasons) {
    EXPECT_EQ(Next(reason).state == State::kQueued, MayReturn(reason))
        << Name(reason);
  }
}

TEST(DecideNext, FailuresAreTriedAgainUpToTheLimit) {
  for (ExitReason reason :
       {ExitReason::kCrashed, ExitReason::kHung, ExitReason::kProtocolError}) {
    Job job;
    NextState next = Next(reason, job);
    EXPECT_EQ(next.state, State::kQueued) << Name(reason);
    EXPECT_EQ(next.failures, 1);
    EXPECT_EQ(next.not_before, kNow + absl::Seconds(10));
    EXPECT_THAT(next.message, HasSubstr("why"));
    job.failures = 1;
    next = Next(reason, job);
    EXPECT_EQ(next.state, State::kQueued);
    EXPECT_EQ(next.not_before, kNow + absl::Seconds(20));
    job.failures = 2;
    next = Next(reason, job);
    EXPECT_EQ(next.state, State::kFailed);
    EXPECT_EQ(next.failures, 3);
    EXPECT_THAT(next.message, HasSubstr("3 failures in a row: why"));
  }
}

TEST(DecideNext, ACancelEndsEverythingElse) {
  Job job;
  job.cancel_requested = true;
  for (ExitReason reason :
       {ExitReason::kCancelled, ExitReason::kCrashed, ExitReason::kHung,
        ExitReason::kPreempted, ExitReason::kOutOfMemory}) {
    EXPECT_EQ(Next(reason, job).state, State::kCancelled) << Name(reason);
  }
}

TEST(DecideNext, PreemptionIsNoFailure) {
  Job job;
  job.failures = 2;
  const NextState next = Next(ExitReason::kPreempted, job);
  EXPECT_EQ(next.state, State::kQueued);
  EXPECT_EQ(next.failures, 2);
  EXPECT_EQ(next.not_before, std::nullopt);
}

TEST(DecideNext, TheMachinesFaultIsNotCounted) {
  Job job;
  job.failures = 2;
  job.interruptions = 4;
  const NextState next = Next(ExitReason::kMachine, job);
  EXPECT_EQ(next.state, State::kQueued);
  EXPECT_EQ(next.failures, 2);
  EXPECT_EQ(next.interruptions, 4);
  EXPECT_FALSE(next.behind);
  EXPECT_EQ(next.message, "why");
}

TEST(DecideNext, InterruptionsHaveALimitOfTheirOwn) {
  Job job;
  job.failures = 2;
  absl::Duration wait = absl::Seconds(10);
  for (int32_t count = 1; count < 5; ++count) {
    const NextState next = Next(ExitReason::kInterrupted, job);
    ASSERT_EQ(next.state, State::kQueued) << count;
    EXPECT_EQ(next.interruptions, count);
    EXPECT_EQ(next.failures, 2);
    EXPECT_TRUE(next.behind);
    EXPECT_EQ(next.not_before, kNow + wait);
    job.interruptions = next.interruptions;
    wait = std::min(2 * wait, absl::Seconds(60));
  }
  const NextState last = Next(ExitReason::kInterrupted, job);
  EXPECT_EQ(last.state, State::kFailed);
  EXPECT_THAT(last.message, HasSubstr("5 interruptions in a row without a new "
                                      "checkpoint between: why"));
  EXPECT_THAT(last.message, HasSubstr("mpsctl retry"));
}

TEST(DecideNext, AnInterruptedAttemptThatAdvancedIsNotCounted) {
  Job job;
  job.advanced = true;
  const NextState next = Next(ExitReason::kInterrupted, job);
  EXPECT_EQ(next.state, State::kQueued);
  EXPECT_EQ(next.interruptions, 0);
  EXPECT_FALSE(next.behind);
  EXPECT_EQ(next.not_before, std::nullopt);
  EXPECT_EQ(next.message, "why; it resumes from its last checkpoint");
}

TEST(DecideNext, AJobThatWasAskedForAnewReturnsHoweverItEnded) {
  Job job;
  job.fresh = true;
  job.failures = 2;
  job.interruptions = 4;
  for (const ExitReason reason : kAllExitReasons) {
    const NextState next = Next(reason, job);
    if (reason == ExitReason::kTimeLimit) {
      EXPECT_EQ(next.state, State::kFailed);
      continue;
    }
    EXPECT_EQ(next.state, State::kQueued) << Name(reason);
    EXPECT_EQ(next.failures, 0);
    EXPECT_EQ(next.interruptions, 0);
    EXPECT_EQ(next.message, "runs again from scratch, as was asked");
  }
  job.cancel_requested = true;
  EXPECT_EQ(Next(ExitReason::kCrashed, job).state, State::kCancelled);
}

TEST(Backoff, DoublesUpToTheCap) {
  EXPECT_EQ(Backoff(kPolicy, 1), absl::Seconds(10));
  EXPECT_EQ(Backoff(kPolicy, 2), absl::Seconds(20));
  EXPECT_EQ(Backoff(kPolicy, 3), absl::Seconds(40));
  EXPECT_EQ(Backoff(kPolicy, 4), absl::Seconds(60));
  EXPECT_EQ(Backoff(kPolicy, 1000000), absl::Seconds(60));
}

}  // namespace
}  // namespace mpsd::jobs
