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

// The fake daemon gives all jobs, whatever the filter.
TEST_F(CancelTest, ALabelMeansTheCallersOwnJobsThatHaveNotEnded) {
  data().who.set_user("ann");
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  data().page_size = 1;
  const Result result =
      RunVerb({"cancel", "--label", "sweep=ranks", "--label", "a=b"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(data().cancelled.size(), 2u);
  const v1::ListJobsRequest& asked = data().listed[0];
  EXPECT_EQ(asked.owner(), "ann");
  EXPECT_EQ(asked.labels().at("sweep"), "ranks");
  EXPECT_EQ(asked.labels().size(), 2u);
  EXPECT_THAT(asked.states(), testing::ElementsAre(v1::JOB_STATE_QUEUED,
                                                   v1::JOB_STATE_RUNNING));
  data().jobs.clear();
  EXPECT_EQ(RunVerb({"cancel", "--label", "sweep=ranks"}).code, 4);
  EXPECT_EQ(RunVerb({"cancel", "--label", "ranks"}).code, 2);
  EXPECT_EQ(RunVerb({"cancel", "--label", "a=b", kId}).code, 2);
  EXPECT_EQ(RunVerb({"cancel"}).code, 2);
  data().fail["WhoAmI"] = grpc::Status(grpc::StatusCode::INTERNAL, "no");
  EXPECT_NE(RunVerb({"cancel", "--label", "sweep=ranks"}).code, 0);
  EXPECT_EQ(data().cancelled.size(), 2u);
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
