// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/attempt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_host.h"
#include "tests/fakes/fake_job_store.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// Writes down what it is asked.
class NotingWorker final : public Worker {
 public:
  explicit NotingWorker(std::vector<std::string>& asked) : asked_(asked) {}
  void Preempt(absl::Duration) override { asked_.push_back("preempt"); }
  void Cancel(absl::Duration grace) override {
    asked_.push_back(grace == absl::ZeroDuration() ? "kill" : "cancel");
  }
  void Pause() override { asked_.push_back("pause"); }
  void Resume() override { asked_.push_back("resume"); }

 private:
  std::vector<std::string>& asked_;
};

class AttemptTest : public testing::Test {
 protected:
  AttemptTest()
      : journal_([this](const std::string&, const std::string& line) {
          log_.push_back(line);
        }),
        gate_(OnBattery()) {
    EXPECT_TRUE(store_
                    .Insert(QueuedJob(), {"J", 1, clock_.Now(),
                                          StateChanged{State::kQueued, ""}})
                    .ok());
    machine_.reading.power_source = host::PowerSource::kMains;
  }

  static Job QueuedJob() {
    Job job;
    job.id = "J";
    return job;
  }
  static PausePolicy OnBattery() {
    PausePolicy policy;
    policy.on_battery = true;
    policy.settle = absl::ZeroDuration();
    policy.hold_limit = absl::Minutes(10);
    return policy;
  }
  absl::StatusOr<std::unique_ptr<Attempt>> TryStart() {
    return Attempt::Start(RunningJob(QueuedJob(), 1, 0),
                          {"boot", absl::Minutes(2)},
                          {store_, journal_, clock_, &machine_});
  }
  std::unique_ptr<Attempt> Starting() { return *TryStart(); }
  std::unique_ptr<Attempt> Working() {
    std::unique_ptr<Attempt> attempt = Starting();
    attempt->AttachWorker(std::make_unique<NotingWorker>(asked_));
    return attempt;
  }
  std::unique_ptr<Attempt> Ended() {
    std::unique_ptr<Attempt> attempt = Working();
    EndFor(*attempt, ExitReason::kDone);
    return attempt;
  }
  static void EndFor(Attempt& attempt, ExitReason reason) {
    WorkerListener::Result result;
    result.reason = reason;
    attempt.End(attempt.DecideEnding(result, RetryPolicy()));
  }
  // What the gate makes of the machine's power source, told to `attempt`.
  bool SetPower(Attempt& attempt, host::PowerSource source) {
    machine_.reading.power_source = source;
    gate_.Observe(machine_.reading, clock_.Now(), clock_.Monotonic());
    return attempt.ApplyPauseReasons(gate_);
  }
  Job Stored() { return *store_.Get("J"); }

  fakes::FakeClock clock_;
  fakes::FakeJobStore store_;
  fakes::FakeHost machine_;
  std::vector<std::string> log_;
  Journal journal_;
  PauseGate gate_;
  std::vector<std::string> asked_;  // of the worker
};

TEST_F(AttemptTest, StartStoresTheRow) {
  const std::unique_ptr<Attempt> attempt = Starting();
  EXPECT_EQ(attempt->phase(), Attempt::Phase::kStarting);
  EXPECT_EQ(Stored().state, State::kRunning);
  EXPECT_EQ(Stored().attempt, 1);
  EXPECT_EQ(Stored().boot_id, "boot");
  EXPECT_FALSE(attempt->dirty());
}

TEST_F(AttemptTest, AStartThatIsNotStoredMakesNoAttempt) {
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(TryStart().status()));
  EXPECT_EQ(Stored().state, State::kQueued);
}

TEST_F(AttemptTest, AWorkerThatIsAttachedKeepsTheMachineAwake) {
  std::unique_ptr<Attempt> attempt = Working();
  EXPECT_EQ(attempt->phase(), Attempt::Phase::kWorking);
  EXPECT_EQ(machine_.awake, 1);
  EndFor(*attempt, ExitReason::kDone);
  EXPECT_EQ(machine_.awake, 0);
}

