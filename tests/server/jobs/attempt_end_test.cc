// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/attempt_end.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>

#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {

namespace {

using report::FailureKind;

constexpr int kExit1 = 1 << 8;

WorkerEnding Ending(LastWord last_word, int wait_status,
                    Asked asked = Asked::kNothing,
                    const std::string& log_tail = "THE TAIL\n") {
  WorkerEnding ending;
  ending.last_word = std::move(last_word);
  ending.wait_status = wait_status;
  ending.asked = asked;
  ending.log_tail = log_tail;
  return ending;
}

void ExpectExit(const WorkerEnding& ending, ExitReason reason,
                const std::vector<std::string>& words = {}) {
  const auto result = DecideExit(ending);
  EXPECT_EQ(result.reason, reason) << result.message << ending.log_tail;
  for (const std::string& word : words) {
    EXPECT_THAT(result.message, HasSubstr(word));
  }
}

Outcome Done() {
  Outcome outcome;
  outcome.output_path = "/adapter";
  outcome.train_loss = 1;
  outcome.eval_loss_before = 2;
  outcome.eval_loss_after = 3;
  outcome.metrics = {{"f1", 0.5}};
  return outcome;
}

report::Failure Failed(FailureKind kind) { return {kind, "why"}; }

TEST(DecideExit, TheLogDecidesWhoseFaultACrashWas) {
  const auto aborted = [](const char* log_tail) {
    return Ending({}, SIGABRT, Asked::kNothing, log_tail);
  };
  ExpectExit(
      aborted("step 3/9\n/x/MPSGraph.mm:1: failed assertion `bad axis'\n"),
      ExitReason::kCrashed,
      {"SIGABRT (a failed assertion)", "Metal's graph compiler rejected",
       "bad axis"});
  ExpectExit(
      aborted(
          "MPSNDArray.mm: failed assertion `total bytes of NDArray > 2**32'"),
      ExitReason::kOutOfMemory, {"per_device_train_batch_size"});
  // The data's fault, never retried: an index beyond its table.
  ExpectExit(
      aborted("Indexing.cu:1553: indexSelectSmallIndex: Assertion `srcIndex < "
              "srcSelectDimSize` failed.\nCUDA error: device-side assert "
              "triggered\n"),
      ExitReason::kRejected, {"vocab_size"});
  // The message has five lines of the log; `mpsctl logs` prints all.
  EXPECT_THAT(DecideExit(aborted("1\n2\n\n3\n4\n5\n6\n")).message,
              EndsWith("its log ends:\n2\n3\n4\n5\n6"));
  // Numbers that Metal lost are not the user's.
  WorkerEnding ending = Ending(Failed(FailureKind::kNonFinite), kExit1);
  ending.log_tail = "Error: command buffer exited with error status.";
  ExpectExit(ending, ExitReason::kCrashed);
  ending.log_tail += "(00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)";
  ExpectExit(ending, ExitReason::kOutOfMemory);
}

TEST(DecideExit, TheLastWordCountsBeforeTheStatus) {
  ExpectExit(Ending(Done(), SIGABRT), ExitReason::kDone, {"SIGABRT"});
  ExpectExit(Ending(Done(), 0, Asked::kCancel), ExitReason::kDone);
  ExpectExit(Ending(Failed(FailureKind::kInternal), kExit1),
             ExitReason::kCrashed, {"why", "THE TAIL"});
  ExpectExit(Ending({}, 0), ExitReason::kCrashed, {"exited with status 0"});
  ExpectExit(Ending(Failed(FailureKind::kRejected), kExit1, Asked::kPreempt),
             ExitReason::kRejected);
  ExpectExit(Ending(report::Stopped{}, 0), ExitReason::kProtocolError);
}

TEST(DecideExit, AFaultOfTheMachineIsKnownByItsErrno) {
  report::Failure failure{FailureKind::kRejected, "/out: read-only", EROFS};
  WorkerEnding ending = Ending(failure, kExit1);
  ending.asked = Asked::kPreempt;
  EXPECT_EQ(DecideExit(ending).reason, ExitReason::kMachine);
  EXPECT_EQ(DecideExit(ending).message, "/out: read-only");
  for (const int64_t error : {int64_t{ENOENT}, int64_t{0}}) {
    failure.error = error;
    EXPECT_EQ(DecideExit(Ending(failure, kExit1)).reason,
              ExitReason::kRejected);
  }
}

TEST(DecideExit, SignalsHaveNames) {
  const std::pair<int, const char*> cases[] = {
      {SIGSEGV, "SIGSEGV"}, {SIGABRT, "SIGABRT"}, {SIGKILL, "SIGKILL"},
      {SIGBUS, "SIGBUS"},   {SIGTERM, "SIGTERM"}, {SIGUSR2, "signal "}};
  for (const auto& [number, name] : cases) {
    ExpectExit(Ending({}, number), ExitReason::kCrashed, {name, "THE TAIL"});
  }
}

TEST(DecideExit, HungIsNotTheSigkillThatEndedIt) {
  WorkerEnding ending = Ending({}, SIGKILL);
  ending.hung = true;
  ending.silence = absl::Seconds(600.25);
  ExpectExit(ending, ExitReason::kHung,
             {"killed after 10m0.2s without", "THE TAIL"});
  EXPECT_THAT(DecideExit(ending).message, Not(HasSubstr("SIGKILL")));
}

TEST(DecideExit, NonsenseBeatsEverythingButACancel) {
  WorkerEnding ending = Ending(Done(), SIGKILL);
  ending.protocol_error = "no JSON";
  ExpectExit(ending, ExitReason::kProtocolError, {"no JSON"});
  ending.last_word = {};
  ending.asked = Asked::kCancel;
  ExpectExit(ending, ExitReason::kCancelled);
}

TEST(DecideExit, ACancelledWorkerIsCancelledHoweverItEnds) {
  for (int status : {0, kExit1, SIGKILL, SIGSEGV}) {
    for (const LastWord& word : {LastWord(), LastWord(report::Stopped{}),
                                 LastWord(Failed(FailureKind::kInternal))}) {
      ExpectExit(Ending(word, status, Asked::kCancel), ExitReason::kCancelled);
    }
  }
  ExpectExit(Ending(report::Stopped{report::StopReason::kPreempt, 12}, 0,
                    Asked::kCancel),
             ExitReason::kCancelled,
             {"cancelled; it has a checkpoint of step 12"});
  ExpectExit(Ending(Failed(FailureKind::kInternal), 0, Asked::kCancel),
             ExitReason::kCancelled, {"cancelled; why"});
  WorkerEnding killed = Ending({}, SIGKILL, Asked::kCancel);
  killed.killed_after_grace = true;
  ExpectExit(killed, ExitReason::kCancelled,
             {"cancelled; killed", "steps since the last one are lost"});
}

TEST(DecideExit, PreemptedHoweverItStopped) {
  ExpectExit(Ending(report::Stopped{}, 0, Asked::kPreempt),
             ExitReason::kPreempted);
  WorkerEnding ending = Ending({}, SIGKILL, Asked::kPreempt);
  ExpectExit(ending, ExitReason::kPreempted, {"SIGKILL"});
  ending.killed_after_grace = true;
  ExpectExit(ending, ExitReason::kPreempted, {"grace"});
}

// The table of attempt_end.h, once more and by hand.
TEST(BlamedPartyFor, FollowsTheTable) {
  const std::map<ExitReason, BlamedParty> expected = {
      {ExitReason::kDone, BlamedParty::kNone},
      {ExitReason::kCancelled, BlamedParty::kNone},
      {ExitReason::kPreempted, BlamedParty::kNone},
      {ExitReason::kRejected, BlamedParty::kJob},
      {ExitReason::kOutOfMemory, BlamedParty::kJob},
      {ExitReason::kNonFinite, BlamedParty::kJob},
      {ExitReason::kCrashed, BlamedParty::kJob},
      {ExitReason::kHung, BlamedParty::kJob},
      {ExitReason::kProtocolError, BlamedParty::kJob},
      {ExitReason::kTimeLimit, BlamedParty::kJob},
      {ExitReason::kMachine, BlamedParty::kMachine},
      {ExitReason::kInterrupted, BlamedParty::kInterruption}};
  for (ExitReason reason : kAllExitReasons) {
    ASSERT_TRUE(expected.contains(reason)) << Name(reason);
    EXPECT_EQ(BlamedPartyFor(reason), expected.at(reason)) << Name(reason);
  }
}

class VerdictTest : public testing::Test {
 protected:
  VerdictTest() {
    job_.id = "J";
    job_.spec_json =
        R"({"model": "/models/tiny", "dataset": {"train": "/data/t.jsonl"}})";
    files_.specs["J"] = job_.spec_json;
    files_.paths = {"/models/tiny", "/data/t.jsonl"};
  }
  Verdict Judge(ExitReason reason) {
    WorkerListener::Result result;
    result.reason = reason;
    result.message = "why";
    return JudgeEnd(result, job_, /*min_free_bytes=*/1000, files_);
  }

