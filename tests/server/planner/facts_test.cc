// SPDX-License-Identifier: Apache-2.0
#include "server/planner/facts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tests/server/planner/planner_fixture.h"

namespace mpsd::planner {
namespace {

// --- past runs ---------------------------------------------------------------

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

// --- facts -------------------------------------------------------------------

using nlohmann::json;

TEST(Facts, WhatNobodyKnowsIsLeftOut) {
  EXPECT_EQ(Encode(Facts()), "{}");
  Facts facts;
  facts.probe_json = "no JSON";
  EXPECT_EQ(Encode(facts), "{}");
}

TEST(Facts, TellsWhatIsKnown) {
  Facts facts;
  facts.read_roots = {"/a", "/b"};
  facts.device = "mps";
  facts.chip = "Apple M2 Max";
  facts.gpu_cores = 38;
  facts.cpu_cores = 12;
  facts.memory_bytes = int64_t{64} << 30;
  facts.memory_limit_bytes = int64_t{48} << 30;
  facts.disk_free_bytes = 0;
  facts.thresholds = {{"memory.share", 0.5}};
  facts.pace = Pace{3, 1000, 0.25, absl::FromUnixSeconds(1'700'000'000)};
  facts.probe_json = R"({"device": "mps"})";
  const json expected = {{"read_roots", {"/a", "/b"}},
                         {"device", "mps"},
                         {"chip", "Apple M2 Max"},
                         {"gpu_cores", 38},
                         {"cpu_cores", 12},
                         {"memory_bytes", int64_t{64} << 30},
                         {"memory_limit_bytes", int64_t{48} << 30},
                         {"disk_free_bytes", 0},
                         {"thresholds", {{"memory.share", 0.5}}},
                         {"pace",
                          {{"runs", 3},
                           {"step_seconds", 0.25},
                           {"tokens_per_second", 1000.0},
                           {"newest", "2023-11-14T22:13:20Z"}}},
                         {"probe", {{"device", "mps"}}}};
  EXPECT_EQ(json::parse(Encode(facts)), expected);
}

}  // namespace
}  // namespace mpsd::planner