TEST_F(AttemptTest, AWorkerHearsOfACancelThatCameBeforeIt) {
  std::unique_ptr<Attempt> attempt = Starting();
  EXPECT_TRUE(attempt->Cancel(/*now=*/false).ok());
  EXPECT_TRUE(Stored().cancel_requested);
  attempt->AttachWorker(std::make_unique<NotingWorker>(asked_));
  EXPECT_THAT(asked_, ElementsAre("cancel"));
}

TEST_F(AttemptTest, AWorkerThatEndedBeforeItWasAttachedIsAskedForNothing) {
  std::unique_ptr<Attempt> attempt = Starting();
  EXPECT_TRUE(attempt->Cancel(/*now=*/false).ok());
  EndFor(*attempt, ExitReason::kCancelled);
  attempt->AttachWorker(std::make_unique<NotingWorker>(asked_));
  EXPECT_TRUE(attempt->ended());
  EXPECT_TRUE(attempt->has_worker());
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_EQ(machine_.awake, 0);
}

TEST_F(AttemptTest, ACancelIsToldOnceAndAgainWhenItIsToBeNow) {
  const std::unique_ptr<Attempt> attempt = Working();
  EXPECT_TRUE(attempt->Cancel(/*now=*/false).ok());
  EXPECT_TRUE(attempt->Cancel(/*now=*/false).ok());
  EXPECT_TRUE(attempt->Cancel(/*now=*/true).ok());
  EXPECT_THAT(asked_, ElementsAre("cancel", "kill"));
}

TEST_F(AttemptTest, ACancelThatIsNotStoredIsToldNonetheless) {
  const std::unique_ptr<Attempt> attempt = Working();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(attempt->Cancel(/*now=*/false)));
  EXPECT_THAT(asked_, ElementsAre("cancel"));
}

TEST_F(AttemptTest, IsPreemptedForADrainOnceUnlessItIsCancelled) {
  const std::unique_ptr<Attempt> attempt = Working();
  attempt->PreemptForDrain();
  attempt->PreemptForDrain();
  EXPECT_THAT(asked_, ElementsAre("preempt"));
  EXPECT_TRUE(attempt->Cancel(/*now=*/false).ok());
  attempt->PreemptForDrain();
  EXPECT_THAT(asked_, ElementsAre("preempt", "cancel"));
}

TEST_F(AttemptTest, ADrainLeavesAnAttemptThatHasEndedAlone) {
  const std::unique_ptr<Attempt> ended = Ended();
  ended->PreemptForDrain();
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(AttemptTest, IsHeldAndGoesOnAsTheGateWantsIt) {
  const std::unique_ptr<Attempt> attempt = Working();
  EXPECT_FALSE(SetPower(*attempt, host::PowerSource::kMains));
  EXPECT_TRUE(SetPower(*attempt, host::PowerSource::kBattery));
  EXPECT_FALSE(SetPower(*attempt, host::PowerSource::kBattery)) << "no news";
  EXPECT_TRUE(attempt->is_paused());
  EXPECT_EQ(machine_.awake, 1) << "the step is not over";
  attempt->Held();
  EXPECT_EQ(machine_.awake, 0);
  const Pause shown = attempt->ShownPause(gate_.reasons());
  EXPECT_TRUE(shown.held);
  EXPECT_EQ(shown.since, clock_.Now());
  EXPECT_TRUE(SetPower(*attempt, host::PowerSource::kMains));
  EXPECT_FALSE(attempt->is_paused());
  EXPECT_EQ(machine_.awake, 1);
  attempt->Resumed();
  EXPECT_EQ(attempt->ShownPause(gate_.reasons()), Pause());
  EXPECT_THAT(asked_, ElementsAre("pause", "resume"));
}

TEST_F(AttemptTest, ALongPauseGivesTheMemoryBackOnce) {
  const std::unique_ptr<Attempt> attempt = Working();
  EXPECT_TRUE(SetPower(*attempt, host::PowerSource::kBattery));
  clock_.Advance(absl::Minutes(10));
  EXPECT_TRUE(attempt->ApplyPauseReasons(gate_));
  EXPECT_FALSE(attempt->ApplyPauseReasons(gate_));
  EXPECT_THAT(asked_, ElementsAre("pause", "preempt"));
  WorkerListener::Result result;
  result.reason = ExitReason::kPreempted;
  const Attempt::Ending ending = attempt->DecideEnding(result, RetryPolicy());
  EXPECT_EQ(ending.next.state, State::kQueued);
  EXPECT_THAT(ending.next.message, HasSubstr("goes on by itself"));
  EXPECT_FALSE(ending.next.behind);
}

TEST_F(AttemptTest, WhatIsNotStoredWaitsForTheNextFlush) {
  const std::unique_ptr<Attempt> attempt = Working();
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  attempt->CheckpointWritten({{1, "/step-1", 5, 0.5}, clock_.Now()});
  EndFor(*attempt, ExitReason::kDone);
  EXPECT_FALSE(attempt->Flush().ok());
  EXPECT_TRUE(attempt->dirty());
  clock_.Advance(absl::Seconds(3));
  EXPECT_EQ(attempt->flush_age(), absl::Seconds(3));
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(attempt->Flush().ok());
  EXPECT_FALSE(attempt->dirty());
  EXPECT_EQ(Stored().state, State::kSucceeded);
  EXPECT_THAT(*store_.Checkpoints("J"), SizeIs(1));
}

TEST_F(AttemptTest, ACheckpointThatTheStoreRefusesIsDroppedWithALine) {
  const std::unique_ptr<Attempt> attempt = Working();
  attempt->CheckpointWritten({{-1, "/step--1", 5, 0.5}, clock_.Now()});
  EXPECT_TRUE(attempt->Flush().ok());
  EXPECT_FALSE(attempt->dirty());
  journal_.Write();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("checkpoint: ")));
}

