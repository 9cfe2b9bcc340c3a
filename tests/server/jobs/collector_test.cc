// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/collector.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "core/base/limits.h"
#include "core/base/sha256.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/test_store.h"

namespace mpsd::retention {
namespace {

using jobs::Collected;
using jobs::KeepRules;
using jobs::KeptJob;
using jobs::KeptOwner;

// Its value is what a test reads: "7 kJob kAge".
const absl::Time kToday = absl::FromUnixSeconds(1'800'000'000);
constexpr absl::Duration kDay = absl::Hours(24);

KeptJob MakeJob(int64_t number, double days_ago, int64_t bytes = 0,
                int64_t checkpoint_bytes = 0, bool succeeded = true) {
  KeptJob job;
  job.number = number;
  job.ended = kToday - days_ago * kDay;
  job.bytes = bytes;
  job.checkpoint_bytes = checkpoint_bytes;
  job.succeeded = succeeded;
  return job;
}

class PlanTest : public testing::Test {
 protected:
  PlanTest() { terms_.now = kToday; }

  Plan Make() {
    return MakePlan(
        owners_, [this](const std::string& owner) { return rules_[owner]; },
        terms_);
  }
  // The jobs that go, and those that lose their checkpoints, in order.
  static std::vector<std::string> Removals(const Plan& plan) {
    std::vector<std::string> removals;
    for (const Removal& removal : plan.removals) {
      const char* rules[] = {"age", "count", "bytes", "checkpoint age",
                             "budget"};
      removals.push_back(std::to_string(removal.job->number) +
                         (removal.part == Part::kJob ? " " : " checkpoints ") +
                         rules[static_cast<int>(removal.rule)]);
    }
    return removals;
  }
  std::vector<std::string> Removals() { return Removals(Make()); }

  std::vector<KeptOwner> owners_;
  std::map<std::string, KeepRules> rules_;
  Terms terms_;
};

TEST_F(PlanTest, ACheckpointsAgeLeavesTheResult) {
  owners_ = {{"ada",
              {MakeJob(1, 40, 100, 60), MakeJob(2, 8, 100, 60),
               MakeJob(3, 8, 100, 0), MakeJob(4, 6, 100, 60)}}};
  rules_["ada"].checkpoint_age = 7 * kDay;
  rules_["ada"].age = 30 * kDay;
  const Plan plan = Make();
  EXPECT_THAT(Removals(plan),
              ElementsAre("2 checkpoints checkpoint age", "1 age"));
  EXPECT_EQ(plan.freed_bytes, 60 + 100);
}

TEST_F(PlanTest, TheNewestStay) {
  owners_ = {
      {"ada", {MakeJob(1, 9), MakeJob(2, 8), MakeJob(3, 7), MakeJob(4, 6)}},
      {"bob", {MakeJob(5, 9), MakeJob(6, 8), MakeJob(7, 7)}}};
  rules_["ada"].jobs = 2;
  rules_["bob"].jobs = 0;
  EXPECT_THAT(Removals(), ElementsAre("1 count", "5 count", "2 count",
                                      "6 count", "7 count"));
}

TEST_F(PlanTest, BoundJobsStayInAdditionToThoseThatAreCounted) {
  owners_ = {{"ada", {MakeJob(1, 9), MakeJob(2, 8), MakeJob(3, 7)}}};
  owners_[0].jobs[0].bound = owners_[0].jobs[2].bound = true;
  rules_["ada"].jobs = 1;
  EXPECT_THAT(Removals(), IsEmpty());
  rules_["ada"].jobs = 0;
  EXPECT_THAT(Removals(), ElementsAre("2 count"));
  // What they have counts and stays.
  owners_ = {{"ada", {MakeJob(1, 9, 100, 100), MakeJob(2, 8, 100)}}};
  owners_[0].jobs[0].bound = true;
  rules_["ada"] = {.bytes = 150};
  EXPECT_THAT(Removals(), ElementsAre("2 bytes"));
}

TEST_F(PlanTest, CheckpointsGoBeforeResultsAndThoseOfFailuresLast) {
  owners_ = {
      {"ada",
       {MakeJob(1, 9, 100, 50, /*succeeded=*/false), MakeJob(2, 8, 100, 40),
        MakeJob(3, 7, 100, 30), MakeJob(4, 6, 100)}}};
  rules_["ada"].bytes = 400;
  EXPECT_THAT(Removals(), IsEmpty());
  rules_["ada"].bytes = 399;
  EXPECT_THAT(Removals(), ElementsAre("2 checkpoints bytes"));
  rules_["ada"].bytes = 330;
  EXPECT_THAT(Removals(),
              ElementsAre("2 checkpoints bytes", "3 checkpoints bytes"));
  rules_["ada"].bytes = 329;
  EXPECT_THAT(Removals(),
              ElementsAre("1 checkpoints bytes", "2 checkpoints bytes",
                          "3 checkpoints bytes"));
  rules_["ada"].bytes = 279;
  // A job that goes takes its checkpoints with it.
  EXPECT_THAT(Removals(), ElementsAre("2 checkpoints bytes",
                                      "3 checkpoints bytes", "1 bytes"));
  rules_["ada"].bytes = 0;
  const Plan plan = Make();
  EXPECT_THAT(Removals(plan),
              ElementsAre("1 bytes", "2 bytes", "3 bytes", "4 bytes"));
  EXPECT_EQ(plan.freed_bytes, 400);
}

TEST_F(PlanTest, ABudgetThatCannotBeKeptIsReported) {
  owners_ = {
      {"ada", {MakeJob(1, 9, 100), MakeJob(2, 8, 40), MakeJob(3, 0.01, 7)}}};
  owners_[0].jobs[1].bound = true;
  terms_.budget_bytes = 1000;
  terms_.used_bytes = 1100;
  EXPECT_EQ(ShortOf(Make(), terms_), "");
  terms_.used_bytes = 1500;
  const Plan plan = Make();
  EXPECT_THAT(Removals(plan), ElementsAre("1 budget"));
  EXPECT_EQ(plan.over_bytes, 400);
  EXPECT_THAT(
      ShortOf(plan, terms_),
      testing::AllOf(HasSubstr("stays 400 bytes beyond its budget of"),
                     HasSubstr("need have 40 bytes"),
                     HasSubstr("within 1h 7 bytes"), HasSubstr("--unpin`")));
}

TEST_F(PlanTest, AJobThatJustEndedStays) {
  owners_ = {{"ada", {MakeJob(1, 0.5 / 24, 100, 50), MakeJob(2, -3, 100)}}};
  rules_["ada"] = {absl::ZeroDuration(), 0, 0, absl::ZeroDuration()};
  terms_.budget_bytes = 1;
  terms_.used_bytes = 1 << 20;
  EXPECT_THAT(Removals(), IsEmpty());
  terms_.fresh = absl::Minutes(10);
  EXPECT_THAT(Removals(), ElementsAre("1 age"));
}

TEST_F(PlanTest, AWrongClockMakesNothingOld) {
  owners_ = {{"ada", {MakeJob(1, 90), MakeJob(2, 1)}}};
  owners_[0].jobs[0].ended = absl::UnixEpoch() + kDay;
  rules_["ada"].age = kDay / 2;
  rules_["ada"].jobs = 0;
  EXPECT_THAT(Removals(), ElementsAre("2 age"));
  terms_.ages_count = false;
  EXPECT_THAT(Removals(), ElementsAre("2 count"));
}

// For any rules: nothing bound or fresh goes, no job goes twice, what is
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
      ASSERT_GE(kToday - removal.job->ended, terms_.fresh);
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
        const bool movable = !job.bound && kToday - job.ended >= terms_.fresh;
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
    ASSERT_EQ(Removals(plan), Removals());
  }
  EXPECT_GT(gone, 2000);
}

struct FakeRemover {
  std::vector<std::string> removed;
  std::map<std::string, absl::Status> refusals;
  std::map<std::string, absl::Time> ends;

