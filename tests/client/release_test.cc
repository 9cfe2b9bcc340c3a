// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::ElementsAre;

class ReleaseTest : public ClientTest {};

TEST_F(ReleaseTest, SaysHowManyAreAhead) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(2);
  const Result result = RunVerb({"release", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA is held no more, 2 ahead of "
            "it.\n");
  EXPECT_THAT(data().released, ElementsAre(kId));
}

TEST_F(ReleaseTest, AJobThatRunsIsRefused) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().fail["Release"] = {grpc::StatusCode::FAILED_PRECONDITION, "RUNNING"};
  EXPECT_EQ(RunVerb({"release", kId}).code, 2);
}

TEST_F(ReleaseTest, ALabelMeansJobsThatAreHeld) {
  data().who.set_user("ann");
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"release", "--label", "sweep=ranks"}).code, 0);
  EXPECT_THAT(data().released, ElementsAre(kId));
  EXPECT_TRUE(data().listed[0].held());
  EXPECT_EQ(data().listed[0].owner(), "ann");
}

TEST_F(ReleaseTest, JsonIsTheJob) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  const auto json =
      nlohmann::json::parse(RunVerb({"release", kId, "--json"}).out);
  EXPECT_EQ(json["id"], kId);
}

}  // namespace
}  // namespace mpsd::client
