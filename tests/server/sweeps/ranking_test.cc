// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/ranking.h"

#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::sweeps {
namespace {

using jobs::State;
using testing::ElementsAre;

class RankTest : public testing::Test {
 protected:
  RankTest() { sweep_.plan.metric = "loss"; }

  // Adds a child and its job.
  Child& Add(State state, std::optional<double> loss, int64_t rung = 0) {
    jobs::Job job;
    job.id = absl::StrCat("job", sweep_.children.size());
    job.state = state;
    job.eval_loss_after = loss;
    jobs_[job.id] = job;
    Child& child = sweep_.children.emplace_back();
    child.job_id = job.id;
    child.rung = rung;
    return child;
  }
  std::vector<std::string> Ranks() {
    std::vector<std::string> ranks;
    for (const Place& place : Rank(sweep_, jobs_)) {
      ranks.push_back(absl::StrCat(place.child, ":", place.rank));
    }
    return ranks;
  }

  Sweep sweep_;
  JobsById jobs_;
};

TEST_F(RankTest, ByValueTheBestFirst) {
  Add(State::kSucceeded, 0.7);
  Add(State::kRunning, 0.5);
  Add(State::kSucceeded, 0.9);
  EXPECT_THAT(Ranks(), ElementsAre("1:1", "0:2", "2:3"));
  sweep_.plan.greater_is_better = true;
  EXPECT_THAT(Ranks(), ElementsAre("2:1", "0:2", "1:3"));
}

TEST_F(RankTest, WhoPassedMoreRungsStandsBefore) {
  Add(State::kQueued, 0.1, 0);
  Add(State::kSucceeded, 0.9, 2);
  Add(State::kQueued, 0.5, 1);
  Add(State::kQueued, 0.4, 1);
  EXPECT_THAT(Ranks(), ElementsAre("1:1", "3:2", "2:3", "0:4"));
}

TEST_F(RankTest, WhoHasNoValueOrFailedHasNoRank) {
  Add(State::kFailed, 0.1, 1);
  Add(State::kQueued, std::nullopt, 1);
  Add(State::kSucceeded, 0.5);
  Add(State::kCancelled, 0.2);
  Add(State::kSucceeded, std::numeric_limits<double>::infinity());
  EXPECT_EQ(Ranks().front(), "2:1");
  for (const Place& place : Rank(sweep_, jobs_)) {
    EXPECT_EQ(place.rank, place.child == 2 ? 1 : 0) << place.child;
  }
}

TEST_F(RankTest, WhoWasDroppedStaysWhereItWasThen) {
  Add(State::kSucceeded, 0.8, 1);
  Child& dropped = Add(State::kCancelled, 0.4);
  dropped.drop = true;
  dropped.out = "place 2 of 2";
  dropped.metric = 0.6;
  Child& gone = Add(State::kCancelled, 0.3);
  gone.metric = 0.7;
  jobs_.erase(gone.job_id);
  EXPECT_THAT(Ranks(), ElementsAre("0:1", "1:2", "2:3"));
}

TEST(ValueOf, TheLossOrAMetricOfTheTask) {
  jobs::Job job;
  job.eval_loss_after = 0.5;
  job.train_loss = 0.25;
  job.metrics = {{"accuracy", 0.75}};
  Plan plan;
  plan.metric = "loss";
  EXPECT_EQ(ValueOf(plan, job), 0.5);
  plan.metric = "train_loss";
  EXPECT_EQ(ValueOf(plan, job), 0.25);
  plan.metric = "accuracy";
  EXPECT_EQ(ValueOf(plan, job), 0.75);
  plan.metric = "f1";
  EXPECT_EQ(ValueOf(plan, job), std::nullopt);
}

}  // namespace
}  // namespace mpsd::sweeps
