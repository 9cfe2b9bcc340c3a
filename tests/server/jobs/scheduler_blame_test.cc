// SPDX-License-Identifier: Apache-2.0
// Interruptions: the table of server/jobs/attempt_end.h through the scheduler.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "server/jobs/scheduler.h"
#include "tests/fakes/fake_host.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;

class SchedulerBlameTest : public SchedulerFixture {};

TEST_F(SchedulerBlameTest, AJobThatTakesTheMachineDownIsGivenUp) {
  const std::string id = Submit(9), next = Submit();
  for (int32_t round = 1; round < 5; ++round) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), round == 1 ? id : next);
    if (round > 1) {
      // The other one has had its turn; now the machine goes down again.
      launcher_.Exit(ExitReason::kDone);
      scheduler_->Tick();
      clock_.Advance(absl::Minutes(1));
      scheduler_->Tick();
      ASSERT_EQ(Running(), id);
    }
    boot_id_ = "boot " + std::to_string(round + 1);
    KillAndRestart();
    ASSERT_EQ(StateOf(id), State::kQueued);
    EXPECT_EQ(Stored(id).interruptions, round);
    EXPECT_EQ(Stored(id).failures, 0);
    EXPECT_EQ(Stored(id).exit_reason, ExitReason::kInterrupted);
    EXPECT_THAT(Stored(id).message, HasSubstr("the machine went down"));
    if (StateOf(next) == State::kSucceeded) break;
  }
  while (StateOf(id) == State::kQueued) {
    clock_.Advance(absl::Minutes(1));
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    KillAndRestart();
  }
  EXPECT_EQ(StateOf(id), State::kFailed);
  EXPECT_EQ(Stored(id).interruptions, 5);
  EXPECT_EQ(Stored(id).attempt, 5);
  EXPECT_THAT(Stored(id).message,
              AllOf(HasSubstr("5 interruptions in a row"),
                    HasSubstr("mpsd ended while the job ran")));
  EXPECT_THAT(exported_metrics_.ended, Contains(id));
  const std::string after = Submit();
  scheduler_->Tick();
  EXPECT_EQ(Running(), after);
}

TEST_F(SchedulerBlameTest, OthersGoBeforeAnInterruptedJob) {
  const std::string id = Submit(9), next = Submit();
  scheduler_->Tick();
  ASSERT_EQ(Running(), id);
  KillAndRestart();
  EXPECT_EQ(board_->QueuePosition(id), 1);
  clock_.Advance(absl::Hours(1));
  scheduler_->Tick();
  EXPECT_EQ(Running(), next);
}

TEST_F(SchedulerBlameTest, ANewCheckpointEndsARowOfInterruptions) {
  const std::string id = Submit();
  for (int round = 1; round <= 20; ++round) {
    clock_.Advance(absl::Minutes(1));
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    if (round % 3 == 0) {
      Worker().OnCheckpoint(At(round, "/step-" + std::to_string(round)));
    }
    KillAndRestart();
    ASSERT_EQ(StateOf(id), State::kQueued);
    ASSERT_EQ(Stored(id).interruptions, round % 3);
  }
}

TEST_F(SchedulerBlameTest, ACheckpointNobodyHeardOfCountsToo) {
  const std::string id = Submit();
  for (int round = 1; round <= 12; ++round) {
    clock_.Advance(absl::Minutes(1));
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    clock_.Advance(absl::Seconds(1));
    // A worker outlived its daemon and wrote one: the next resumes from there.
    Worker().OnProgress(Step(round * 10 + 1));
    KillAndRestart();
    ASSERT_EQ(StateOf(id), State::kQueued);
    ASSERT_EQ(Stored(id).interruptions, 1);
  }
  for (int round = 2; round <= 4; ++round) {
    clock_.Advance(absl::Minutes(1));
    scheduler_->Tick();
    clock_.Advance(absl::Seconds(1));
    Worker().OnProgress(Step(121));  // the same again
    KillAndRestart();
    ASSERT_EQ(Stored(id).interruptions, round);
  }
}

TEST_F(SchedulerBlameTest, ACleanDrainNeverCounts) {
  const std::string id = Submit();
  for (int round = 1; round <= 12; ++round) {
    scheduler_->Tick();
    ASSERT_EQ(Running(), id);
    scheduler_->Drain();
    launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
    Restart();
    ASSERT_TRUE(scheduler_->Recover().ok());
    ASSERT_EQ(Stored(id).interruptions, 0);
    ASSERT_EQ(Stored(id).behind, false);
  }
}

class SchedulerPressureTest : public SchedulerBlameTest {
 protected:
  SchedulerPressureTest() {
    pause_.memory_pressure = host::MemoryPressure::kCritical;
    machine_.reading.memory_pressure = host::MemoryPressure::kNormal;
    host_ = &machine_;
    Restart();
  }
  ~SchedulerPressureTest() override { scheduler_.reset(); }

  void After(absl::Duration duration) {
    clock_.Advance(duration);
    scheduler_->Tick();
  }
  // The job that runs makes pressure, is returned, and it is over.
  void Press() {
    machine_.reading.memory_pressure = host::MemoryPressure::kCritical;
    After(absl::Seconds(5));
    After(absl::Minutes(1));
    launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
    machine_.reading.memory_pressure = host::MemoryPressure::kNormal;
    After(absl::Seconds(5));
    After(absl::Minutes(11));
  }

  fakes::FakeHost machine_;
};

TEST_F(SchedulerPressureTest, SelfMadePressureStarvesNobody) {
  const std::string large = Submit(), small = Submit();
  After(absl::Seconds(5));
  ASSERT_EQ(Running(), large);
  Press();
  EXPECT_EQ(Stored(large).exit_reason, ExitReason::kInterrupted);
  EXPECT_EQ(Stored(large).interruptions, 1);
  EXPECT_EQ(Running(), small);
  launcher_.Exit(ExitReason::kDone);
  After(absl::Seconds(5));
  for (int count = 2; count <= 5; ++count) {
    ASSERT_EQ(Running(), large) << count;
    Press();
    ASSERT_EQ(Stored(large).interruptions, count);
  }
  EXPECT_EQ(StateOf(large), State::kFailed);
  EXPECT_EQ(Stored(large).failures, 0);
}

TEST_F(SchedulerPressureTest, AJobThatAdvancesGoesOnBehindTheOthers) {
  const std::string large = Submit();
  After(absl::Seconds(5));
  for (int round = 1; round <= 10; ++round) {
    ASSERT_EQ(Running(), large);
    Worker().OnCheckpoint(At(round, "/step-" + std::to_string(round)));
    const std::string small = Submit();
    Press();
    ASSERT_EQ(Stored(large).interruptions, 0);
    ASSERT_EQ(Running(), small);
    launcher_.Exit(ExitReason::kDone);
    After(absl::Seconds(5));
  }
}

}  // namespace
}  // namespace mpsd::jobs
