// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class RetryTest : public ClientTest {};

TEST_F(RetryTest, SaysThatTheJobIsQueuedAgain) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(2);
  const Result result = RunVerb({"retry", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA is QUEUED again, 2 ahead of it; it "
            "resumes from its last checkpoint.\n");
  ASSERT_EQ(data().retried.size(), 1u);
  EXPECT_EQ(data().retried[0].id(), kId);
  EXPECT_FALSE(data().retried[0].from_scratch());
}

TEST_F(RetryTest, SeveralJobsAndTheFirstErrorsCode) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  const Result result =
      RunVerb({"retry", kId, "01KAH00000000000000000000X", kOtherId});
  EXPECT_EQ(result.code, 4);
  ASSERT_EQ(data().retried.size(), 2u);
  EXPECT_EQ(data().retried[0].id(), kId);
  EXPECT_EQ(data().retried[1].id(), kOtherId);
}

TEST_F(RetryTest, ARunningJobTakesItsTime) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"retry", "--from-scratch", kId}).out,
            "Job 01KAH0000000000000000000AA returns to the queue once its "
            "worker has stopped; it runs from scratch, without what it had "
            "reached.\n");
  EXPECT_TRUE(data().retried[0].from_scratch());
}

TEST_F(RetryTest, ARefusalIsPassedOn) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  data().fail["Retry"] =
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "job X is SUCCEEDED");
  const Result result = RunVerb({"retry", kId});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("is SUCCEEDED"));
}

TEST_F(RetryTest, JsonIsAJobALine) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  const Result result = RunVerb({"--json", "retry", kId, kOtherId});
  EXPECT_THAT(result.out, HasSubstr("\"state\":\"QUEUED\""));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
}

TEST_F(RetryTest, WantsAnId) { EXPECT_EQ(RunVerb({"retry"}).code, 2); }

}  // namespace
}  // namespace mpsd::client
