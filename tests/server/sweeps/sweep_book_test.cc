// SPDX-License-Identifier: Apache-2.0
#include "server/sweeps/sweep_book.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/job_id.h"
#include "tests/server/sweeps/sweep_fixture.h"

namespace mpsd::sweeps {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class SweepBookTest : public SweepFixture {};

TEST_F(SweepBookTest, MakesAJobOfEachCombination) {
  SweepBook::Request request = Asked(2);
  request.submission.priority = 3;
  request.submission.labels = {{"team", "a"}};
  const Sweep sweep = Create(request);
  EXPECT_TRUE(jobs::IsJobId(sweep.id));
  EXPECT_EQ(sweep.name, "tiny");
  ASSERT_EQ(sweep.children.size(), 2);
  EXPECT_THAT(sweep.children[1].values, ElementsAre("0.1"));
  const jobs::Job job = JobOf(sweep, 1);
  EXPECT_EQ(job.name, "tiny weight_decay=0.1");
  EXPECT_EQ(job.sweep_id, sweep.id);
  EXPECT_EQ(job.owner, "ann");
  EXPECT_EQ(job.priority, 3);
  EXPECT_EQ(job.until_step, 0);
  EXPECT_THAT(job.labels,
              ElementsAre(std::pair("team", "a"),
                          std::pair("training.weight_decay", "0.1")));
  EXPECT_THAT(job.spec_json, HasSubstr("\"weight_decay\":0.1"));
  EXPECT_LT(sweep.children[0].job_id, sweep.children[1].job_id);
  EXPECT_EQ(book_->JobsOf(sweep.id)->size(), 2);
}

TEST_F(SweepBookTest, NothingIsQueuedWhereOneChildIsRefused) {
  SweepBook::Request request = Asked(3);
  request.plan.parameters = {{"lora.r", Choices{{"8", "-1", "16"}}}};
  absl::Status status = book_->Create(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("child 2 (r=-1): "));
  request.plan.parameters = {{"lora.rank", Choices{{"8"}}}};
  status = book_->Create(request).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("lora.rank"));
  EXPECT_TRUE(sweeps_.sweeps.empty());
  EXPECT_THAT(*store_.Ids(), IsEmpty());
  EXPECT_THAT(files_.specs, IsEmpty()) << "no folder either";
  EXPECT_EQ(calls_, 0);
}

TEST_F(SweepBookTest, AUsersLimitCountsEveryChild) {
  SweepBook::Request request = Asked(3);
  request.submission.limits.queued_jobs = 2;
  const absl::Status status = book_->Create(request).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(*store_.Ids(), IsEmpty());
  EXPECT_THAT(files_.specs, IsEmpty());
  request.submission.limits.queued_jobs = 3;
  EXPECT_TRUE(book_->Create(request).ok());
}

TEST_F(SweepBookTest, AStoreThatFailsLeavesNothing) {
  sweeps_.failure = absl::ResourceExhaustedError("disk full");
  const absl::Status status = book_->Create(Asked(2)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(files_.specs, IsEmpty());
  scheduler_->Tick();
  EXPECT_EQ(Running(), "");
}

TEST_F(SweepBookTest, TheSameKeyIsTheSameSweep) {
  SweepBook::Request request = Asked(2, 2);
  request.submission.idempotency_key = "k";
  const Sweep first = Create(request);
  auto again = book_->Create(request);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->existed);
  EXPECT_EQ(again->sweep.id, first.id);
  EXPECT_EQ(store_.Ids()->size(), 2);
  for (const auto& change : std::vector<std::function<void()>>{
           [&] { request.plan.eta = 3; },
           [&] { request.greater_is_better = true; },
           [&] { request.submission.priority = 9; }}) {
    const SweepBook::Request before = request;
    change();
    EXPECT_TRUE(absl::IsAlreadyExists(book_->Create(request).status()));
    request = before;
  }
  request.submission.owner = "bob";
  EXPECT_NE(Create(request).id, first.id) << "keys of others are others";
}

// Two calls with one key, of which the other is the quicker one.
TEST_F(SweepBookTest, ARaceForAKeyMakesOneSweep) {
  SweepBook::Request request = Asked(2);
  request.submission.idempotency_key = "k";
  Sweep other;
  sweeps_.before_insert = [&] {
    sweeps_.before_insert = nullptr;
    // The scheduler's lock is held: the other call is in the store alone.
    other.id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    other.owner = "ann";
    other.idempotency_key = "k";
    other.request_hash = "of another request";
    sweeps_.sweeps[other.id] = other;
  };
  const auto made = book_->Create(request);
  EXPECT_TRUE(absl::IsAlreadyExists(made.status())) << "another request";
  EXPECT_THAT(*store_.Ids(), IsEmpty());
}

TEST_F(SweepBookTest, NobodyWaitsAnyMore) {
  SweepBook::Request request = Asked(5);
  int asked = 0;
  request.submission.wanted = [&] {
    return ++asked > 4 ? absl::CancelledError("gone") : absl::OkStatus();
  };
  EXPECT_TRUE(absl::IsCancelled(book_->Create(request).status()));
  EXPECT_THAT(*store_.Ids(), IsEmpty());
}

TEST_F(SweepBookTest, CancelEndsEveryChild) {
  const Sweep sweep = Create(Asked(4, 2));
  scheduler_->Tick();
  RunOne();
  ASSERT_TRUE(scheduler_->Hold(sweep.children[3].job_id, "wait").ok());
  ASSERT_TRUE(book_->Cancel(sweep.id).ok());
  EXPECT_EQ(launcher_.cancelled, 1) << "the running one is asked";
  launcher_.Exit(jobs::ExitReason::kCancelled);
  scheduler_->Tick();
  controller_->Tick();
  EXPECT_EQ(States(sweep), "CCCC");
  EXPECT_TRUE(book_->Cancel(sweep.id).ok()) << "again";
  EXPECT_EQ(Running(), "");
}

TEST_F(SweepBookTest, ACancelThatCannotBeStoredSaysSo) {
  const Sweep sweep = Create(Asked(2));
  store_.FailWith(absl::ResourceExhaustedError("disk full"));
  EXPECT_TRUE(absl::IsResourceExhausted(book_->Cancel(sweep.id)));
  store_.FailWith(absl::OkStatus());
  EXPECT_TRUE(book_->Cancel(sweep.id).ok());
  EXPECT_EQ(States(sweep), "CC");
}

}  // namespace
}  // namespace mpsd::sweeps
