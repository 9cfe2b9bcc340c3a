// SPDX-License-Identifier: Apache-2.0
// Jobs that wait for others and go on from their results (scheduler.cc).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/spec/train_spec.h"
#include "server/jobs/scheduler.h"
#include "tests/core/status_matchers.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Fails;

class SchedulerAfterTest : public SchedulerFixture {
 protected:
  absl::StatusOr<SubmitResult> TrySubmit(std::vector<std::string> after,
                                         const std::string& fields = "") {
    SubmitRequest request = Request();
    if (!fields.empty()) {
      request.spec_json =
          R"({"dataset": {"train": "/data/train.jsonl"}, )" + fields + "}";
    }
    request.after = std::move(after);
    auto result = scheduler_->Submit(request);
    clock_.Advance(absl::Milliseconds(1));
    return result;
  }
  std::string SubmitAfter(std::vector<std::string> after,
                          const std::string& fields = "") {
    auto result = TrySubmit(std::move(after), fields);
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? result->job.id : "";
  }
  static std::string Adapter(const std::string& id) {
    return R"("model": "org/tiny", "adapter": "job:)" + id + "\"";
  }
  static std::string Output(const std::string& id) {
    return "/state/jobs/" + id + "/out/adapter";
  }
  static WorkerListener::Result Done(const std::string& output,
                                     OutputKind kind = OutputKind::kAdapter) {
    WorkerListener::Result result;
    result.reason = ExitReason::kDone;
    result.outcome.output_path = output;
    result.outcome.output_kind = kind;
    return result;
  }
  // Ends the running job with a result that is there.
  void Succeed(const std::string& output,
               OutputKind kind = OutputKind::kAdapter) {
    files_.paths.insert(output);
    launcher_.Exit(Done(output, kind));
    scheduler_->Tick();
  }
  // Fails the running job for good.
  void Fail() { End(ExitReason::kRejected); }
  std::string Hold(const std::string& id) { return board_->HoldOf(id); }
  spec::TrainSpec SpecOnDisk(const std::string& id) {
    return *spec::ParseTrainSpec(files_.specs.at(id), "job.json");
  }
};

TEST_F(SchedulerAfterTest, AJobStartsOnceTheOthersHaveSucceeded) {
  const std::string a = Submit(), b = Submit();
  const std::string c = SubmitAfter({a, b, a});
  EXPECT_THAT(Stored(c).after, ElementsAre(a, b));
  EXPECT_EQ(Hold(c), "waits for job " + a +
                         ", which is QUEUED, to succeed, and for 1 more");
  EXPECT_EQ(Next(), a);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), b);
  EXPECT_THAT(Hold(c), HasSubstr("waits for job " + b));
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), c);
  EXPECT_EQ(Hold(c), "");
}

// A job of higher priority that waits lets others by, and goes first after.
TEST_F(SchedulerAfterTest, OthersRunMeanwhile) {
  const std::string a = Submit();
  SubmitRequest request = Request();
  request.after = {a};
  request.priority = 9;
  const std::string urgent = scheduler_->Submit(request)->job.id;
  const std::string other = Submit();
  EXPECT_EQ(Next(), a);
  // Nobody takes the device away from the job that is waited for.
  EXPECT_EQ(Next(), a);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), urgent);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), other);
}

TEST_F(SchedulerAfterTest, AJobThatAlreadySucceededIsNotWaitedFor) {
  const std::string a = Start();
  End(ExitReason::kDone);
  const std::string b = SubmitAfter({a});
  EXPECT_EQ(Hold(b), "");
  EXPECT_EQ(Next(), b);
}

TEST_F(SchedulerAfterTest, AFailedOneHoldsThoseThatWait) {
  const std::string a = Submit();
  const std::string b = SubmitAfter({a}), c = SubmitAfter({b});
  scheduler_->Tick();
  Fail();
  ASSERT_EQ(StateOf(a), State::kFailed);
  const Job held = Stored(b);
  EXPECT_EQ(held.state, State::kQueued);
  EXPECT_TRUE(held.held);
  EXPECT_THAT(held.hold_reason,
              HasSubstr("job " + a + " is FAILED, and this job waits"));
  EXPECT_EQ(Hold(b), held.hold_reason);
  // What waits for a held job waits on.
  EXPECT_FALSE(Stored(c).held);
  EXPECT_THAT(Hold(c), HasSubstr("waits for job " + b));
  EXPECT_EQ(Next(), "");
}

