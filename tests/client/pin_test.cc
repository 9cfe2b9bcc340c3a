// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class PinTest : public ClientTest {
 protected:
  PinTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  }
};

TEST_F(PinTest, SeveralJobsArePinnedAndUnpinned) {
  const Result pinned = RunVerb({"pin", kId, "0000BB"});
  EXPECT_EQ(pinned.code, 0) << pinned.err;
  EXPECT_THAT(pinned.out,
              testing::HasSubstr(
                  "Job 01KAH0000000000000000000BB is pinned: nothing of it is "
                  "removed until `mpsctl unpin`.\n"));
  EXPECT_TRUE(data().jobs[0].pinned() && data().jobs[1].pinned());
  const Result unpinned = RunVerb({"unpin", kId});
  EXPECT_EQ(unpinned.out, "Job 01KAH0000000000000000000AA is not pinned.\n");
  EXPECT_TRUE(data().jobs[0].pinned());
  EXPECT_FALSE(data().jobs[1].pinned());
  const auto json = nlohmann::json::parse(RunVerb({"pin", kId, "--json"}).out);
  EXPECT_EQ(json["pinned"], true);
}

TEST_F(PinTest, OneThatIsGoneDoesNotKeepTheOthers) {
  const Result result = RunVerb({"pin", "01KAH0000000000000000000CC", kId});
  EXPECT_EQ(result.code, 4);
  EXPECT_TRUE(data().jobs[1].pinned());
}

}  // namespace
}  // namespace mpsd::client