  Job job_;
  fakes::FakeJobFiles files_;
};

TEST_F(VerdictTest, AnErrorThatTheDiskDoesNotExplainStays) {
  const Verdict verdict = Judge(ExitReason::kCrashed);
  EXPECT_EQ(verdict.result.reason, ExitReason::kCrashed);
  EXPECT_EQ(verdict.result.message, "why");
  EXPECT_THAT(verdict.job_lacks, IsEmpty());
  EXPECT_THAT(verdict.disk_lacks, IsEmpty());
}

TEST_F(VerdictTest, AFullDiskExplainsACrashAndNoRejection) {
  files_.free_bytes = 999;
  EXPECT_EQ(Judge(ExitReason::kCrashed).result.reason, ExitReason::kMachine);
  EXPECT_THAT(Judge(ExitReason::kCrashed).disk_lacks,
              HasSubstr("--min-free-bytes"));
  EXPECT_EQ(Judge(ExitReason::kRejected).result.reason, ExitReason::kRejected);
}

TEST_F(VerdictTest, TheDiskIsNoExcuseForOtherEnds) {
  files_.paths.clear();
  files_.free_bytes = 0;
  for (ExitReason reason :
       {ExitReason::kDone, ExitReason::kHung, ExitReason::kOutOfMemory,
        ExitReason::kPreempted, ExitReason::kCancelled}) {
    EXPECT_EQ(Judge(reason).result.reason, reason);
  }
}

TEST_F(VerdictTest, AnInterruptionDistinguishesTheMachineFromMpsd) {
  EXPECT_THAT(Interruption(job_, "boot 2").message,
              HasSubstr("mpsd or the machine"));
  job_.boot_id = "boot 2";
  EXPECT_EQ(Interruption(job_, "boot 2").message,
            "mpsd ended while the job ran");
  EXPECT_EQ(Interruption(job_, "boot 3").message,
            "the machine went down while the job ran");
  EXPECT_EQ(Interruption(job_, "").reason, ExitReason::kInterrupted);
}

const absl::Time kEndNow = absl::FromUnixSeconds(1000);
const RetryPolicy kPolicy = {3, 5, absl::Seconds(10), absl::Seconds(60)};

NextState Next(ExitReason reason, const Job& job = {}) {
  WorkerListener::Result result;
  result.reason = reason;
  result.message = "why";
  return DecideNext(kPolicy, job, result, kEndNow);
}

TEST(DecideNext, DoneSucceeds) {
  EXPECT_EQ(Next(ExitReason::kDone).state, State::kSucceeded);
  Job job;
  job.cancel_requested = true;
  EXPECT_EQ(Next(ExitReason::kDone, job).state, State::kSucceeded);
}

TEST(DecideNext, WhatWouldEndTheSameWayIsNotTriedAgain) {
  for (ExitReason reason : {ExitReason::kRejected, ExitReason::kOutOfMemory,
                            ExitReason::kNonFinite, ExitReason::kTimeLimit}) {
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
    EXPECT_EQ(next.not_before, kEndNow + absl::Seconds(10));
    EXPECT_THAT(next.message, HasSubstr("why"));
    job.failures = 1;
    next = Next(reason, job);
    EXPECT_EQ(next.state, State::kQueued);
    EXPECT_EQ(next.not_before, kEndNow + absl::Seconds(20));
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

TEST(DecideNext, InterruptionsHaveALimitOfTheirOwn) {
  Job job;
  job.failures = 2;
  absl::Duration wait = absl::Seconds(10);
  for (int32_t count = 1; count < 5; ++count) {
    const NextState next = Next(ExitReason::kInterrupted, job);
    ASSERT_EQ(next.state, State::kQueued) << count;
    EXPECT_EQ(next.interruptions, count);
    EXPECT_EQ(next.failures, 2);
    EXPECT_TRUE(next.runs_last);
    EXPECT_EQ(next.not_before, kEndNow + wait);
    job.interruptions = next.interruptions;
    wait = std::min(2 * wait, absl::Seconds(60));
  }
  const NextState last = Next(ExitReason::kInterrupted, job);
  EXPECT_EQ(last.state, State::kFailed);
  EXPECT_THAT(last.message, HasSubstr("5 interruptions in a row without a new "
                                      "checkpoint between: why"));
  EXPECT_THAT(last.message, HasSubstr("mpsctl retry"));
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
    EXPECT_EQ(next.message, "runs again from scratch, as requested");
  }
  job.cancel_requested = true;
  EXPECT_EQ(Next(ExitReason::kCrashed, job).state, State::kCancelled);
}

constexpr absl::Duration kConfigured = absl::Minutes(10);

class HangLimitTest : public testing::Test {
 protected:
  absl::Duration After(absl::Duration duration) {
    clock_.Advance(duration);
    return clock_.Monotonic();
  }
  fakes::FakeClock clock_;
  HangLimit limit_{kConfigured, absl::ZeroDuration(), clock_.Monotonic()};
};

TEST_F(HangLimitTest, IsAsConfiguredForAQuickWorker) {
  EXPECT_EQ(limit_.deadline(), kConfigured);
  for (int i = 0; i < 100; ++i) limit_.Stepped(After(absl::Seconds(5)), 5);
  EXPECT_EQ(limit_.limit(), kConfigured);
  EXPECT_EQ(limit_.deadline(), clock_.Monotonic() + kConfigured);
}

TEST_F(HangLimitTest, GrowsWithTheSlowestStep) {
  for (int i = 0; i < 15; ++i) limit_.Heard(After(absl::Minutes(1)));
  limit_.Stepped(After(absl::Minutes(1)), 16 * 60);
  EXPECT_EQ(limit_.limit(), absl::Minutes(48));
  limit_.Stepped(After(absl::Minutes(1)), 60);  // and stays
  EXPECT_EQ(limit_.limit(), absl::Minutes(48));
}

TEST_F(HangLimitTest, GrowsWithASilenceThatTheWorkerBroke) {
  limit_.Heard(After(absl::Minutes(9)));
  EXPECT_EQ(limit_.limit(), absl::Minutes(27));
  EXPECT_EQ(limit_.heard_at(), absl::Minutes(9));
}

TEST_F(HangLimitTest, KnowsWhatAnEarlierAttemptTook) {
  const HangLimit limit(kConfigured, absl::Minutes(20), absl::ZeroDuration());
  EXPECT_EQ(limit.limit(), absl::Hours(1));
  for (const double seconds : {1e30, HUGE_VAL, std::nan("")}) {
    const HangLimit bounded(kConfigured, absl::Seconds(seconds),
                            absl::ZeroDuration());
    EXPECT_LE(bounded.limit(), absl::Hours(3)) << seconds;
  }
}

TEST_F(HangLimitTest, AWorkersNumbersAreBoundedByWhatPassed) {
  for (const double seconds : {1e30, -1e30, -1.0, HUGE_VAL, std::nan("")}) {
    limit_.Stepped(After(absl::Seconds(1)), seconds);
  }
  EXPECT_EQ(limit_.limit(), kConfigured);
}

}  // namespace

}  // namespace mpsd::jobs
