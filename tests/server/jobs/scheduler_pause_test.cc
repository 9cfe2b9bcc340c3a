// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/jobs/scheduler.h"
#include "tests/fakes/fake_host.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using host::MemoryPressure;
using host::PowerSource;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SchedulerPauseTest : public SchedulerFixture {
 protected:
  SchedulerPauseTest() {
    pause_.on_battery = true;
    pause_.memory_pressure = MemoryPressure::kCritical;
    pause_.settle = absl::Seconds(30);
    pause_.hold_limit = absl::Minutes(10);
    machine_.reading.power_source = PowerSource::kMains;
    machine_.reading.memory_pressure = MemoryPressure::kNormal;
    host_ = &machine_;
    Restart();
  }
  ~SchedulerPauseTest() override {
    scheduler_.reset();  // before the machine
  }

  // The time passes, with a look at the machine at its end.
  void After(absl::Duration duration) {
    clock_.Advance(duration);
    scheduler_->Tick();
  }
  void Unplug() {
    machine_.reading.power_source = PowerSource::kBattery;
    After(absl::Seconds(5));
  }
  void PlugIn() {
    machine_.reading.power_source = PowerSource::kMains;
    After(absl::Seconds(5));
  }
  std::string Run() {
    const std::string id = Submit();
    scheduler_->Tick();
    EXPECT_EQ(Running(), id);
    return id;
  }
  std::vector<std::string> Notes(const std::string& id) {
    std::vector<std::string> notes;
    const std::vector<Event> events = *board_->Events(id, 0);
    for (const Event& event : events) {
      const auto* note = std::get_if<Note>(&event.body);
      if (note != nullptr) notes.push_back(note->text);
    }
    return notes;
  }

  fakes::FakeHost machine_;
};

TEST_F(SchedulerPauseTest, LooksAtTheMachineEveryFewSeconds) {
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(5));
  EXPECT_EQ(machine_.reads, 1);
  clock_.Advance(absl::Seconds(2));
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(3));
  EXPECT_EQ(machine_.reads, 1);
  After(absl::Seconds(3));
  EXPECT_EQ(machine_.reads, 2);
  EXPECT_THAT(exported_metrics_.readings, SizeIs(2));
  EXPECT_EQ(board_->Info().host, machine_.reading);
}

TEST_F(SchedulerPauseTest, AJobIsHeldAndGoesOn) {
  const std::string id = Run();
  Unplug();
  EXPECT_EQ(launcher_.paused, 1);
  EXPECT_EQ(StateOf(id), State::kRunning);
  EXPECT_THAT(exported_metrics_.paused, ElementsAre(PauseReason::kBattery));
  Pause pause = board_->PauseOf(id);
  EXPECT_THAT(pause.reasons, ElementsAre(PauseReason::kBattery));
  EXPECT_FALSE(pause.held) << "the worker has not said so";
  EXPECT_EQ(pause.since, clock_.Now());
  Worker().OnProgress(Step(1));
  EXPECT_FALSE(Stored(id).progress.has_value());
  Worker().OnHeld();
  EXPECT_EQ(Stored(id).progress->step, 1) << "what is shown is where it holds";
  EXPECT_TRUE(board_->PauseOf(id).held);
  EXPECT_TRUE(board_->Info().pause.held);
  After(absl::Seconds(60));
  EXPECT_EQ(launcher_.paused, 1);

  PlugIn();
  EXPECT_EQ(launcher_.resumed, 0) << "it may have been a loose plug";
  After(absl::Seconds(30));
  EXPECT_EQ(launcher_.resumed, 1);
  Worker().OnResumed();
  EXPECT_EQ(board_->PauseOf(id), Pause());
  EXPECT_THAT(exported_metrics_.halting, ElementsAre(true, false));
  EXPECT_THAT(exported_metrics_.paused, IsEmpty());
  EXPECT_THAT(Notes(id), ElementsAre("paused: on battery or in Low Power Mode",
                                     "goes on after a pause of 1m35s"));
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(StateOf(id), State::kSucceeded);
}

// The worker's Held crosses the scheduler's Resume: the worker halted all the
// same.
TEST_F(SchedulerPauseTest, AHaltThatIsToldLateIsToldOn) {
  Run();
  Unplug();
  PlugIn();
  After(absl::Seconds(30));
  Worker().OnHeld();
  Worker().OnResumed();
  EXPECT_THAT(exported_metrics_.halting, ElementsAre(true, false));
}

TEST_F(SchedulerPauseTest, ALongPauseGivesTheMemoryBack) {
  const std::string id = Run();
  Unplug();
  Worker().OnHeld();
  After(absl::Minutes(10) - absl::Seconds(1));
  EXPECT_EQ(launcher_.preempted, 0);
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.preempted, 1);
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.preempted, 1) << "asked once";
  launcher_.Exit(ExitReason::kPreempted, "stopped at a checkpoint");
  After(absl::Seconds(5));
  EXPECT_EQ(StateOf(id), State::kQueued);
  EXPECT_EQ(Stored(id).failures, 0);
  EXPECT_EQ(Stored(id).message,
            "paused (on battery or in Low Power Mode), goes on by itself: "
            "stopped at a checkpoint");
  EXPECT_THAT(board_->PauseOf(id).reasons, ElementsAre(PauseReason::kBattery));

  PlugIn();
  After(absl::Seconds(30));
  EXPECT_EQ(Running(), id);
  EXPECT_EQ(Stored(id).attempt, 2);
  EXPECT_EQ(launcher_.paused, 1);
}

