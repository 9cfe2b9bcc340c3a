// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/server/planner/planner_fixture.h"

namespace mpsd::planner {

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class QueueOutlookTest : public PlannerFixture {
 protected:
  void Queue(const std::string& id, const std::string& owner, int32_t priority,
             std::optional<absl::Duration> left) {
    jobs::JobQueue::Entry entry;
    entry.id = id;
    entry.owner = owner;
    entry.priority = priority;
    entry.time_left = left;
    board_.view().Push(entry);
  }
  // The job that trains.
  void Run(const std::string& id, const std::string& owner,
           std::optional<double> left) {
    jobs::Job job = Job(id, jobs::State::kRunning);
    job.owner = owner;
    if (left) {
      job.progress.emplace();
      job.progress->eta_seconds = *left;
    }
    Put(job);
    Queue(id, owner, 0, std::nullopt);
    board_.view().Start(id);
    board_.view().SetRunning(id, {});
  }
  PlanQueue Look(int32_t priority = 0) {
    return LookAhead(board_, "ada", priority, may_read_);
  }

  std::function<bool(const std::string&)> may_read_;
};

TEST_F(QueueOutlookTest, AddsUpWhatIsLeftOfTheJobsAhead) {
  Run("R", "bob", 30.0);
  Queue("A", "bob", 0, absl::Seconds(12));
  Queue("B", "bob", -1, absl::Seconds(500));
  PlanQueue queue = Look();
  EXPECT_EQ(queue.jobs_ahead, 2) << "B's priority is less";
  EXPECT_EQ(queue.wait, absl::Seconds(42));
  EXPECT_EQ(Look(-5).jobs_ahead, 3);
  EXPECT_EQ(Look(5).jobs_ahead, 1);
  EXPECT_EQ(Look(5).wait, absl::Seconds(30));
  // The question changes nothing.
  EXPECT_EQ(board_.Queue(10).places.size(), 3u);
  EXPECT_EQ(board_.view().Depth().by_owner.count("ada"), 0u);
}

TEST_F(QueueOutlookTest, AsksTheFairShare) {
  const absl::Duration now = absl::Hours(1000);
  board_.view().SetHalfLife(absl::Hours(24));
  board_.view().Charge("ada", absl::Hours(2), now,
                       absl::FromUnixSeconds(1'000'000));
  Queue("A", "ada", 0, absl::Seconds(1));
  Queue("B", "bob", 0, absl::Seconds(2));
  EXPECT_EQ(Look().jobs_ahead, 2);
  EXPECT_EQ(LookAhead(board_, "bob", 0, {}).jobs_ahead, 1);
  EXPECT_EQ(LookAhead(board_, "eve", 0, {}).jobs_ahead, 1) << "as new as bob";
}

TEST_F(QueueOutlookTest, SaysWhatIsUnknown) {
  Run("R", "bob", std::nullopt);
  Queue("A", "bob", 0, absl::Seconds(120));
  for (const char* id : {"B", "C", "D", "E"}) {
    Queue(id, "bob", 0, std::nullopt);
  }
  const PlanQueue queue = Look();
  EXPECT_EQ(queue.jobs_ahead, 6);
  EXPECT_FALSE(queue.wait.has_value());
  EXPECT_THAT(queue.unknown,
              ElementsAre("how long jobs R, B, C and 2 more take: they have "
                          "not finished a step yet",
                          "when the job would start: in 2m at the earliest"));
}

TEST_F(QueueOutlookTest, JobsThatWaitForAUserDelayNoOther) {
  jobs::JobQueue::Entry entry;
  entry.id = "A";
  entry.owner = "bob";
  board_.view().Push(entry, "held by bob");
  const PlanQueue queue = Look();
  EXPECT_EQ(queue.jobs_ahead, 0);
  EXPECT_EQ(queue.wait, absl::ZeroDuration());
  EXPECT_THAT(queue.unknown,
              ElementsAre("when job A is released, which then goes first"));
}

TEST_F(QueueOutlookTest, AHeldQueueHasNoTime) {
  board_.view().SetQueueHold(jobs::HoldReason::kDrained, "a new disk");
  const PlanQueue queue = Look();
  EXPECT_EQ(queue.why, "a new disk");
  EXPECT_FALSE(queue.wait.has_value());
  EXPECT_THAT(queue.unknown, ElementsAre("how long the queue is held"));
}

TEST_F(QueueOutlookTest, APausedQueueHasNoTime) {
  board_.view().Change([](jobs::QueueInfo& info) {
    info.pause_reasons = {jobs::PauseReason::kBattery};
  });
  EXPECT_THAT(Look().why, HasSubstr("no job trains: on battery"));
  EXPECT_FALSE(Look().wait.has_value());
}

TEST_F(QueueOutlookTest, HowLongOthersTakeStaysPrivate) {
  Run("R", "bob", 30.0);
  Queue("A", "ada", 0, absl::Seconds(12));
  may_read_ = [](const std::string& owner) { return owner == "ada"; };
  const PlanQueue queue = Look();
  EXPECT_EQ(queue.jobs_ahead, 2);
  EXPECT_FALSE(queue.wait.has_value());
  ASSERT_FALSE(queue.unknown.empty());
  EXPECT_EQ(queue.unknown[0],
            "how long job R takes: only the owner and admins may know");
}

TEST_F(QueueOutlookTest, AQueueBeyondItsFirstJobsIsCounted) {
  for (int i = 0; i < 1100; ++i) {
    Queue("Q" + std::to_string(10000 + i), "bob", 0, absl::Seconds(1));
  }
  const PlanQueue queue = Look();
  EXPECT_EQ(queue.jobs_ahead, 1100);
  EXPECT_FALSE(queue.wait.has_value());
  EXPECT_THAT(queue.unknown[0], HasSubstr("how long 100 jobs take"));
}

std::string Spec(const std::string& more, const std::string& dataset = "") {
  return R"({"model": "org/m", "dataset": {"train": "t.jsonl")" + dataset +
         "}" + more + "}";
}

jobs::SubmitRequest Request(const std::string& spec) {
  jobs::SubmitRequest request;
  request.spec_json = spec;
  request.inputs = {{"t.jsonl", std::string(64, 'a')}};
  return request;
}

std::string ShapeOf(const std::string& more) {
  return SpeedShape(*spec::ParseTrainSpec(Spec(more), "job.json"));
}

TEST(SpeedShape, IsThatOfTheRowsAndTheAdapter) {
  const std::string shape = ShapeOf("");
  for (const char* same :
       {R"(, "name": "x")", R"(, "training": {"learning_rate": 1})",
        R"(, "training": {"num_train_epochs": 9, "seed": 3})",
        R"(, "lora": {"lora_alpha": 99})"}) {
    EXPECT_EQ(ShapeOf(same), shape) << same;
  }
  for (const char* other :
       {R"(, "training": {"max_length": 77})", R"(, "lora": {"r": 9})",
        R"(, "training": {"per_device_train_batch_size": 2})",
        R"(, "training": {"bf16": true})", R"(, "training": {"packing": true})",
        R"(, "training": {"gradient_checkpointing": true})",
        R"(, "quantization_config": {"load_in_4bit": true})",
        R"(, "gradients": "autograd")"}) {
    EXPECT_NE(ShapeOf(other), shape) << other;
  }
}

TEST(CheckSameSteps, RatesNamesAndTheLengthOfTheRunDoNotCount) {
  const jobs::SubmitRequest probed = Request(Spec(""));
  for (const char* more :
       {"", R"(, "name": "x", "training": {"learning_rate": 1, "max_steps": 7,
                "save_steps": 3, "lr_scheduler_type": "cosine", "seed": 1})"}) {
    EXPECT_EQ(CheckSameSteps(probed, Request(Spec(more))), absl::OkStatus());
  }
  jobs::SubmitRequest evaluated = Request(Spec("", R"(, "eval": "e.jsonl")"));
  evaluated.inputs.push_back({"e.jsonl", std::string(64, 'b')});
  EXPECT_EQ(CheckSameSteps(probed, evaluated), absl::OkStatus());
}