TEST_F(SchedulerAfterTest, ACancelledOneHoldsThemToo) {
  const std::string a = Submit(), b = SubmitAfter({a});
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  scheduler_->Tick();
  EXPECT_TRUE(Stored(b).held);
  EXPECT_THAT(Hold(b), HasSubstr("is CANCELLED"));
  // However a script is timed, the answer is the same.
  const std::string c = SubmitAfter({a});
  EXPECT_THAT(Hold(c), HasSubstr("is CANCELLED"));
  EXPECT_EQ(Next(), "");
  EXPECT_TRUE(Stored(c).held);
}

TEST_F(SchedulerAfterTest, AnIdThatIsNoJobsIsRefused) {
  for (const std::string id : {"nobody", "01ARZ3NDEKTSV4RRFFQ69G5FAV"}) {
    EXPECT_THAT(TrySubmit({id}), Fails(absl::StatusCode::kFailedPrecondition,
                                       "after: there is no job '" + id + "'"));
  }
  EXPECT_THAT(files_.specs, IsEmpty());
}

// The generator of ids is known here: the next id could be guessed.
TEST_F(SchedulerAfterTest, NobodyMakesACircle) {
  const std::string a = Submit();
  std::string next = a;
  for (int last = 0; last < 5; ++last) {
    ++next.back();
    EXPECT_FALSE(TrySubmit({a, next}).ok());
    EXPECT_FALSE(TrySubmit({}, Adapter(next)).ok());
  }
}

TEST_F(SchedulerAfterTest, JobsOfOthersThatAreHiddenDoNotExist) {
  const std::string a = Submit();
  SubmitRequest request = Request();
  request.may_read_job = [](const std::string&) { return false; };
  request.after = {a};
  EXPECT_TRUE(absl::IsFailedPrecondition(scheduler_->Submit(request).status()));
  request.after.clear();
  request.spec_json =
      R"({"dataset": {"train": "/data/train.jsonl"}, )" + Adapter(a) + "}";
  EXPECT_THAT(scheduler_->Submit(request),
              Fails(absl::StatusCode::kFailedPrecondition,
                    "adapter: there is no job " + a));
}

TEST_F(SchedulerAfterTest, AKillForgetsNothing) {
  const std::string a = Submit(), b = SubmitAfter({a});
  KillAndRestart();
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  EXPECT_EQ(Next(), a);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), b);
}

// The end of `a` is stored, and mpsd dies before it holds `b`.
TEST_F(SchedulerAfterTest, AKillBeforeTheHoldIsStored) {
  const std::string a = Submit(), b = SubmitAfter({a});
  scheduler_->Tick();
  launcher_.Exit(ExitReason::kRejected);
  ASSERT_EQ(StateOf(a), State::kFailed);
  ASSERT_FALSE(Stored(b).held);
  KillAndRestart();
  EXPECT_THAT(Hold(b), HasSubstr("is FAILED"));
  scheduler_->Tick();
  EXPECT_TRUE(Stored(b).held);
  EXPECT_EQ(Running(), "");
}

// The row of a job that was running says what it is once the store answers.
TEST_F(SchedulerAfterTest, AStoreThatFailsHoldsLater) {
  const std::string a = Submit(), b = SubmitAfter({a});
  scheduler_->Tick();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  Fail();
  EXPECT_FALSE(Stored(b).held);
  EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  store_.FailWith(absl::OkStatus());
  scheduler_->Tick();
  EXPECT_EQ(StateOf(a), State::kFailed);
  EXPECT_TRUE(Stored(b).held);
}

TEST_F(SchedulerAfterTest, ARowThatCannotBeReadIsNoEndlessWait) {
  const std::string a = Submit(), b = SubmitAfter({a});
  scheduler_->Tick();
  store_.SpoilRow(b);
  End(ExitReason::kDone);
  scheduler_->Tick();
  EXPECT_EQ(StateOf(b), State::kFailed);
}

