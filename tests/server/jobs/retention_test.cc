// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/retention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/base/limits.h"
#include "server/jobs/clock_trust.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_kept_jobs.h"

namespace mpsd::retention {
namespace {

using jobs::Collected;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);

class FakeRemover final : public jobs::JobRemover {
 public:
  absl::StatusOr<int64_t> RemoveJob(const std::string& id,
                                    absl::Time ended) override {
    return Remove(id, ended, "");
  }
  absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& id,
                                            absl::Time ended) override {
    return Remove(id, ended, " checkpoints");
  }

  std::vector<std::string> removed;
  std::map<std::string, absl::Status> refusals;
  std::map<std::string, absl::Time> ends;

 private:
  absl::StatusOr<int64_t> Remove(const std::string& id, absl::Time ended,
                                 const char* part) {
    ends[id] = ended;
    if (refusals.contains(id)) return refusals[id];
    removed.push_back(id + part);
    return 10;
  }
};

class FakeUnusedBlobs final : public jobs::UnusedBlobs {
 public:
  absl::StatusOr<Found> Find(size_t limit) override {
    Found found;
    for (const jobs::UnusedBlob& blob : blobs) {
      if (found.blobs.size() < limit) {
        found.blobs.push_back(blob);
      } else {
        ++found.more;
        found.more_bytes += blob.size_bytes;
      }
    }
    return found;
  }
  absl::StatusOr<Removed> Remove() override {
    if (!failure.ok()) return failure;
    Removed removed;
    for (const jobs::UnusedBlob& blob : blobs) {
      ++removed.blobs;
      removed.bytes += blob.size_bytes;
    }
    blobs.clear();
    return removed;
  }

  std::vector<jobs::UnusedBlob> blobs;
  absl::Status failure;
};

class CollectorTest : public testing::Test {
 protected:
  CollectorTest() {
    clock_.Advance(absl::FromUnixSeconds(1'800'000'000) - clock_.Now());
    Collector::Options options;
    options.rules = [this](const std::string&) { return rules_; };
    options.keeps_all = [this] { return rules_.KeepAll(); };
    options.log = [this](const std::string& line) { log_.push_back(line); };
    options.count = [this](Collected kind, int64_t count, int64_t bytes) {
      counted_[kind].first += count;
      counted_[kind].second += bytes;
    };
    collector_ = std::make_unique<Collector>(
        std::move(options),
        Collector::Dependencies{kept_, remover_, blobs_, folders_, clock_});
  }
  void Add(int64_t number, double days_ago, int64_t bytes = 100,
           int64_t checkpoint_bytes = 0) {
    if (kept_.owners.empty()) kept_.owners.push_back({"ada", {}});
    jobs::KeptJob job;
    job.number = number;
    job.ended = clock_.Now() - days_ago * kDay;
    job.bytes = bytes;
    job.checkpoint_bytes = checkpoint_bytes;
    job.succeeded = true;
    kept_.owners[0].jobs.push_back(job);
  }
  void Measure(int64_t total) {
    folders_.Begin();
    folders_.Set(total, {});
  }

  fakes::FakeClock clock_;
  fakes::FakeKeptJobs kept_;
  FakeRemover remover_;
  FakeUnusedBlobs blobs_;
  jobs::MeasuredFolders folders_;
  jobs::KeepRules rules_;
  std::vector<std::string> log_;
  std::map<Collected, std::pair<int64_t, int64_t>> counted_;
  std::unique_ptr<Collector> collector_;
};

TEST_F(CollectorTest, APlanTellsAndRemovesNothing) {
  Add(1, 90, 100, 60);
  Add(2, 10, 100, 60);
  rules_.age = 30 * kDay;
  rules_.checkpoint_age = 7 * kDay;
  blobs_.blobs = {{std::string(64, 'a'), 7}};
  Measure(1000);
  collector_->SetBudget(5000);
  const auto plan = collector_->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->items.size(), 3u);
  EXPECT_EQ(plan->items[0].kind, Collected::kBlob);
  EXPECT_EQ(plan->items[0].id, std::string(64, 'a'));
  EXPECT_EQ(plan->items[1].kind, Collected::kCheckpoints);
  EXPECT_EQ(plan->items[1].id, "id-2");
  EXPECT_EQ(plan->items[1].size_bytes, 60);
  EXPECT_EQ(plan->items[2].kind, Collected::kJob);
  EXPECT_EQ(plan->items[2].id, "id-1");
  EXPECT_EQ(plan->items[2].owner, "ada");
  EXPECT_EQ(plan->items[2].name, "name 1");
  EXPECT_EQ(plan->items[2].why, "it ended 90 days ago, keep-days is 30");
  EXPECT_EQ(plan->more, 0);
  EXPECT_EQ(plan->freed_bytes, 7 + 60 + 100);
  EXPECT_EQ(plan->used_bytes, 1000);
  EXPECT_EQ(plan->budget_bytes, 5000);
  EXPECT_EQ(plan->short_of, "");
  EXPECT_THAT(remover_.removed, IsEmpty());
  EXPECT_EQ(blobs_.blobs.size(), 1u);
  EXPECT_EQ(collector_->Bytes().used, 1000);
  EXPECT_EQ(collector_->Bytes().budget, 5000);
}

TEST_F(CollectorTest, APlanIsBoundedAndCountsTheRest) {
  for (int i = 0; i < 1500; ++i) Add(i, 90);
  rules_.age = 30 * kDay;
  blobs_.blobs.assign(600, {std::string(64, 'a'), 1});
  const auto plan = collector_->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->items.size(), limits::kCollectionItems);
  EXPECT_EQ(plan->more, 1100);
  EXPECT_EQ(plan->freed_bytes, 600 + 150'000);
}

TEST_F(CollectorTest, WhatAPlanNamesGoesInItsOrder) {
  Add(1, 90);
  Add(2, 10, 100, 60);
  Add(3, 80);
  rules_.age = 30 * kDay;
  rules_.checkpoint_age = 7 * kDay;
  blobs_.blobs = {{std::string(64, 'a'), 7}};
  const auto result = collector_->Collect({});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(remover_.removed,
              ElementsAre("id-2 checkpoints", "id-1", "id-3"));
  EXPECT_EQ(remover_.ends["id-1"], clock_.Now() - 90 * kDay);
  EXPECT_EQ(result->removed, 4);
  EXPECT_EQ(result->freed_bytes, 37);
  EXPECT_THAT(result->failed, IsEmpty());
  EXPECT_EQ(counted_[Collected::kJob], std::make_pair(int64_t{2}, int64_t{20}));
  EXPECT_EQ(counted_[Collected::kCheckpoints].first, 1);
  EXPECT_EQ(counted_[Collected::kBlob], std::make_pair(int64_t{1}, int64_t{7}));
}

TEST_F(CollectorTest, OneThatMayNotGoAnyMoreKeepsNoOther) {
  Add(1, 90);
  Add(2, 90);
  Add(3, 90);
  rules_.age = 30 * kDay;
  remover_.refusals["id-1"] = absl::FailedPreconditionError("it is pinned");
  remover_.refusals["id-2"] = absl::NotFoundError("gone");
  const auto result = collector_->Collect({});
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(remover_.removed, ElementsAre("id-3"));
  EXPECT_THAT(result->failed, ElementsAre("job id-1: it is pinned"));
}

TEST_F(CollectorTest, WhoWaitsNoMoreStopsIt) {
  for (int i = 0; i < 9; ++i) Add(i, 90);
  rules_.age = 30 * kDay;
  int asked = 0;
  const auto result = collector_->Collect([&] {
    return ++asked > 4 ? absl::CancelledError("gone") : absl::OkStatus();
  });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->removed, 4);
}