TEST(CheckSameSteps, OtherDataAreAnotherJob) {
  const jobs::SubmitRequest probed = Request(Spec(""));
  jobs::SubmitRequest planned = probed;
  planned.inputs[0].sha256 = std::string(64, 'b');
  EXPECT_THAT(std::string(CheckSameSteps(probed, planned).message()),
              HasSubstr("the file 't.jsonl' is another"));
  planned = probed;
  planned.inputs.push_back({"t2.jsonl", std::string(64, 'a')});
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSameSteps(probed, planned)));
  // So is one whose probe cannot be read.
  EXPECT_THAT(
      std::string(CheckSameSteps(Request("{\"gone\": 1}"), Request(Spec("")))
                      .message()),
      HasSubstr("cannot read its job.json"));
}

class PastRunsTest : public PlannerFixture {
 protected:
  jobs::Job Ran(const std::string& id, double rate, double seconds,
                const std::string& device = "mps") {
    jobs::Job job = Job(id, jobs::State::kSucceeded);
    job.progress.emplace();
    job.progress->device = device;
    job.progress->tokens_per_second = rate;
    job.progress->seconds = seconds;
    return job;
  }
  std::optional<Pace> Find(const std::string& device = "mps",
                           const std::string& more = "") {
    return PaceOfPastRuns(
        board_, model(),
        *spec::ParseTrainSpec(Spec("planned", more), "job.json"), device,
        may_read_);
  }

