// SPDX-License-Identifier: Apache-2.0
#include "server/store/sweep_store.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/kept_jobs.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

using jobs::State;
using sweeps::Sweep;
using testing::ElementsAre;
using testing::IsEmpty;

class SweepStoreTest : public testing::Test {
 protected:
  SweepStoreTest() { Open(); }
  void Open() {
    store_.reset();
    jobs_.reset();
    database_.reset();
    auto database = Database::Open(scratch_.path() / "mpsd.db");
    ASSERT_TRUE(database.ok()) << database.status();
    database_ = *std::move(database);
    jobs_ = std::make_unique<SqliteJobStore>(*database_);
    store_ = std::make_unique<SweepStore>(*database_, *jobs_);
  }

  // A sweep of two children, and the jobs of it.
  Sweep Some(const std::string& id, const std::string& key = "") {
    Sweep sweep;
    sweep.id = id;
    sweep.name = "tiny";
    sweep.owner = "ann";
    sweep.create_time = absl::FromUnixMicros(1'700'000'000'000'001);
    sweep.plan.parameters = {{"lora.r", sweeps::Choices{{"4", "8"}}}};
    sweep.plan.eta = 2;
    sweep.plan.rungs = {4};
    sweep.plan.metric = "loss";
    sweep.idempotency_key = key;
    sweep.request_hash = "hash";
    for (int i = 0; i < 2; ++i) {
      sweeps::Child& child = sweep.children.emplace_back();
      child.job_id = absl::StrCat(id, "-", i);
      child.values = {absl::StrCat(4 << i)};
    }
    return sweep;
  }
  static std::vector<jobs::Job> JobsOf(const Sweep& sweep) {
    std::vector<jobs::Job> jobs;
    for (const sweeps::Child& child : sweep.children) {
      jobs::Job& job = jobs.emplace_back();
      job.id = child.job_id;
      job.sweep_id = sweep.id;
      job.owner = sweep.owner;
      job.until_step = 4;
      job.create_time = sweep.create_time;
      job.spec_json = "{}";
    }
    return jobs;
  }
  absl::Status Insert(const Sweep& sweep) {
    const std::vector<jobs::Job> jobs = JobsOf(sweep);
    std::vector<jobs::Event> events;
    for (const jobs::Job& job : jobs) {
      events.push_back(
          {job.id, 1, job.create_time, jobs::StateChanged{State::kQueued, ""}});
    }
    return store_->Insert(sweep, jobs, events);
  }
  void End(const std::string& id, State state) {
    jobs::Job job = *jobs_->Get(id);
    job.state = state;
    job.end_time = absl::FromUnixSeconds(1'700'000'100);
    ASSERT_TRUE(jobs_->Update(job, {}).ok());
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_;
  std::unique_ptr<SqliteJobStore> jobs_;
  std::unique_ptr<SweepStore> store_;
};

TEST_F(SweepStoreTest, KeepsASweepAcrossARestart) {
  ASSERT_TRUE(Insert(Some("A", "k")).ok());
  Open();
  const auto sweep = store_->Get("A");
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->name, "tiny");
  EXPECT_EQ(sweep->owner, "ann");
  EXPECT_EQ(sweep->create_time, Some("A").create_time);
  EXPECT_EQ(sweep->plan.parameters, Some("A").plan.parameters);
  EXPECT_THAT(sweep->plan.rungs, ElementsAre(4));
  EXPECT_EQ(sweep->idempotency_key, "k");
  EXPECT_EQ(sweep->request_hash, "hash");
  ASSERT_EQ(sweep->children.size(), 2);
  EXPECT_EQ(sweep->children[1].job_id, "A-1");
  EXPECT_THAT(sweep->children[1].values, ElementsAre("8"));
  EXPECT_EQ(jobs_->Get("A-1")->sweep_id, "A");
  EXPECT_EQ(jobs_->Get("A-1")->until_step, 4);
  EXPECT_EQ(jobs_->Events("A-1", 0, 9)->size(), 1);
  EXPECT_EQ((*jobs_->CountByState())[State::kQueued], 2);
  EXPECT_TRUE(absl::IsNotFound(store_->Get("B").status()));
}

TEST_F(SweepStoreTest, AllOrNothing) {
  Sweep sweep = Some("A");
  sweep.children[1].job_id = sweep.children[0].job_id;
  EXPECT_FALSE(Insert(sweep).ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("A").status()));
  EXPECT_THAT(*jobs_->Ids(), IsEmpty());
  EXPECT_EQ((*jobs_->CountByState())[State::kQueued], 0);
}

TEST_F(SweepStoreTest, AKeyIsUsedOnceByAnOwner) {
  ASSERT_TRUE(Insert(Some("A", "k")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(Insert(Some("B", "k"))));
  EXPECT_THAT(jobs_->Ids()->size(), 2);
  EXPECT_TRUE(Insert(Some("C")).ok());
  EXPECT_TRUE(Insert(Some("D")).ok()) << "no key is any number of times";
  Sweep other = Some("E", "k");
  other.owner = "bob";
  EXPECT_TRUE(Insert(other).ok());
  EXPECT_EQ((*store_->FindByIdempotencyKey("ann", "k"))->id, "A");
  EXPECT_EQ((*store_->FindByIdempotencyKey("bob", "k"))->id, "E");
  EXPECT_FALSE(store_->FindByIdempotencyKey("ann", "l")->has_value());
}

TEST_F(SweepStoreTest, ListsTheNewestFirst) {
  for (const char* id : {"A", "B", "C"}) ASSERT_TRUE(Insert(Some(id)).ok());
  const auto ids = [&](const sweeps::SweepFilter& filter) {
    std::vector<std::string> found;
    const auto listed = store_->List(filter);
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const Sweep& sweep : *listed) {
      found.push_back(sweep.id);
      EXPECT_EQ(sweep.children.size(), 2);
    }
    return found;
  };
  sweeps::SweepFilter filter;
  EXPECT_THAT(ids(filter), ElementsAre("C", "B", "A"));
  filter.limit = 1;
  filter.before = "C";
  EXPECT_THAT(ids(filter), ElementsAre("B"));
  filter = {};
  filter.ids = {"A", "C", "' OR 1"};
  EXPECT_THAT(ids(filter), ElementsAre("C", "A"));
  filter = {};
  filter.owner = "bob";
  EXPECT_THAT(ids(filter), IsEmpty());
}

TEST_F(SweepStoreTest, ADecisionIsStoredOnce) {
  ASSERT_TRUE(Insert(Some("A")).ok());
  Sweep sweep = *store_->Get("A");
  sweep.rung = 1;
  sweep.children[0].rung = 1;
  sweep.children[0].metric = 0.25;
  sweep.children[1].out = "place 2";
  sweep.children[1].drop = true;
  ASSERT_TRUE(store_->Decide(sweep).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Decide(sweep)));
  Open();
  const Sweep stored = *store_->Get("A");
  EXPECT_EQ(stored.rung, 1);
  EXPECT_EQ(stored.children[0].rung, 1);
  EXPECT_EQ(stored.children[0].metric, 0.25);
  EXPECT_EQ(stored.children[1].metric, std::nullopt);
  EXPECT_EQ(stored.children[1].out, "place 2");
  EXPECT_TRUE(stored.children[1].drop);
  sweep.id = "B";
  EXPECT_TRUE(absl::IsFailedPrecondition(store_->Decide(sweep)));
}