TEST_F(CollectorTest, UploadsThatBrokeOffAreToldWithTheirSender) {
  blobs_.blobs = {{std::string(64, 'a'), 7, "ada"}};
  const auto plan = collector_->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->items.size(), 1u);
  EXPECT_EQ(plan->items[0].kind, Collected::kPartialUpload);
  EXPECT_EQ(plan->items[0].owner, "ada");
  EXPECT_THAT(plan->items[0].why, HasSubstr("interrupted upload"));
}

TEST_F(CollectorTest, BlobsThatGoMakeRoomInTheBudget) {
  Add(1, 90);
  Measure(1050);
  collector_->SetBudget(1000);
  blobs_.blobs = {{std::string(64, 'a'), 50}};
  ASSERT_TRUE(collector_->Collect({}).ok());
  EXPECT_THAT(remover_.removed, IsEmpty());
}

TEST_F(CollectorTest, ByItselfAgesCountOnceTheClockIsBelieved) {
  Add(1, 90);
  Add(2, 1);
  rules_.age = 30 * kDay;
  collector_->Tend({});
  EXPECT_THAT(remover_.removed, IsEmpty());
  clock_.Advance(absl::Hours(1));
  collector_->Tend({});
  EXPECT_THAT(remover_.removed, ElementsAre("id-1"));
  EXPECT_THAT(log_, ElementsAre(HasSubstr("retention removed 1 jobs")));
}

TEST_F(CollectorTest, ByItselfOtherRulesCountAtOnce) {
  Add(1, 9);
  Add(2, 8);
  rules_.jobs = 1;
  collector_->Tend({});
  EXPECT_THAT(remover_.removed, ElementsAre("id-1"));
}

TEST_F(CollectorTest, WithoutRulesNothingIsRead) {
  collector_->Tend({});
  EXPECT_EQ(kept_.reads, 0);
  collector_->SetBudget(5);
  collector_->Tend({});
  EXPECT_EQ(kept_.reads, 1);
}