TEST_F(SchedulerPauseTest, UnderMemoryPressureTheMemoryIsGivenBackSoon) {
  Run();
  machine_.reading.memory_pressure = MemoryPressure::kCritical;
  After(absl::Seconds(5));
  EXPECT_EQ(launcher_.paused, 1);
  After(absl::Minutes(1));
  EXPECT_EQ(launcher_.preempted, 1);
}

TEST_F(SchedulerPauseTest, NothingStartsDuringAPause) {
  machine_.reading.power_source = PowerSource::kBattery;
  const std::string id = Submit();
  EXPECT_EQ(scheduler_->Tick(), clock_.Now() + absl::Seconds(5));
  EXPECT_THAT(launcher_.requests, IsEmpty());
  EXPECT_THAT(board_->PauseOf(id).reasons, ElementsAre(PauseReason::kBattery));
  EXPECT_THAT(board_->Info().pause.reasons, ElementsAre(PauseReason::kBattery));
  PlugIn();
  EXPECT_EQ(Running(), "");
  After(absl::Seconds(30));
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerPauseTest, ACancelledJobIsLeftAlone) {
  const std::string id = Run();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  Unplug();
  EXPECT_EQ(launcher_.paused, 0);
}

TEST_F(SchedulerPauseTest, APausedJobCanBeCancelledAndDrained) {
  const std::string id = Run();
  Unplug();
  Worker().OnHeld();
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  EXPECT_EQ(launcher_.cancelled, 1);
  launcher_.Exit(ExitReason::kCancelled);
  EXPECT_EQ(StateOf(id), State::kCancelled);

  PlugIn();
  After(absl::Seconds(30));
  const std::string other = Run();
  Unplug();
  scheduler_->Drain();
  EXPECT_EQ(launcher_.preempted, 1);
  launcher_.Exit(ExitReason::kPreempted);
  EXPECT_EQ(StateOf(other), State::kQueued);
}

TEST_F(SchedulerPauseTest, TheMachineStaysAwakeWhileAJobTrains) {
  EXPECT_EQ(machine_.awake, 0);
  const std::string id = Run();
  EXPECT_EQ(machine_.awake, 1);
  EXPECT_THAT(machine_.reasons, ElementsAre("mpsd trains job " + id));
  Unplug();
  EXPECT_EQ(machine_.awake, 1) << "the step is not over";
  Worker().OnHeld();
  EXPECT_EQ(machine_.awake, 0);
  PlugIn();
  After(absl::Seconds(30));
  EXPECT_EQ(machine_.awake, 1);
  launcher_.Exit(ExitReason::kDone);
  EXPECT_EQ(machine_.awake, 0);
}

TEST_F(SchedulerPauseTest, SaysOnceWhatTheMachineDoesNotTell) {
  machine_.reading = {};
  machine_.reading.memory_pressure = MemoryPressure::kNormal;
  const std::string id = Run();
  After(absl::Seconds(5));
  int said = 0;
  for (const std::string& line : log_) {
    said += line.find("does not tell: on battery") != std::string::npos;
  }
  EXPECT_EQ(said, 1);
  EXPECT_EQ(Running(), id);
}

TEST_F(SchedulerPauseTest, AnOperatorOnTheCpuIsAnEventOnce) {
  const std::string id = Run();
  Progress step = Step(1);
  step.cpu_fallback_ops = {{"aten::a", 1}};
  Worker().OnProgress(step);
  step = Step(2);
  step.cpu_fallback_ops = {{"aten::a", 2}, {"aten::b", 1}};
  Worker().OnProgress(step);
  After(absl::Seconds(5));
  EXPECT_THAT(Notes(id),
              ElementsAre("no Metal kernel, runs on the CPU: aten::a",
                          "no Metal kernel, runs on the CPU: aten::b"));
  EXPECT_EQ(Stored(id).progress->cpu_fallback_ops, step.cpu_fallback_ops);
}

TEST_F(SchedulerPauseTest, AJobOptsInToTheCpu) {
  SubmitRequest request = Request();
  request.spec_json = R"({"model": "org/tiny", "allow_cpu_fallback": true,
                          "dataset": {"train": "/data/train.jsonl"}})";
  ASSERT_TRUE(scheduler_->Submit(request).ok());
  scheduler_->Tick();
  ASSERT_THAT(launcher_.requests, SizeIs(1));
  EXPECT_TRUE(launcher_.requests[0].allow_cpu_fallback);
  launcher_.Exit(ExitReason::kDone);
  Run();
  EXPECT_FALSE(launcher_.requests[1].allow_cpu_fallback);
}

}  // namespace
}  // namespace mpsd::jobs
