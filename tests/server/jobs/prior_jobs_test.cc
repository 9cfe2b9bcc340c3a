// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/prior_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/base/limits.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

const std::string kA(limits::kWholeId, 'A'), kB(limits::kWholeId, 'B'),
    kC(limits::kWholeId, 'C');

Job Waiting(std::vector<std::string> after) {
  Job job;
  job.id = "J";
  job.after = std::move(after);
  job.spec_json = "{}";
  return job;
}

TEST(PriorJobs, CountOnlyBeforeTheFirstStart) {
  Job job = Waiting({kA});
  EXPECT_TRUE(AwaitsPriors(job));
  job.attempt = 1;
  EXPECT_FALSE(AwaitsPriors(job));
  job.attempt = 0;
  job.state = State::kCancelled;
  EXPECT_FALSE(AwaitsPriors(job));
  EXPECT_FALSE(AwaitsPriors(Waiting({})));
}

// Every state of a prior job, and none.
TEST(PriorJobs, OnlySuccessLetsAJobStart) {
  for (const State state : kAllStates) {
    const PriorStanding standing = StandingOf(Waiting({kA}), {{kA, state}});
    const bool ended = state == State::kFailed || state == State::kCancelled;
    const bool waits = state == State::kQueued || state == State::kRunning;
    EXPECT_EQ(standing.failed.empty(), !ended) << standing.failed;
    EXPECT_EQ(standing.waits.empty(), !waits) << standing.waits;
    for (const std::string& text : {standing.waits, standing.failed}) {
      if (text.empty()) continue;
      EXPECT_THAT(text, HasSubstr("job " + kA));
      EXPECT_THAT(text, HasSubstr(std::string(Name(state))));
    }
  }
  EXPECT_THAT(StandingOf(Waiting({kA}), {}).failed,
              HasSubstr("exists no more"));
}

TEST(PriorJobs, TheFirstOfManyIsNamed) {
  const PriorStates states = {
      {kA, State::kSucceeded}, {kB, State::kQueued}, {kC, State::kRunning}};
  EXPECT_EQ(StandingOf(Waiting({kA, kB, kC}), states).waits,
            "waits for job " + kB +
                ", which is QUEUED, to succeed, and for 1 "
                "more");
}

TEST(PriorJobs, AHoldSaysWhatToDo) {
  const PriorStates failed = {{kA, State::kFailed}};
  EXPECT_EQ(StandingOf(Waiting({kA}), failed).failed,
            "job " + kA +
                " is FAILED, and this job waits for its success; "
                "`mpsctl retry " +
                kA +
                "`, then release; released, it no longer "
                "waits for it");
  Job named = Waiting({kA});
  named.spec_json = R"({"adapter":"job:)" + kA + "\"}";
  EXPECT_EQ(StandingOf(named, failed).failed,
            "job " + kA +
                " is FAILED, and this job starts from its result; "
                "`mpsctl retry " +
                kA + "`, then release");
  for (const State state : kAllStates) {
    for (const Job& job : {Waiting({kA}), named}) {
      EXPECT_LE(StandingOf(job, {{kA, state}}).failed.size(),
                limits::kReasonBytes);
    }
  }
}

TEST(PriorJobs, AReleaseForgetsWhatFailedButNoResult) {
  Job job = Waiting({kA, kB, kC, "gone"});
  job.spec_json = R"({"model":"job:)" + kC + "\"}";
  const PriorStates states = {
      {kA, State::kCancelled}, {kB, State::kQueued}, {kC, State::kFailed}};
  EXPECT_THAT(WithoutFailed(job, states), ElementsAre(kB, kC));
}

TEST(WaitingJobs, AChangeHasThoseLookedAtThatWait) {
  WaitingJobs jobs;
  jobs.Await("x", {kA, kB});
  jobs.Await("y", {kB});
  EXPECT_EQ(jobs.Take(), std::nullopt);
  jobs.Changed(kC);
  EXPECT_EQ(jobs.Take(), std::nullopt);
  jobs.Changed(kA);
  EXPECT_EQ(jobs.Take(), "x");
  EXPECT_EQ(jobs.Take(), std::nullopt);
  jobs.Changed(kB);
  jobs.Changed(kA);  // x is looked at once
  EXPECT_EQ(jobs.Take(), "x");
  EXPECT_EQ(jobs.Take(), "y");
  EXPECT_EQ(jobs.Take(), std::nullopt);
}

TEST(WaitingJobs, WhatIsForgottenIsNotLookedAt) {
  WaitingJobs jobs;
  jobs.Await("x", {kA});
  jobs.Changed(kA);
  jobs.Forget("x");
  EXPECT_EQ(jobs.Take(), std::nullopt);
  jobs.Changed(kA);
  jobs.LookAt("x");  // it waits no more
  EXPECT_EQ(jobs.Take(), std::nullopt);
  jobs.Await("x", {kA});
  jobs.Await("x", {kB});
  jobs.Changed(kA);
  EXPECT_EQ(jobs.Take(), std::nullopt);
  jobs.LookAt("x");
  EXPECT_EQ(jobs.Take(), "x");
}

}  // namespace
}  // namespace mpsd::jobs
