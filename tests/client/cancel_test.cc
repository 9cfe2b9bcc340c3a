// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class CancelTest : public ClientTest {};

TEST_F(CancelTest, QueuedJobIsCancelledAtOnce) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  const Result result = RunVerb({"cancel", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Job 01KAH0000000000000000000AA is CANCELLED.\n");
}

TEST_F(CancelTest, RunningJobTakesItsTime) {
  AddJob(kId, v1::JOB_STATE_RUNNING).set_cancel_requested(true);
  EXPECT_EQ(RunVerb({"cancel", kId}).out,
            "Job 01KAH0000000000000000000AA is being cancelled; see it end "
            "with `mpsctl watch 01KAH0000000000000000000AA`.\n");
}

TEST_F(CancelTest, EndedBefore) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunVerb({"cancel", kId}).out,
            "Job 01KAH0000000000000000000AA had ended before: SUCCEEDED.\n");
}

TEST_F(CancelTest, SeveralJobsEachOnce) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  const Result result = RunVerb({"cancel", kOtherId, "0000AA", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000BB is CANCELLED.\n"
            "Job 01KAH0000000000000000000AA is CANCELLED.\n");
}

TEST_F(CancelTest, WhereOneIsUnclearNoneIsCancelled) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(RunVerb({"cancel", kId, ""}).code, 2);
  EXPECT_EQ(RunVerb({"cancel", kId, "ZZZZZZ"}).code, 4);
  EXPECT_TRUE(data().cancelled.empty());
}

TEST_F(CancelTest, OneThatFailsDoesNotKeepTheOthers) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  const Result result = RunVerb({"cancel", kOtherId, kId});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.out, "Job 01KAH0000000000000000000AA is CANCELLED.\n");
}

TEST_F(CancelTest, NowIsAskedFor) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"cancel", kId}).code, 0);
  EXPECT_EQ(RunVerb({"cancel", "--now", kId}).code, 0);
  ASSERT_EQ(data().cancelled.size(), 2);
  EXPECT_FALSE(data().cancelled[0].now());
  EXPECT_TRUE(data().cancelled[1].now());
}

TEST_F(CancelTest, JsonIsTheJob) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  const std::string out = RunVerb({"cancel", kId, "--json"}).out;
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["state"], "CANCELLED");
}

}  // namespace
}  // namespace mpsd::client