TEST_F(AttemptTest, KnowsItsDeviceOnceTheWorkerTellsIt) {
  const std::unique_ptr<Attempt> attempt = Working();
  EXPECT_EQ(attempt->device(), "");
  attempt->DeviceOpened("cpu");
  EXPECT_EQ(attempt->device(), "cpu");
  Progress progress;
  progress.device = "mps";
  attempt->Progressed(progress);
  EXPECT_EQ(attempt->device(), "mps");
}

using AttemptDeathTest = AttemptTest;

TEST_F(AttemptDeathTest, ReportsNothingAfterItsEnd) {
  const std::unique_ptr<Attempt> ended = Ended();
  EXPECT_DEATH(ended->Progressed(Progress()), "Progressed comes before End");
  EXPECT_DEATH(ended->Evaluated(Evaluated()), "Evaluated comes before End");
  EXPECT_DEATH(ended->CheckpointWritten({}), "CheckpointWritten comes");
  EXPECT_DEATH(ended->DeviceOpened("cpu"), "DeviceOpened comes before End");
  EXPECT_DEATH(ended->Staged("late"), "Staged comes before End");
  EXPECT_DEATH(ended->Warned("late"), "Warned comes before End");
  EXPECT_DEATH(ended->Resumed(), "Resumed comes before End");
  EXPECT_DEATH(ended->Cancel(true).IgnoreError(), "Cancel comes before End");
}

TEST_F(AttemptDeathTest, EndsOnce) {
  const std::unique_ptr<Attempt> ended = Ended();
  EXPECT_DEATH(EndFor(*ended, ExitReason::kDone), "DecideEnding comes");
  EXPECT_DEATH(ended->End({}), "End is called once");
}

TEST_F(AttemptDeathTest, HasOneWorker) {
  const std::unique_ptr<Attempt> attempt = Working();
  const auto attach = [&] {
    attempt->AttachWorker(std::make_unique<NotingWorker>(asked_));
  };
  EXPECT_DEATH(attach(), "AttachWorker is called once");
  attempt->TakeWorker().reset();
  EXPECT_DEATH(attach(), "AttachWorker is called once");
}

TEST_F(AttemptDeathTest, HoldsOnlyWhenItWasAsked) {
  const std::unique_ptr<Attempt> attempt = Working();
  EXPECT_DEATH(attempt->Held(), "Held comes while");
}

}  // namespace
}  // namespace mpsd::jobs