// Many wait for one: no call holds the lock for all of them.
TEST_F(SchedulerAfterTest, AThousandThatWaitAreHeldAFewAtATime) {
  const std::string a = Submit();
  std::vector<std::string> waiting;
  for (int i = 0; i < 1000; ++i) waiting.push_back(SubmitAfter({a}));
  scheduler_->Tick();
  const auto held = [&] {
    int count = 0;
    for (const std::string& id : waiting) count += Stored(id).held ? 1 : 0;
    return count;
  };
  Fail();
  int ticks = 1;
  for (int before = -1; held() < 1000; ++ticks) {
    ASSERT_GT(held(), before);
    before = held();
    ASSERT_LE(before, 40 * ticks);
    EXPECT_LE(scheduler_->Tick(), clock_.Now() + absl::Seconds(1));
  }
  EXPECT_EQ(Running(), "");
}

TEST_F(SchedulerAfterTest, AResultThatIsToBeIsPlacedAtTheStart) {
  const std::string a = Submit();
  const std::string b = SubmitAfter({}, Adapter(a));
  EXPECT_THAT(Stored(b).after, ElementsAre(a));
  EXPECT_EQ(SpecOnDisk(b).adapter, "job:" + a);
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  scheduler_->Tick();
  const std::string output = Output(a);
  Succeed(output);
  ASSERT_EQ(Running(), b);
  EXPECT_EQ(SpecOnDisk(b).adapter, output);
  EXPECT_EQ(Stored(b).spec_json, files_.specs.at(b));
  EXPECT_EQ(Stored(b).model, "org/tiny");
  EXPECT_THAT(launcher_.requests.back().results_read, ElementsAre(output));
}

TEST_F(SchedulerAfterTest, AResultThatIsThereIsPlacedAtOnce) {
  const std::string a = Start();
  Succeed(Output(a));
  const std::string b = SubmitAfter({}, Adapter(a));
  EXPECT_EQ(SpecOnDisk(b).adapter, Output(a));
  EXPECT_THAT(Stored(b).after, ElementsAre(a));
  EXPECT_EQ(Next(), b);
  EXPECT_THAT(launcher_.requests.back().results_read, ElementsAre(Output(a)));
}

TEST_F(SchedulerAfterTest, AModelThatIsToBeIsPlacedToo) {
  const std::string a =
      SubmitAfter({}, R"("model": "org/tiny", "fine_tune_type": "full")");
  const std::string b = SubmitAfter({}, R"("model": "job:)" + a + "\"");
  EXPECT_EQ(Stored(b).model, "job:" + a);
  EXPECT_GT(Stored(b).memory_bytes, 0);
  scheduler_->Tick();
  const std::string output = "/state/jobs/" + a + "/out/model";
  Succeed(output, OutputKind::kModel);
  ASSERT_EQ(Running(), b);
  EXPECT_EQ(SpecOnDisk(b).model, output);
}

// A result that vanished between its job's end and the start.
TEST_F(SchedulerAfterTest, AResultThatIsAwayIsWaitedFor) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  const std::string other = Submit();
  scheduler_->Tick();
  launcher_.Exit(Done(Output(a)));
  EXPECT_EQ(Next(), other);
  EXPECT_THAT(Hold(b), HasSubstr(Output(a) + ", is not on the daemon's disk"));
  End(ExitReason::kDone);
  files_.paths.insert(Output(a));
  clock_.Advance(absl::Seconds(31));
  EXPECT_EQ(Next(), b);
}

TEST_F(SchedulerAfterTest, AFullDiskAtTheStartIsWaitedOut) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  scheduler_->Tick();
  files_.failure = absl::ResourceExhaustedError("disk full");
  Succeed(Output(a));
  EXPECT_EQ(Running(), "");
  EXPECT_EQ(StateOf(b), State::kQueued);
  EXPECT_THAT(Hold(b), HasSubstr("disk full"));
  files_.failure = absl::OkStatus();
  clock_.Advance(absl::Seconds(31));
  EXPECT_EQ(Next(), b);
}