TEST_F(SweepStoreTest, ThinningAreThoseWithRungsThatHaveNotEnded) {
  ASSERT_TRUE(Insert(Some("A")).ok());
  Sweep flat = Some("B");
  flat.plan.rungs.clear();
  ASSERT_TRUE(Insert(flat).ok());
  EXPECT_THAT(*store_->Thinning(), ElementsAre("A"));
  End("A-0", State::kCancelled);
  EXPECT_THAT(*store_->Thinning(), ElementsAre("A"));
  End("A-1", State::kCancelled);
  EXPECT_THAT(*store_->Thinning(), IsEmpty());
}

TEST_F(SweepStoreTest, ASweepGoesWithTheLastOfItsJobs) {
  ASSERT_TRUE(Insert(Some("A")).ok());
  End("A-0", State::kCancelled);
  End("A-1", State::kCancelled);
  ASSERT_TRUE(jobs_->Delete("A-0").ok());
  EXPECT_EQ(store_->Get("A")->children.size(), 2) << "one is left";
  ASSERT_TRUE(jobs_->Delete("A-1").ok());
  EXPECT_TRUE(absl::IsNotFound(store_->Get("A").status()));
  EXPECT_TRUE(Insert(Some("A", "k")).ok()) << "nothing is left of it";
}

