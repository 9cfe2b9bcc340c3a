// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/retention_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace mpsd::retention {
namespace {

using jobs::KeepRules;
using jobs::KeptJob;
using jobs::KeptOwner;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Its value is what a test reads: "7 kJob kAge".
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

KeptJob MakeJob(int64_t number, double days_ago, int64_t bytes = 0,
                int64_t checkpoint_bytes = 0, bool succeeded = true) {
  KeptJob job;
  job.number = number;
  job.ended = kNow - days_ago * kDay;
  job.bytes = bytes;
  job.checkpoint_bytes = checkpoint_bytes;
  job.succeeded = succeeded;
  return job;
}

class PlanTest : public testing::Test {
 protected:
  PlanTest() { terms_.now = kNow; }

  Plan Make() {
    return MakePlan(
        owners_, [this](const std::string& owner) { return rules_[owner]; },
        terms_);
  }
  // The jobs that go, and those that lose their checkpoints, in order.
  static std::vector<std::string> Told(const Plan& plan) {
    std::vector<std::string> told;
    for (const Removal& removal : plan.removals) {
      const char* rules[] = {"age", "count", "bytes", "checkpoint age",
                             "budget"};
      told.push_back(std::to_string(removal.job->number) +
                     (removal.part == Part::kJob ? " " : " checkpoints ") +
                     rules[static_cast<int>(removal.rule)]);
    }
    return told;
  }
  std::vector<std::string> Told() { return Told(Make()); }

