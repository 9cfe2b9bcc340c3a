// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;

class HoldTest : public ClientTest {};

TEST_F(HoldTest, SeveralJobsForOneReason) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("by ann: the data is late");
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  const Result result =
      RunVerb({"hold", kId, kOtherId, "--reason", "the data is late"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA is held by ann: the data is late. "
            "It starts after `mpsctl release 01KAH0000000000000000000AA`.\n"
            "Job 01KAH0000000000000000000BB is held. "
            "It starts after `mpsctl release 01KAH0000000000000000000BB`.\n");
  ASSERT_EQ(data().held.size(), 2u);
  EXPECT_EQ(data().held[0].reason(), "the data is late");
  EXPECT_EQ(data().held[1].id(), kOtherId);
}

TEST_F(HoldTest, NoReasonSteersTheTerminal) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("by e\x1b[2J");
  EXPECT_EQ(RunVerb({"hold", kId}).out.find('\x1b'), std::string::npos);
}

TEST_F(HoldTest, OneThatFailsDoesNotKeepTheOthers) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  const Result result = RunVerb({"hold", kOtherId, kId});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.out, HasSubstr(kId));
}

TEST_F(HoldTest, AShortIdIsTooShortToChangeAJob) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"hold", "00AA"}).code, 2);
  EXPECT_TRUE(data().held.empty());
}

TEST_F(HoldTest, ALabelMeansQueuedJobs) {
  data().who.set_user("ann");
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"hold", "--label", "sweep=ranks"}).code, 0);
  ASSERT_EQ(data().held.size(), 1u);
  EXPECT_THAT(data().listed[0].states(),
              testing::ElementsAre(v1::JOB_STATE_QUEUED));
  EXPECT_FALSE(data().listed[0].has_held());
}

TEST_F(HoldTest, JsonIsTheJob) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_held(true);
  const auto json = nlohmann::json::parse(RunVerb({"hold", kId, "--json"}).out);
  EXPECT_EQ(json["held"], true);
}

}  // namespace
}  // namespace mpsd::client