// Rules keep what has ended of a sweep that goes on; people may delete it.
TEST_F(SweepStoreTest, RetentionKeepsTheChildrenOfASweepThatGoesOn) {
  ASSERT_TRUE(Insert(Some("A")).ok());
  End("A-0", State::kCancelled);
  KeptJobs kept(*database_);
  const absl::Time end = absl::FromUnixSeconds(1'700'000'100);
  EXPECT_TRUE(absl::IsFailedPrecondition(kept.MayRemove("A-0", end)));
  EXPECT_TRUE(kept.MayDelete("A-0").ok());
  EXPECT_TRUE(kept.Ended()->at(0).jobs.at(0).bound);
  End("A-1", State::kCancelled);
  EXPECT_TRUE(kept.MayRemove("A-0", end).ok());
  EXPECT_FALSE(kept.Ended()->at(0).jobs.at(0).bound);
}

// A list shows the jobs of one sweep, or one job for each sweep.
TEST_F(SweepStoreTest, ListsOfJobsAreFoldedAndFiltered) {
  jobs::Job plain;
  plain.id = "0";
  plain.create_time = Some("A").create_time;
  plain.spec_json = "{}";
  ASSERT_TRUE(jobs_
                  ->Insert(plain, {"0", 1, plain.create_time,
                                   jobs::StateChanged{State::kQueued, ""}})
                  .ok());
  ASSERT_TRUE(Insert(Some("A")).ok());
  ASSERT_TRUE(Insert(Some("B")).ok());
  const auto ids = [&](const jobs::ListFilter& filter) {
    std::vector<std::string> found;
    const auto listed = jobs_->List(filter);
    if (!listed.ok()) return found;
    for (const jobs::Job& job : *listed) found.push_back(job.id);
    EXPECT_EQ(*jobs_->CountListed(filter), found.size());
    return found;
  };
  jobs::ListFilter filter;
  filter.summaries = true;
  EXPECT_THAT(ids(filter), ElementsAre("B-1", "B-0", "A-1", "A-0", "0"));
  filter.fold_sweeps = true;
  EXPECT_THAT(ids(filter), ElementsAre("B-1", "A-1", "0"));
  filter.ascending = true;
  filter.order = jobs::ListOrder::kOwner;
  EXPECT_THAT(ids(filter), ElementsAre("0", "A-1", "B-1"));
  // Page by page, in any order.
  filter.limit = 1;
  std::vector<std::string> paged;
  while (true) {
    const auto page = *jobs_->List(filter);
    if (page.empty()) break;
    paged.push_back(page[0].id);
    filter.after = jobs::PlaceOf(page[0], filter.order);
  }
  EXPECT_THAT(paged, ElementsAre("0", "A-1", "B-1"));
  filter = {};
  filter.sweep_id = "A";
  EXPECT_THAT(ids(filter), ElementsAre("A-1", "A-0"));
  filter.sweep_id = "nothing";
  EXPECT_THAT(ids(filter), IsEmpty());
  // The next one stands for its sweep once the last one is deleted.
  End("A-1", State::kCancelled);
  ASSERT_TRUE(jobs_->Delete("A-1").ok());
  filter = {};
  filter.fold_sweeps = true;
  EXPECT_THAT(ids(filter), ElementsAre("B-1", "A-0", "0"));
}

}  // namespace
}  // namespace mpsd::store