TEST_F(CollectorTest, WhatWasMeasuredIsStoredAndTriedAgain) {
  folders_.Begin();
  folders_.Set(10, {{"a", 3, 1}, {"b", 4, 0}});
  kept_.failure = absl::ResourceExhaustedError("disk full");
  collector_->Tend({});
  collector_->Tend({});
  EXPECT_THAT(log_, ElementsAre("retention: disk full"));
  kept_.failure = absl::OkStatus();
  collector_->Tend({});
  EXPECT_EQ(kept_.bytes.size(), 2u);
  EXPECT_EQ(kept_.bytes["a"].checkpoint_bytes, 1);
}

TEST_F(CollectorTest, AFailureThatStaysIsOneLine) {
  Add(1, 9);
  rules_.jobs = 0;
  remover_.refusals["id-1"] = absl::UnavailableError("I/O error");
  for (int i = 0; i < 5; ++i) collector_->Tend({});
  EXPECT_THAT(log_, ElementsAre("retention: job id-1: I/O error"));
  blobs_.failure = absl::UnavailableError("I/O error");
  collector_->TendBlobs();
  EXPECT_THAT(log_.back(), HasSubstr("collecting blobs: I/O error"));
}

TEST_F(CollectorTest, BlobsGoByThemselves) {
  Measure(100);
  blobs_.blobs = {{std::string(64, 'a'), 50}};
  collector_->TendBlobs();
  EXPECT_EQ(folders_.TotalBytes(), 50);
  EXPECT_THAT(log_, ElementsAre("removed uploads that no job uses: 50 bytes"));
  collector_->TendBlobs();
  EXPECT_EQ(log_.size(), 1u);
}

// The rules alone; tests/server/store has the time that reading takes.
TEST_F(CollectorTest, AHundredThousandJobsArePlannedQuickly) {
  for (int i = 0; i < 100'000; ++i) Add(i, 100 - i / 2000.0, 1000, 500);
  rules_ = {60 * kDay, 50'000, 30'000'000, 20 * kDay};
  Measure(200'000'000);
  collector_->SetBudget(100'000'000);
  const base::Clock& clock = base::Clock::Real();
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    const absl::Duration start = clock.Monotonic();
    const auto plan = collector_->Plan();
    best = std::min(best, clock.Monotonic() - start);
    ASSERT_TRUE(plan.ok());
    EXPECT_EQ(plan->items.size(), limits::kCollectionItems);
    EXPECT_GT(plan->more, 60'000);
  }
  std::printf("planned for 100,000 jobs, of which most go, in %.1f ms\n",
              absl::ToDoubleMilliseconds(best));
  // What grew with the square of the jobs would take minutes.
  EXPECT_LT(best, absl::Seconds(5));
}

class ClockTrustTest : public testing::Test {
 protected:
  bool After(absl::Duration passed, absl::Duration jump = {}) {
    monotonic_ += passed;
    wall_ += passed + jump;
    return trust_.Look(wall_, monotonic_);
  }

  absl::Time wall_ = absl::FromUnixSeconds(1'800'000'000);
  absl::Duration monotonic_ = absl::Hours(5);
  ClockTrust trust_;
};

TEST_F(ClockTrustTest, AClockIsBelievedOnceItKeptStepForAnHour) {
  EXPECT_FALSE(After(absl::ZeroDuration()));
  EXPECT_FALSE(After(absl::Minutes(59)));
  EXPECT_TRUE(After(absl::Minutes(1)));
  EXPECT_TRUE(After(absl::Hours(100), absl::Seconds(30)));
}

TEST_F(ClockTrustTest, AJumpBeginsAnew) {
  After(absl::ZeroDuration());
  ASSERT_TRUE(After(absl::Hours(2)));
  EXPECT_FALSE(After(absl::Minutes(1), absl::Hours(24 * 400)));
  EXPECT_FALSE(After(absl::Minutes(59)));
  // Set right again: it jumped back.
  EXPECT_FALSE(After(absl::Minutes(1), -absl::Hours(24 * 400)));
  EXPECT_FALSE(After(absl::Minutes(59)));
  EXPECT_TRUE(After(absl::Minutes(1)));
}

// A clock that is set ahead in small steps is as wrong as one that jumps.
TEST_F(ClockTrustTest, ManySmallStepsAreAJump) {
  After(absl::ZeroDuration());
  ASSERT_TRUE(After(absl::Hours(2)));
  bool believed = true;
  for (int i = 0; i < 5; ++i) {
    believed = After(absl::Seconds(1), absl::Seconds(40)) && believed;
  }
  EXPECT_FALSE(believed);
}

}  // namespace
}  // namespace mpsd::retention
