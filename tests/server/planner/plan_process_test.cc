// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "core/base/awake_time.h"
#include "tests/server/planner/planner_fixture.h"

namespace mpsd::planner {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class PlanProcessTest : public PlannerFixture {
 protected:
  // Plans with the fake worker's `mode`.
  absl::StatusOr<std::string> Run(const std::string& mode,
                                  absl::Duration limit = absl::Minutes(1)) {
    const std::string job = folder_ / "job.json", facts = folder_ / "facts";
    std::ofstream(job) << Spec("fake:" + mode);
    std::ofstream(facts) << "{}";
    PlanCommand command;
    command.program = std::string(MPSD_TEST_BINARY_DIR) + "/fake_worker";
    command.args = {"--plan", job, "--facts", facts};
    command.limit = limit;
    return RunPlanProcess(
        command, [this](std::string stage) { stages_.push_back(stage); },
        [this] { return wanted_; });
  }
  void ExpectInternal(const std::string& mode, const std::string& why) {
    const absl::Status status = Run(mode).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << mode;
  }

  std::vector<std::string> stages_;
  absl::Status wanted_;
};

TEST_F(PlanProcessTest, GivesTheStagesAndThePlan) {
  const absl::StatusOr<std::string> plan = Run("ok");
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(*plan, HasSubstr("VERDICT_PASS"));
  EXPECT_THAT(stages_, ElementsAre("tokenizing"));
}

TEST_F(PlanProcessTest, AProcessThatGoesWrongIsAnErrorInWords) {
  ExpectInternal("garbage", "is no JSON");
  ExpectInternal("endless", "a line of more than");
  ExpectInternal("talk-after-done", "went on after its plan");
  ExpectInternal("crash-abort", "crashed with signal 6; it said: MPSGraph");
  ExpectInternal("exit-1", "ended without a plan, exit status 1");
}

TEST_F(PlanProcessTest, KeepsTheLastWordsAlone) {
  const absl::Status status = Run("stderr-flood").status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("last words"));
  EXPECT_LT(status.message().size(), 6000u);
}

TEST_F(PlanProcessTest, PassesOnWhatTheProcessRefuses) {
  const absl::Status status = Run("rejected").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("e2.csv:2: no label"));
}

TEST_F(PlanProcessTest, NothingHostileReachesATerminal) {
  const absl::Status status = Run("hostile").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("\x1b")));
  for (const std::string& stage : stages_) {
    EXPECT_THAT(stage, Not(HasSubstr("\x1b")));
  }
}

TEST_F(PlanProcessTest, HasATimeLimit) {
  for (const char* mode : {"hang", "deaf"}) {
    const absl::Status status = Run(mode, absl::Milliseconds(300)).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("longer than 300ms"));
  }
}

TEST_F(PlanProcessTest, EndsWhenNobodyWaits) {
  wanted_ = absl::CancelledError("gone");
  const absl::Duration start = base::AwakeTime();
  EXPECT_EQ(Run("hang").status(), wanted_);
  EXPECT_LT(base::AwakeTime() - start, absl::Seconds(45));
}

TEST_F(PlanProcessTest, AProcessThatLingersHasToldItsPlan) {
  EXPECT_TRUE(Run("linger").ok());
}

TEST_F(PlanProcessTest, AProgramThatIsNotThereIsNamed) {
  PlanCommand command;
  command.program = folder_ / "no-worker";
  command.limit = absl::Minutes(1);
  const absl::Status status =
      RunPlanProcess(
          command, [](std::string) {}, [] { return absl::OkStatus(); })
          .status();
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr("no-worker"));
}

}  // namespace
}  // namespace mpsd::planner
