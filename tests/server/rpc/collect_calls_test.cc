// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/collect_calls.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_collector.h"

namespace mpsd::rpc {
namespace {

access::Rights Of(access::Role role, bool private_jobs) {
  access::Caller caller;
  caller.user = "ada";
  caller.role = role;
  return access::Rights(caller, private_jobs);
}

class CollectCallsTest : public testing::Test {
 protected:
  CollectCallsTest() {
    const std::string sha256(64, 'a');
    collector_.plan.items = {
        {jobs::Collected::kBlob, sha256, "", "", 5, "an upload"},
        {jobs::Collected::kCheckpoints, "a", "ada", "mine", 6, "it is old"},
        {jobs::Collected::kJob, "b", "bob", "theirs", 7, "it is old"},
        {jobs::Collected::kPartialUpload, sha256, "bob", "", 8, "it broke off"},
        {jobs::Collected::kPartialUpload, sha256, "ada", "", 9, "likewise"}};
    collector_.plan.more = int64_t{5'000'000'000};
    collector_.plan.freed_bytes = 18;
    collector_.plan.used_bytes = 100;
    collector_.plan.budget_bytes = 90;
    collector_.plan.short_of = "pinned jobs";
  }
  v1::PlanCollectionResponse Plan(const access::Rights& rights) {
    v1::PlanCollectionResponse response;
    absl::Status told = PlanCollection(&collector_, rights, response);
    EXPECT_TRUE(told.ok()) << told;
    return response;
  }

  FakeCollector collector_;
};

TEST_F(CollectCallsTest, APlanIsToldWhole) {
  const auto plan = Plan(Of(access::Role::kViewer, false));
  ASSERT_EQ(plan.items_size(), 5);
  EXPECT_EQ(plan.items(0).kind(), v1::CollectionItem::KIND_BLOB);
  EXPECT_EQ(plan.items(0).id(), std::string(64, 'a'));
  EXPECT_EQ(plan.items(1).kind(), v1::CollectionItem::KIND_CHECKPOINTS);
  EXPECT_EQ(plan.items(2).kind(), v1::CollectionItem::KIND_JOB);
  EXPECT_EQ(plan.items(2).id(), "b");
  EXPECT_EQ(plan.items(2).owner(), "bob");
  EXPECT_EQ(plan.items(2).name(), "theirs");
  EXPECT_EQ(plan.items(2).size_bytes(), 7);
  EXPECT_EQ(plan.items(2).why(), "it is old");
  EXPECT_EQ(plan.more(), INT32_MAX);
  EXPECT_EQ(plan.freed_bytes(), 18);
  EXPECT_EQ(plan.used_bytes(), 100);
  EXPECT_EQ(plan.budget_bytes(), 90);
  EXPECT_EQ(plan.short_of(), "pinned jobs");
}

TEST_F(CollectCallsTest, OfPrivateJobsOnlyTheirPublicPart) {
  const auto plan = Plan(Of(access::Role::kUser, true));
  ASSERT_EQ(plan.items_size(), 5);
  EXPECT_EQ(plan.items(0).id(), "") << "a SHA-256 tells what others have";
  EXPECT_EQ(plan.items(0).size_bytes(), 5);
  EXPECT_EQ(plan.items(1).name(), "mine");
  EXPECT_EQ(plan.items(2).id(), "b");
  EXPECT_EQ(plan.items(2).owner(), "bob");
  EXPECT_EQ(plan.items(2).name(), "");
  EXPECT_EQ(plan.items(3).id(), "");
  EXPECT_EQ(plan.items(4).id(), std::string(64, 'a'));
  const auto admins = Plan(Of(access::Role::kAdmin, true));
  EXPECT_EQ(admins.items(2).name(), "theirs");
  EXPECT_NE(admins.items(0).id(), "");
}

TEST_F(CollectCallsTest, ACollectionSaysWhatWentAndWhatDidNot) {
  collector_.result = {3, 40, {"job c: it is pinned"}};
  v1::CollectResponse response;
  Call call{Of(access::Role::kAdmin, false),
            [] { return absl::CancelledError("gone"); }, ""};
  ASSERT_TRUE(Collect(&collector_, call, response).ok());
  EXPECT_EQ(response.removed(), 3);
  EXPECT_EQ(response.freed_bytes(), 40);
  EXPECT_THAT(response.failed(), testing::ElementsAre("job c: it is pinned"));
  EXPECT_TRUE(absl::IsCancelled(collector_.was_wanted));
}

TEST_F(CollectCallsTest, ErrorsArePassedOn) {
  collector_.failure = absl::UnavailableError("the disk");
  v1::PlanCollectionResponse plan;
  v1::CollectResponse collected;
  Call call{Of(access::Role::kAdmin, false), {}, ""};
  EXPECT_TRUE(
      absl::IsUnavailable(PlanCollection(&collector_, call.rights, plan)));
  EXPECT_TRUE(absl::IsUnavailable(Collect(&collector_, call, collected)));
  EXPECT_TRUE(
      absl::IsUnimplemented(PlanCollection(nullptr, call.rights, plan)));
  EXPECT_TRUE(absl::IsUnimplemented(Collect(nullptr, call, collected)));
}

}  // namespace
}  // namespace mpsd::rpc