// A kill after job.json has the result and before the row says RUNNING.
TEST_F(SchedulerAfterTest, AKillBetweenFileAndRowPlacesAgain) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  scheduler_->Tick();
  files_.paths.insert(Output(a));
  launcher_.Exit(Done(Output(a)));
  spec::TrainSpec placed = SpecOnDisk(b);
  placed.adapter = Output(a);
  files_.specs[b] = spec::ToJson(placed);
  KillAndRestart();
  ASSERT_EQ(Next(), b);
  EXPECT_EQ(SpecOnDisk(b).adapter, Output(a));
  EXPECT_THAT(Stored(b).spec_json, HasSubstr(Output(a)));
}

TEST_F(SchedulerAfterTest, AReleaseEndsTheWaitForWhatFailed) {
  const std::string a = Submit(), b = Submit();
  const std::string c = SubmitAfter({a, b});
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  scheduler_->Tick();
  ASSERT_TRUE(Stored(c).held);
  ASSERT_TRUE(scheduler_->Release(c).ok());
  EXPECT_THAT(Stored(c).after, ElementsAre(b));
  EXPECT_FALSE(Stored(c).held);
  EXPECT_THAT(Hold(c), HasSubstr("waits for job " + b));
  EXPECT_EQ(Running(), b);
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), c);
}

TEST_F(SchedulerAfterTest, AReleasedJobThatNeedsTheResultIsHeldAgain) {
  const std::string a = Submit(), b = SubmitAfter({}, Adapter(a));
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  scheduler_->Tick();
  ASSERT_TRUE(scheduler_->Release(b).ok());
  scheduler_->Tick();
  EXPECT_TRUE(Stored(b).held);
  EXPECT_THAT(Stored(b).after, ElementsAre(a));
  EXPECT_EQ(Running(), "");
  // Once it is tried again, a release waits for it.
  ASSERT_TRUE(scheduler_->Retry(a).ok());
  ASSERT_TRUE(scheduler_->Release(b).ok());
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
}

// Whoever holds a job that waits has the last word.
TEST_F(SchedulerAfterTest, AHeldJobThatWaitedWaitsOnOnceReleased) {
  const std::string a = Submit(), b = SubmitAfter({a});
  ASSERT_TRUE(scheduler_->Hold(b, "not today").ok());
  EXPECT_THAT(Hold(b), HasSubstr("not today"));
  EXPECT_EQ(Next(), a);
  ASSERT_TRUE(scheduler_->Release(b).ok());
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  ASSERT_TRUE(scheduler_->Hold(b, "not today").ok());
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), "");
  ASSERT_TRUE(scheduler_->Release(b).ok());
  EXPECT_EQ(Next(), b);
}

// The prior job is to run again before its successor has started.
TEST_F(SchedulerAfterTest, ASuccessThatIsTakenBackIsWaitedForAgain) {
  const std::string a = Submit(/*priority=*/-1), b = SubmitAfter({a});
  ASSERT_EQ(Next(), a);
  const std::string urgent = Submit(/*priority=*/5);
  End(ExitReason::kDone);
  ASSERT_EQ(Running(), urgent);
  ASSERT_TRUE(scheduler_->Retry(a, /*from_scratch=*/true).ok());
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), a);
  EXPECT_THAT(Hold(b), HasSubstr("waits for job " + a));
  End(ExitReason::kDone);
  EXPECT_EQ(Running(), b);
}

TEST_F(SchedulerAfterTest, WhatIsTriedAgainHasNotFailed) {
  const std::string a = Submit(), b = Submit();
  const std::string c = SubmitAfter({a, b});
  ASSERT_TRUE(scheduler_->Cancel(a).ok());
  EXPECT_EQ(Stored(c).after.size(), 2u);
  ASSERT_TRUE(scheduler_->Retry(a).ok());
  EXPECT_EQ(Next(), a);
}

TEST_F(SchedulerAfterTest, TheRequestIsKept) {
  const std::string a = Submit();
  const std::string b = SubmitAfter({a}, Adapter(a));
  EXPECT_THAT(files_.requests.at(b), HasSubstr("job:" + a));
  EXPECT_THAT(files_.requests.at(b), HasSubstr("\"after\":[\"" + a + "\"]"));
}

}  // namespace
}  // namespace mpsd::jobs
