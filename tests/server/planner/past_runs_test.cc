// SPDX-License-Identifier: Apache-2.0
#include "server/planner/past_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>

#include "tests/server/planner/planner_fixture.h"

namespace mpsd::planner {
namespace {

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

TEST_F(PastRunsTest, NobodyKnowsWithoutRuns) {
  EXPECT_FALSE(Find().has_value());
  Put(Ran("A", 100, 1));
  EXPECT_FALSE(Find("").has_value()) << "no device";
}

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
