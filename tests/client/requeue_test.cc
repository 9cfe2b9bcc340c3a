// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class RequeueTest : public ClientTest {};

TEST_F(RequeueTest, AnEndedJobIsQueuedAgain) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(1);
  const Result result = RunVerb({"requeue", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA is QUEUED again, 1 ahead of it; it "
            "resumes from its last checkpoint.\n");
  EXPECT_FALSE(data().requeued[0].from_scratch());
}

TEST_F(RequeueTest, ARunningJobTakesItsTime) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"requeue", "--from-scratch", kId}).out,
            "Job 01KAH0000000000000000000AA returns to the queue once its "
            "worker has stopped; it runs from scratch, what it had reached "
            "goes.\n");
  EXPECT_TRUE(data().requeued[0].from_scratch());
}

TEST_F(RequeueTest, ARefusalIsTold) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  data().fail["Requeue"] = {grpc::StatusCode::FAILED_PRECONDITION, "no"};
  EXPECT_EQ(RunVerb({"requeue", kId}).code, 2);
}

TEST_F(RequeueTest, JsonIsTheJob) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  const auto json =
      nlohmann::json::parse(RunVerb({"requeue", kId, "--json"}).out);
  EXPECT_EQ(json["state"], "QUEUED");
}

}  // namespace
}  // namespace mpsd::client
