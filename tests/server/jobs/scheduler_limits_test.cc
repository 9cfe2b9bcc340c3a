// SPDX-License-Identifier: Apache-2.0
// What the scheduler refuses because of a user's limits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "core/base/sha256.h"
#include "tests/server/jobs/scheduler_fixture.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class FakeLedger : public UserLedger {
 public:
  std::unique_ptr<UploadClaim> Begin(const std::string&,
                                     const UserLimits&) override {
    return nullptr;
  }
  absl::Status Use(const std::string& user, const UserLimits&,
                   const std::set<std::string>& blobs) override {
    if (use.ok()) used[user] = blobs;
    return use;
  }
  absl::StatusOr<bool> Holds(const std::string&, const std::string&) override {
    return true;
  }
  absl::StatusOr<UserBytes> BytesOf(const std::string& user) override {
    ++asked;
    return UserBytes{0, results[user]};
  }

  absl::Status use;
  std::map<std::string, std::set<std::string>> used;
  std::map<std::string, int64_t> results;
  int asked = 0;
};

class SchedulerLimitsTest : public SchedulerFixture {
 protected:
  SchedulerLimitsTest() {
    ledger_ = &fake_ledger_;
    Restart();
  }
  absl::StatusOr<SubmitResult> SubmitAs(const std::string& owner,
                                        const UserLimits& limits,
                                        int32_t priority = 0) {
    SubmitRequest request = Request();
    request.owner = owner;
    request.limits = limits;
    request.priority = priority;
    clock_.Advance(absl::Milliseconds(1));
    return scheduler_->Submit(request);
  }
  static UserLimits Queued(int64_t most) {
    UserLimits limits;
    limits.queued_jobs = most;
    return limits;
  }

  FakeLedger fake_ledger_;
};

TEST_F(SchedulerLimitsTest, AUserHasSoManyJobsInTheQueue) {
  ASSERT_TRUE(SubmitAs("ada", Queued(2)).ok());
  ASSERT_TRUE(SubmitAs("ada", Queued(2)).ok());
  const absl::Status refused = SubmitAs("ada", Queued(2)).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("ada has 2 jobs in the queue, 2 are allowed"));
  EXPECT_EQ(files_.specs.size(), 2u) << "a refused job leaves no trace";
  // Others have limits of their own, and admins none.
  EXPECT_TRUE(SubmitAs("bob", Queued(1)).ok());
  EXPECT_TRUE(SubmitAs("ada", UserLimits()).ok());
}

TEST_F(SchedulerLimitsTest, AJobThatRunsIsInTheQueueNoMore) {
  ASSERT_TRUE(SubmitAs("ada", Queued(1)).ok());
  EXPECT_FALSE(SubmitAs("ada", Queued(1)).ok());
  scheduler_->Tick();
  EXPECT_TRUE(SubmitAs("ada", Queued(1)).ok());
  EXPECT_FALSE(SubmitAs("ada", Queued(1)).ok());
}

// Both have passed every check but the last when the first one is stored.
TEST_F(SchedulerLimitsTest, OfTwoAtOnceOnePasses) {
  absl::Status inner;
  bool first = true;
  files_.on_create = [&] {
    if (!std::exchange(first, false)) return;
    inner = SubmitAs("ada", Queued(1)).status();
  };
  const absl::Status outer = SubmitAs("ada", Queued(1)).status();
  EXPECT_TRUE(inner.ok()) << inner;
  EXPECT_TRUE(absl::IsResourceExhausted(outer)) << outer;
  EXPECT_EQ(files_.specs.size(), 1u);
  EXPECT_EQ(store_.Ids()->size(), 1u);
}