  absl::StatusOr<int64_t> Remove(const std::string& id, absl::Time ended,
                                 const char* part) {
    ends[id] = ended;
    if (refusals.contains(id)) return refusals[id];
    removed.push_back(id + part);
    return 10;
  }
};

class CollectorTest : public testing::Test {
 protected:
  CollectorTest() {
    clock_.Advance(absl::FromUnixSeconds(1'800'000'000) - clock_.Now());
    fs::create_directory(folder_ / "jobs");
    jobs::Collector::Options options;
    options.rules = [this](const std::string&) { return rules_; };
    options.keeps_all = [this] { return rules_.KeepAll(); };
    options.log = [this](const std::string& line) { log_.push_back(line); };
    options.count = [this](Collected kind, int64_t count, int64_t bytes) {
      counted_[kind].first += count;
      counted_[kind].second += bytes;
    };
    collector_ = std::make_unique<jobs::Collector>(
        std::move(options),
        jobs::Collector::Dependencies{
            db_.kept,
            [this](const std::string& id, absl::Time ended) {
              return remover_.Remove(id, ended, "");
            },
            [this](const std::string& id, absl::Time ended) {
              return remover_.Remove(id, ended, " checkpoints");
            },
            unused_, folders_, clock_});
  }
  void Add(int64_t number, double days_ago, int64_t bytes = 100,
           int64_t checkpoint_bytes = 0) {
    db_.PutEnded(number, "ada", clock_.Now() - days_ago * kDay, bytes,
                 checkpoint_bytes);
  }
  // Uploads a blob of that size that no job needs; returns its SHA-256.
  std::string Upload(int64_t bytes, const std::string& begin = "") {
    const std::string blob = begin + std::string(bytes - begin.size(), 'b');
    const std::string sha256 = base::Sha256Hex(blob);
    const auto batch = blobs_->BeginBatch();
    EXPECT_TRUE(batch->Add(sha256, blob).ok());
    EXPECT_TRUE(batch->Commit().ok());
    return sha256;
  }
  void Measure(int64_t total) {
    folders_.Begin();
    folders_.Set(total, {});
  }

  fakes::FakeClock clock_;
  fakes::TestStore db_;
  FakeRemover remover_;
  const fs::path folder_ = FreshFolder("collector");
  std::unique_ptr<store::BlobStore> blobs_ =
      *store::BlobStore::Open(db_.database(), folder_ / "blobs");
  // With a grace that everything is older than.
  jobs::UnusedBlobs unused_{*blobs_, folder_ / "jobs", -kDay};
  jobs::MeasuredFolders folders_;
  jobs::KeepRules rules_;
  std::vector<std::string> log_;
  std::map<Collected, std::pair<int64_t, int64_t>> counted_;
  std::unique_ptr<jobs::Collector> collector_;
};

TEST_F(CollectorTest, APlanReportsAndRemovesNothing) {
  Add(1, 90, 100, 60);
  Add(2, 10, 100, 60);
  rules_.age = 30 * kDay;
  rules_.checkpoint_age = 7 * kDay;
  const std::string blob = Upload(7);
  Measure(1000);
  collector_->SetBudget(5000);
  const auto plan = collector_->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  ASSERT_EQ(plan->items.size(), 3u);
  EXPECT_EQ(plan->items[0].kind, Collected::kBlob);
  EXPECT_EQ(plan->items[0].id, blob);
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
  EXPECT_TRUE(blobs_->Has(blob));
  EXPECT_EQ(collector_->Bytes().used, 1000);
  EXPECT_EQ(collector_->Bytes().budget, 5000);
}

TEST_F(CollectorTest, APlanCountsWhatTheRulesReachButIsTooFresh) {
  for (int i = 0; i < 4; ++i) Add(i, i / 24.0 / 10);  // 0 to 18 minutes ago
  rules_.jobs = 1;
  const auto plan = collector_->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->items, IsEmpty());
  EXPECT_EQ(plan->fresh, 3);
  EXPECT_EQ(absl::Ceil(plan->fresh_until - clock_.Now(), absl::Seconds(1)),
            absl::Minutes(42));
}

TEST_F(CollectorTest, APlanIsBoundedAndCountsTheRest) {
  for (int i = 0; i < 1500; ++i) Add(i, 90);
  rules_.age = 30 * kDay;
  for (int i = 0; i < 20; ++i) Upload(10, absl::StrCat(i));
  const auto plan = collector_->Plan();
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->items.size(), limits::kCollectionItems);
  EXPECT_EQ(plan->more, 520);
  EXPECT_EQ(plan->freed_bytes, 200 + 150'000);
}

TEST_F(CollectorTest, WhatAPlanNamesGoesInItsOrder) {
  Add(1, 90);
  Add(2, 10, 100, 60);
  Add(3, 80);
  rules_.age = 30 * kDay;
  rules_.checkpoint_age = 7 * kDay;
  Upload(7);
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

TEST_F(CollectorTest, UploadsThatBrokeOffAreReportedWithTheirSender) {
  const std::string sha256 = base::Sha256Hex("seventy");
  ASSERT_TRUE((*blobs_->Resume("ada", sha256, 70, 0))->Append("seven").ok());
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
  Upload(50);
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

TEST_F(CollectorTest, WhatWasMeasuredIsStoredAndTriedAgain) {
  Add(1, 1, 0);
  Add(2, 1, 0);
  folders_.Begin();
  folders_.Set(10, {{"id-1", 3, 1}, {"id-2", 4, 0}});
  db_.FillDisk();
  collector_->Tend({});
  collector_->Tend({});
  EXPECT_THAT(log_, ElementsAre(HasSubstr("disk is full")));
  db_.FreeDisk();
  collector_->Tend({});
  EXPECT_EQ(db_.Number("SELECT sum(stored_bytes) FROM jobs"), 7);
  EXPECT_EQ(db_.Number("SELECT sum(stored_checkpoint_bytes) FROM jobs"), 1);
}

TEST_F(CollectorTest, AFailureThatStaysIsOneLine) {
  Add(1, 9);
  rules_.jobs = 0;
  remover_.refusals["id-1"] = absl::UnavailableError("I/O error");
  for (int i = 0; i < 5; ++i) collector_->Tend({});
  EXPECT_THAT(log_, ElementsAre("retention: job id-1: I/O error"));
  Upload(50);
  db_.FillDisk();
  collector_->TendBlobs();
  EXPECT_THAT(log_.back(), HasSubstr("collecting blobs: "));
}

TEST_F(CollectorTest, BlobsGoByThemselves) {
  Measure(100);
  Upload(50);
  collector_->TendBlobs();
  EXPECT_EQ(folders_.TotalBytes(), 50);
  EXPECT_THAT(log_, ElementsAre("removed uploads that no job uses: 50 bytes"));
  collector_->TendBlobs();
  EXPECT_EQ(log_.size(), 1u);
}

// The rules alone.
TEST(RetentionPlan, AHundredThousandJobsArePlannedQuickly) {
  Terms terms;
  terms.now = absl::FromUnixSeconds(1'800'000'000);
  terms.budget_bytes = 100'000'000;
  terms.used_bytes = 200'000'000;
  jobs::KeptOwner ada{"ada", {}};
  for (int i = 0; i < 100'000; ++i) {
    ada.jobs.push_back(
        {i, terms.now - (100 - i / 2000.0) * kDay, 1000, 500, true});
  }
  const std::vector<jobs::KeptOwner> owners{std::move(ada)};
  const RulesOf rules = [](const std::string&) -> jobs::KeepRules {
    return {60 * kDay, 50'000, 30'000'000, 20 * kDay};
  };
  const base::Clock& clock = base::Clock::Real();
  absl::Duration best = absl::InfiniteDuration();
  for (int i = 0; i < 5; ++i) {
    const absl::Duration start = clock.Monotonic();
    const Plan plan = MakePlan(owners, rules, terms);
    best = std::min(best, clock.Monotonic() - start);
    EXPECT_GT(plan.removals.size(), 61'000u);
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

// Else retention would remove further jobs for bytes that are gone.
TEST(MeasuredFolders, WhatGoesDuringAMeasurementIsTakenFromItsResult) {
  jobs::MeasuredFolders folders;
  folders.Begin();
  folders.Set(1000, {{"a", 100, 60}, {"b", 50, 20}, {"c", 30, 30}});
  folders.Begin();
  folders.JobRemoved("a");
  folders.CheckpointsRemoved("b");
  folders.CheckpointsRemoved("c");
  folders.OthersRemoved(7);
  // The walk met a's folder under the name that it has while it is removed, b
  // before and c after its checkpoints went.
  folders.Set(1000, {{"b", 50, 20}, {"c", 0, 0}});
  EXPECT_EQ(folders.TotalBytes(), 1000 - 100 - 20 - 30 - 7);
  EXPECT_EQ(folders.BytesOf("a"), 0);
  EXPECT_EQ(folders.BytesOf("b"), 30);
  EXPECT_EQ(folders.BytesOf("c"), 0);
  // The next one is not reported again.
  folders.Begin();
  folders.Set(500, {{"b", 30, 0}});
  EXPECT_EQ(folders.TotalBytes(), 500);
}

}  // namespace
}  // namespace mpsd::retention