  std::vector<KeptOwner> owners_;
  std::map<std::string, KeepRules> rules_;
  Terms terms_;
};

TEST_F(PlanTest, WithoutRulesNothingGoes) {
  owners_ = {{"ada", {MakeJob(1, 900, 1 << 30, 1 << 29), MakeJob(2, 1)}}};
  EXPECT_THAT(Told(), IsEmpty());
  terms_.used_bytes = int64_t{1} << 60;
  EXPECT_THAT(Told(), IsEmpty());
}

TEST_F(PlanTest, AgeCountsFromTheEnd) {
  owners_ = {{"ada", {MakeJob(1, 31), MakeJob(2, 30.01), MakeJob(3, 29.99)}}};
  rules_["ada"].age = 30 * kDay;
  EXPECT_THAT(Told(), ElementsAre("1 age", "2 age"));
}

TEST_F(PlanTest, ACheckpointsAgeLeavesTheResult) {
  owners_ = {{"ada",
              {MakeJob(1, 40, 100, 60), MakeJob(2, 8, 100, 60),
               MakeJob(3, 8, 100, 0), MakeJob(4, 6, 100, 60)}}};
  rules_["ada"].checkpoint_age = 7 * kDay;
  rules_["ada"].age = 30 * kDay;
  const Plan plan = Make();
  EXPECT_THAT(Told(plan), ElementsAre("2 checkpoints checkpoint age", "1 age"));
  EXPECT_EQ(plan.freed_bytes, 60 + 100);
}

TEST_F(PlanTest, TheNewestStay) {
  owners_ = {
      {"ada", {MakeJob(1, 9), MakeJob(2, 8), MakeJob(3, 7), MakeJob(4, 6)}},
      {"bob", {MakeJob(5, 9), MakeJob(6, 8), MakeJob(7, 7)}}};
  rules_["ada"].jobs = 2;
  rules_["bob"].jobs = 0;
  EXPECT_THAT(Told(), ElementsAre("1 count", "5 count", "2 count", "6 count",
                                  "7 count"));
}

TEST_F(PlanTest, BoundJobsStayBesideThoseThatAreCounted) {
  owners_ = {{"ada", {MakeJob(1, 9), MakeJob(2, 8), MakeJob(3, 7)}}};
  owners_[0].jobs[0].bound = owners_[0].jobs[2].bound = true;
  rules_["ada"].jobs = 1;
  EXPECT_THAT(Told(), IsEmpty());
  rules_["ada"].jobs = 0;
  EXPECT_THAT(Told(), ElementsAre("2 count"));
  // What they have counts and stays.
  owners_ = {{"ada", {MakeJob(1, 9, 100, 100), MakeJob(2, 8, 100)}}};
  owners_[0].jobs[0].bound = true;
  rules_["ada"] = {.bytes = 150};
  EXPECT_THAT(Told(), ElementsAre("2 bytes"));
}

TEST_F(PlanTest, CheckpointsGoBeforeResultsAndThoseOfFailuresLast) {
  owners_ = {
      {"ada",
       {MakeJob(1, 9, 100, 50, /*succeeded=*/false), MakeJob(2, 8, 100, 40),
        MakeJob(3, 7, 100, 30), MakeJob(4, 6, 100)}}};
  rules_["ada"].bytes = 400;
  EXPECT_THAT(Told(), IsEmpty());
  rules_["ada"].bytes = 399;
  EXPECT_THAT(Told(), ElementsAre("2 checkpoints bytes"));
  rules_["ada"].bytes = 330;
  EXPECT_THAT(Told(),
              ElementsAre("2 checkpoints bytes", "3 checkpoints bytes"));
  rules_["ada"].bytes = 329;
  EXPECT_THAT(Told(), ElementsAre("1 checkpoints bytes", "2 checkpoints bytes",
                                  "3 checkpoints bytes"));
  rules_["ada"].bytes = 279;
  // A job that goes takes its checkpoints with it.
  EXPECT_THAT(Told(), ElementsAre("2 checkpoints bytes", "3 checkpoints bytes",
                                  "1 bytes"));
  rules_["ada"].bytes = 0;
  const Plan plan = Make();
  EXPECT_THAT(Told(plan),
              ElementsAre("1 bytes", "2 bytes", "3 bytes", "4 bytes"));
  EXPECT_EQ(plan.freed_bytes, 400);
}

TEST_F(PlanTest, TheBudgetCountsForAll) {
  owners_ = {{"ada", {MakeJob(1, 9, 100), MakeJob(2, 5, 100, 70)}},
             {"bob", {MakeJob(3, 8, 100), MakeJob(4, 4, 100)}}};
  terms_.budget_bytes = 1000;
  EXPECT_THAT(Told(), IsEmpty()) << "before anything is measured";
  terms_.used_bytes = 1000;
  EXPECT_THAT(Told(), IsEmpty());
  terms_.used_bytes = 1071;
  EXPECT_THAT(Told(), ElementsAre("2 checkpoints budget", "1 budget"));
  terms_.used_bytes = 1200;
  EXPECT_THAT(Told(),
              ElementsAre("2 checkpoints budget", "1 budget", "3 budget"));
}

TEST_F(PlanTest, WhatARuleFreesIsFreedOnce) {
  owners_ = {{"ada", {MakeJob(1, 90, 100), MakeJob(2, 5, 100)}}};
  rules_["ada"].age = 30 * kDay;
  terms_.budget_bytes = 1000;
  terms_.used_bytes = 1100;
  EXPECT_THAT(Told(), ElementsAre("1 age"));
}

TEST_F(PlanTest, ABudgetThatCannotBeKeptIsTold) {
  owners_ = {
      {"ada", {MakeJob(1, 9, 100), MakeJob(2, 8, 40), MakeJob(3, 0.01, 7)}}};
  owners_[0].jobs[1].bound = true;
  terms_.budget_bytes = 1000;
  terms_.used_bytes = 1100;
  EXPECT_EQ(ShortOf(Make(), terms_), "");
  terms_.used_bytes = 1500;
  const Plan plan = Make();
  EXPECT_THAT(Told(plan), ElementsAre("1 budget"));
  EXPECT_EQ(plan.over_bytes, 400);
  EXPECT_THAT(ShortOf(plan, terms_),
              testing::AllOf(HasSubstr("stays 400 bytes beyond its budget of"),
                             HasSubstr("need have 40 bytes"),
                             HasSubstr("within 1h 7 bytes"),
                             HasSubstr("mpsctl unpin")));
}

TEST_F(PlanTest, AJobThatJustEndedStays) {
  owners_ = {{"ada", {MakeJob(1, 0.5 / 24, 100, 50), MakeJob(2, -3, 100)}}};
  rules_["ada"] = {absl::ZeroDuration(), 0, 0, absl::ZeroDuration()};
  terms_.budget_bytes = 1;
  terms_.used_bytes = 1 << 20;
  EXPECT_THAT(Told(), IsEmpty());
  terms_.fresh = absl::Minutes(10);
  EXPECT_THAT(Told(), ElementsAre("1 age"));
}

TEST_F(PlanTest, AWrongClockMakesNothingOld) {
  owners_ = {{"ada", {MakeJob(1, 90), MakeJob(2, 1)}}};
  owners_[0].jobs[0].ended = absl::UnixEpoch() + kDay;
  rules_["ada"].age = kDay / 2;
  rules_["ada"].jobs = 0;
  EXPECT_THAT(Told(), ElementsAre("2 age"));
  terms_.ages_count = false;
  EXPECT_THAT(Told(), ElementsAre("2 count"));
}

TEST_F(PlanTest, WordsNameTheRuleAndItsFigure) {
  owners_ = {{"ada", {MakeJob(1, 45.2, 3 << 20, 1 << 20), MakeJob(2, 2)}}};
  const auto why = [&](const KeepRules& rules) {
    rules_["ada"] = rules;
    const Plan plan = Make();
    return Why(plan.removals.at(0), rules, terms_);
  };
  EXPECT_EQ(why({.age = 30 * kDay}), "it ended 45 days ago, keep-days is 30");
  EXPECT_EQ(why({.jobs = 1}), "newer jobs of ada have ended, keep-jobs is 1");
  EXPECT_EQ(why({.bytes = 1 << 21}),
            "the jobs of ada have more bytes, keep-bytes is 2.00 MiB (2097152 "
            "bytes)");
  EXPECT_EQ(why({.checkpoint_age = kDay / 2}),
            "it ended 45 days ago, keep-checkpoints-days is 0.5");
  terms_.budget_bytes = 1 << 20;
  terms_.used_bytes = 2 << 20;
  EXPECT_EQ(why({}),
            "the state folder has 2.00 MiB (2097152 bytes), "
            "state-budget-bytes is 1.00 MiB (1048576 bytes)");
}

// Whatever the rules: nothing bound or fresh goes, no job goes twice, what is
// freed is what the jobs had, limits are kept where that was possible, and the
// same jobs have the same plan.
TEST_F(PlanTest, WhatHoldsOfEveryPlan) {
  std::mt19937 random(7);
  const auto number = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  int64_t gone = 0;
  for (int round = 0; round < 2000; ++round) {
    owners_.clear();
    rules_.clear();
    int64_t total = 0, next = 0;
    for (int o = 0; o < number(0, 4); ++o) {
      const std::string name(1, static_cast<char>('a' + o));
      std::map<absl::Time, KeptJob> jobs;
      for (int j = 0; j < number(0, 12); ++j) {
        const int64_t bytes = number(0, 100);
        KeptJob job = MakeJob(++next, number(-1, 400) / 10.0, bytes,
                              number(0, bytes), number(0, 1) == 1);
        job.bound = number(0, 4) == 0;
        jobs[job.ended] = job;
      }
      KeptOwner& owner = owners_.emplace_back();
      owner.name = name;
      for (const auto& [end, job] : jobs) {
        owner.jobs.push_back(job);
        total += job.bytes;
      }
      KeepRules& rules = rules_[name];
      if (number(0, 1)) rules.age = number(0, 40) * kDay;
      if (number(0, 1)) rules.jobs = number(0, 8);
      if (number(0, 1)) rules.bytes = number(0, 600);
      if (number(0, 1)) rules.checkpoint_age = number(0, 40) * kDay;
    }
    terms_.budget_bytes = number(0, 1) * number(1, 1500);
    terms_.used_bytes = total + number(0, 200);
    const Plan plan = Make();
    std::map<const KeptJob*, int64_t> freed;
    bool jobs_began = false;
    absl::Time last = absl::InfinitePast();
    for (const Removal& removal : plan.removals) {
      ASSERT_FALSE(removal.job->bound);
      ASSERT_GE(kNow - removal.job->ended, terms_.fresh);
      ASSERT_TRUE(freed.emplace(removal.job, removal.bytes).second);
      ASSERT_LE(removal.bytes, removal.job->bytes);
      if (removal.part == Part::kJob && !std::exchange(jobs_began, true)) {
        last = absl::InfinitePast();
      }
      ASSERT_EQ(removal.part == Part::kJob, jobs_began);
      ASSERT_GE(removal.job->ended, last);
      last = removal.job->ended;
    }
    gone += static_cast<int64_t>(plan.removals.size());
    int64_t all_freed = 0;
    for (const auto& [job, bytes] : freed) all_freed += bytes;
    ASSERT_EQ(all_freed, plan.freed_bytes);
    const auto left = [&](const KeptOwner& owner, bool movable_alone) {
      int64_t bytes = 0;
      for (const KeptJob& job : owner.jobs) {
        const bool movable = !job.bound && kNow - job.ended >= terms_.fresh;
        if (movable_alone && !movable) continue;
        bytes += job.bytes - (freed.contains(&job) ? freed[&job] : 0);
      }
      return bytes;
    };
    for (const KeptOwner& owner : owners_) {
      const KeepRules& rules = rules_[owner.name];
      if (rules.bytes && left(owner, false) > *rules.bytes) {
        ASSERT_EQ(left(owner, true), 0) << "more could have gone";
      }
    }
    if (terms_.budget_bytes > 0) {
      ASSERT_EQ(plan.over_bytes,
                std::max<int64_t>(0, *terms_.used_bytes - plan.freed_bytes -
                                         terms_.budget_bytes));
    }
    ASSERT_EQ(Told(plan), Told());
  }
  EXPECT_GT(gone, 2000);
}

}  // namespace
}  // namespace mpsd::retention
