// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class MoveTest : public ClientTest {};

TEST_F(MoveTest, ToTheTop) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(0);
  const Result result = RunVerb({"move", kId, "--top"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA has priority 0, first in the "
            "queue.\n");
  ASSERT_EQ(data().moved.size(), 1u);
  EXPECT_TRUE(data().moved[0].top());
}

TEST_F(MoveTest, TheFirstNamedIsTheFirstAtTheTopAndTheLastNamedAtTheBottom) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"move", kId, kOtherId, "--top"}).code, 0);
  EXPECT_EQ(RunVerb({"move", kId, kOtherId, "--bottom"}).code, 0);
  ASSERT_EQ(data().moved.size(), 4u);
  EXPECT_EQ(data().moved[0].id(), kOtherId);
  EXPECT_EQ(data().moved[1].id(), kId);
  EXPECT_EQ(data().moved[2].id(), kId);
  EXPECT_TRUE(data().moved[2].bottom());
}

TEST_F(MoveTest, ToAPriority) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_priority(-3);
  job.set_queue_position(4);
  job.set_held(true);
  EXPECT_EQ(RunVerb({"move", kId, "--priority", "-3"}).out,
            "Job 01KAH0000000000000000000AA has priority -3, 4 ahead of it; "
            "it is held.\n");
  EXPECT_EQ(data().moved[0].priority(), -3);
}

TEST_F(MoveTest, WantsOneWayToGo) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"move", kId}).code, 2);
  EXPECT_EQ(RunVerb({"move", kId, "--top", "--bottom"}).code, 2);
  EXPECT_EQ(RunVerb({"move", kId, "--top", "--priority", "1"}).code, 2);
  EXPECT_EQ(RunVerb({"move", kId, "--priority", "high"}).code, 2);
  EXPECT_TRUE(data().moved.empty());
}

TEST_F(MoveTest, ARefusalIsTold) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  data().fail["Move"] = {grpc::StatusCode::INVALID_ARGUMENT, "priority: 9"};
  const Result result = RunVerb({"move", kId, "--priority", "9"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, testing::HasSubstr("priority: 9"));
}

}  // namespace
}  // namespace mpsd::client
