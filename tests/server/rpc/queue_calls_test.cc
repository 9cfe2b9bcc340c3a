// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/queue_calls.h"

#include <set>
#include <string>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"

namespace mpsd::rpc {
namespace {

using testing::HasSubstr;

const auto kInvalid = absl::StatusCode::kInvalidArgument;
const auto kNotFound = absl::StatusCode::kNotFound;
const auto kState = absl::StatusCode::kFailedPrecondition;

Call By(const std::string& user, access::Role role = access::Role::kUser) {
  access::Caller caller;
  caller.user = user;
  caller.role = role;
  return {access::Rights(caller, /*private_jobs=*/false), {}, ""};
}

TEST(HoldJob, SaysWhoHoldsAndWhy) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  v1::HoldRequest request;
  request.set_id("a");
  v1::Job job;
  ASSERT_TRUE(HoldJob(manager, manager, request, By("ada"), job).ok());
  EXPECT_TRUE(job.held());
  EXPECT_EQ(manager.Get("a")->hold_reason, "by ada");
  request.set_reason("no data");
  ASSERT_TRUE(HoldJob(manager, manager, request, By("ada"), job).ok());
  EXPECT_EQ(manager.Get("a")->hold_reason, "by ada: no data");
  ASSERT_TRUE(HoldJob(manager, manager, request, By(""), job).ok());
  EXPECT_EQ(manager.Get("a")->hold_reason,
            "by somebody without a name: no data");
}

TEST(HoldJob, ReasonsHaveTheirBounds) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  v1::HoldRequest request;
  request.set_id("a");
  v1::Job job;
  request.set_reason(std::string(limits::kReasonBytes, 'x'));
  EXPECT_TRUE(HoldJob(manager, manager, request, By("ada"), job).ok());
  for (const std::string& bad :
       {std::string(limits::kReasonBytes + 1, 'x'), std::string("a\x1b[2J"),
        std::string("two\nlines"), std::string("a\0b", 3)}) {
    request.set_reason(bad);
    const absl::Status status =
        HoldJob(manager, manager, request, By("ada"), job);
    EXPECT_EQ(status.code(), kInvalid);
    EXPECT_THAT(std::string(status.message()), HasSubstr("reason: "));
  }
}

TEST(QueueCalls, TheirErrorsArePassedOn) {
  FakeManager manager;
  manager.Put("a", jobs::State::kRunning);
  v1::Job job;
  const auto all = [&](const std::string& id) {
    v1::HoldRequest hold;
    hold.set_id(id);
    v1::ReleaseRequest release;
    release.set_id(id);
    v1::MoveRequest move;
    move.set_id(id);
    move.set_top(true);
    const Call call = By("ada");
    return std::set<absl::StatusCode>{
        HoldJob(manager, manager, hold, call, job).code(),
        ReleaseJob(manager, manager, release, call, job).code(),
        MoveJob(manager, manager, move, call, job).code()};
  };
  EXPECT_THAT(all(""), testing::ElementsAre(kInvalid));
  EXPECT_THAT(all("b"), testing::ElementsAre(kNotFound));
  EXPECT_THAT(all("a"), testing::ElementsAre(kState));
  v1::RetryRequest retry;
  EXPECT_EQ(RetryJob(manager, manager, retry, By("ada"), job).code(), kInvalid);
  retry.set_id("b");
  EXPECT_EQ(RetryJob(manager, manager, retry, By("ada"), job).code(),
            kNotFound);
}

TEST(MoveJob, AnAdminsTopAndBottomCountAmongAll) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  v1::MoveRequest request;
  request.set_id("a");
  v1::Job job;
  request.set_top(true);
  ASSERT_TRUE(MoveJob(manager, manager, request, By("ada"), job).ok());
  EXPECT_EQ(manager.last_move().where, jobs::MoveTo::Where::kTop);
  EXPECT_FALSE(manager.last_move().among_all);
  request.set_bottom(true);
  const Call admin = By("root", access::Role::kAdmin);
  ASSERT_TRUE(MoveJob(manager, manager, request, admin, job).ok());
  EXPECT_EQ(manager.last_move().where, jobs::MoveTo::Where::kBottom);
  EXPECT_TRUE(manager.last_move().among_all);
}

TEST(MoveJob, ToAPriorityWithinTheCallersLimits) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  v1::MoveRequest request;
  request.set_id("a");
  request.set_priority(-7);
  Call call = By("ada");
  call.limits.highest_priority = 3;
  v1::Job job;
  ASSERT_TRUE(MoveJob(manager, manager, request, call, job).ok());
  EXPECT_EQ(job.priority(), -7);
  EXPECT_EQ(manager.last_limits().highest_priority, 3);
}

TEST(MoveJob, WantsOneWayToGo) {
  FakeManager manager;
  manager.Put("a", jobs::State::kQueued);
  v1::MoveRequest request;
  request.set_id("a");
  v1::Job job;
  EXPECT_EQ(MoveJob(manager, manager, request, By("ada"), job).code(),
            kInvalid);
  request.set_top(false);
  EXPECT_EQ(MoveJob(manager, manager, request, By("ada"), job).code(),
            kInvalid);
  request.set_bottom(false);
  EXPECT_EQ(MoveJob(manager, manager, request, By("ada"), job).code(),
            kInvalid);
}

TEST(RetryJob, PassesTheWishAndTheLimitsOn) {
  FakeManager manager;
  manager.Put("a", jobs::State::kSucceeded);
  v1::RetryRequest request;
  request.set_id("a");
  request.set_from_scratch(true);
  Call call = By("ada");
  call.limits.queued_jobs = 5;
  v1::Job job;
  ASSERT_TRUE(RetryJob(manager, manager, request, call, job).ok());
  EXPECT_EQ(job.state(), v1::JOB_STATE_QUEUED);
  EXPECT_TRUE(manager.Get("a")->fresh);
  EXPECT_EQ(manager.last_limits().queued_jobs, 5);
  EXPECT_EQ(RetryJob(manager, manager, request, call, job).code(), kState);
}

TEST(DrainQueue, SaysWhoAndWhy) {
  FakeManager manager;
  v1::DrainRequest request;
  ASSERT_TRUE(DrainQueue(manager, request, By("root")).ok());
  EXPECT_EQ(manager.Info().hold, "mpsd is drained by root");
  request.set_reason("a new disk");
  ASSERT_TRUE(DrainQueue(manager, request, By("root")).ok());
  EXPECT_EQ(manager.Info().hold, "mpsd is drained by root: a new disk");
  request.set_reason(std::string(limits::kReasonBytes + 1, 'x'));
  EXPECT_EQ(DrainQueue(manager, request, By("root")).code(), kInvalid);
}

}  // namespace
}  // namespace mpsd::rpc