  std::function<bool(const std::string&)> may_read_;
};

TEST_F(PastRunsTest, TakesTheMedianOfRunsOfTheShapeOnTheDevice) {
  Put(Ran("A", 100, 1));
  Put(Ran("B", 300, 3));
  Put(Ran("C", 110, 9));
  Put(Ran("D", 7, 7, "cpu"));
  jobs::Job other = Ran("E", 5, 5);
  other.spec_json = Spec("planned", R"(, "training": {"max_length": 8})");
  Put(other);
  jobs::Job probe = Ran("F", 6, 6);
  probe.kind = jobs::JobKind::kProbe;
  Put(probe);
  jobs::Job still = Ran("G", 8, 8);
  still.end_time.reset();
  Put(still);
  jobs::Job broken = Ran("H", std::nan(""), 8);
  Put(broken);
  jobs::Job unread = Ran("I", 9, 9);
  unread.spec_json = "{";
  Put(unread);
  const std::optional<Pace> pace = Find();
  ASSERT_TRUE(pace.has_value());
  EXPECT_EQ(pace->runs, 3);
  EXPECT_EQ(pace->tokens_per_second, 110);
  EXPECT_EQ(pace->step_seconds, 3);
  EXPECT_EQ(pace->newest, absl::FromUnixSeconds(1'700'000'000));
  EXPECT_EQ(Find("cpu")->tokens_per_second, 7);
  EXPECT_EQ(Find("mps", R"(, "training": {"max_length": 8})")->runs, 1);
}

TEST_F(PastRunsTest, OnlyTheNewestCountAndOnlyTenOfThem) {
  for (int i = 0; i < 70; ++i) {
    Put(Ran("J" + std::to_string(100 + i), i, 1));
  }
  const std::optional<Pace> pace = Find();
  ASSERT_TRUE(pace.has_value());
  EXPECT_EQ(pace->runs, 10);
  EXPECT_EQ(pace->tokens_per_second, 64.5);
  for (int i = 0; i < 60; ++i) {
    Put(Ran("K" + std::to_string(100 + i), 1, 1, "cpu"));
  }
  EXPECT_FALSE(Find().has_value()) << "beyond the newest 50";
}

TEST_F(PastRunsTest, JobsOfOthersStayPrivate) {
  Put(Ran("A", 100, 1));
  jobs::Job bobs = Ran("B", 900, 1);
  bobs.owner = "bob";
  Put(bobs);
  may_read_ = [](const std::string& owner) { return owner == "ada"; };
  EXPECT_EQ(Find()->runs, 1);
  EXPECT_EQ(Find()->tokens_per_second, 100);
}

}  // namespace

}  // namespace mpsd::planner