TEST_F(SchedulerLimitsTest, TheSameKeyAnswersWithTheLastJobThatWasAllowed) {
  SubmitRequest request = Request();
  request.owner = "ada";
  request.limits = Queued(1);
  request.idempotency_key = "k";
  std::string inner;
  bool first = true;
  files_.on_create = [&] {
    if (!std::exchange(first, false)) return;
    inner = scheduler_->Submit(request)->job.id;
    clock_.Advance(absl::Milliseconds(1));
  };
  const auto outer = scheduler_->Submit(request);
  ASSERT_TRUE(outer.ok()) << outer.status();
  EXPECT_TRUE(outer->existed);
  EXPECT_EQ(outer->job.id, inner);
  EXPECT_EQ(scheduler_->Submit(request)->job.id, inner);
}

TEST_F(SchedulerLimitsTest, RetriesCountAsSubmitsDo) {
  const std::string first = SubmitAs("ada", Queued(1))->job.id;
  ASSERT_TRUE(scheduler_->Cancel(first).ok());
  const std::string second = SubmitAs("ada", Queued(1))->job.id;
  EXPECT_TRUE(absl::IsResourceExhausted(
      scheduler_->Retry(first, false, Queued(1)).status()));
  EXPECT_EQ(StateOf(first), State::kCancelled);
  ASSERT_TRUE(scheduler_->Cancel(second).ok());
  EXPECT_TRUE(scheduler_->Retry(first, false, Queued(1)).ok());
  // An admin.
  EXPECT_TRUE(scheduler_->Retry(second).ok());
}

TEST_F(SchedulerLimitsTest, APriorityBeyondTheRangeIsRefused) {
  UserLimits limits;
  limits.lowest_priority = -5;
  limits.highest_priority = 0;
  EXPECT_TRUE(SubmitAs("ada", limits, 0).ok());
  EXPECT_TRUE(SubmitAs("ada", limits, -5).ok());
  for (const int32_t priority : {-6, 1, 2'147'483'647}) {
    const absl::Status refused = SubmitAs("ada", limits, priority).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << priority;
    EXPECT_THAT(std::string(refused.message()), HasSubstr("-5 to 0"));
  }
}

TEST_F(SchedulerLimitsTest, NoJobIsQueuedOnceResultsAreTooLarge) {
  UserLimits limits;
  limits.result_bytes = 100;
  fake_ledger_.results = {{"ada", 100}, {"bob", 99}};
  const absl::Status refused = SubmitAs("ada", limits).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("100 bytes"));
  const std::string id = SubmitAs("bob", limits)->job.id;
  ASSERT_TRUE(scheduler_->Cancel(id).ok());
  fake_ledger_.results["bob"] = 101;
  EXPECT_TRUE(
      absl::IsResourceExhausted(scheduler_->Retry(id, false, limits).status()));
  EXPECT_EQ(StateOf(id), State::kCancelled);
  // Nobody adds up results where there is no limit.
  fake_ledger_.asked = 0;
  EXPECT_TRUE(SubmitAs("ada", UserLimits()).ok());
  EXPECT_TRUE(scheduler_->Retry(id).ok());
  EXPECT_EQ(fake_ledger_.asked, 0);
}

TEST_F(SchedulerLimitsTest, TheInputsOfAJobCountForItsOwner) {
  const std::string blob = base::Sha256Hex("rows");
  blobs_.present = {blob};
  SubmitRequest request = Request();
  request.spec_json =
      R"({"model": "org/tiny", "dataset": {"train": ["a.jsonl", "b.jsonl"]}})";
  request.inputs = {{"a.jsonl", blob}, {"b.jsonl", blob}};
  request.owner = "ada";
  ASSERT_TRUE(scheduler_->Submit(request).ok());
  EXPECT_THAT(fake_ledger_.used["ada"], ElementsAre(blob));
  fake_ledger_.use = absl::ResourceExhaustedError("too many bytes");
  clock_.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(absl::IsResourceExhausted(scheduler_->Submit(request).status()));
  EXPECT_EQ(files_.specs.size(), 1u) << "nothing is made for a refused job";
}

}  // namespace
}  // namespace mpsd::jobs
