// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ListTest : public ClientTest {
 protected:
  void AddBoth() {
    v1::Job& first = AddJob(kId, v1::JOB_STATE_RUNNING);
    first.mutable_progress()->set_step(3);
    first.mutable_progress()->set_total_steps(10);
    first.mutable_progress()->set_loss(2.5);
    first.set_eval_loss_after(2.25);
    first.set_cancel_requested(true);
    AddJob(kOtherId, v1::JOB_STATE_QUEUED).clear_owner();
  }
};

TEST_F(ListTest, Empty) {
  EXPECT_EQ(RunVerb({"list"}).out,
            "No jobs. Queue one with `mpsctl submit job.json`.\n");
}

TEST_F(ListTest, Table) {
  AddBoth();
  EXPECT_EQ(RunVerb({"list"}).out,
            "ID                          STATE                 STEP  LOSS    "
            "EVAL    OWNER  AGE    NAME\n"
            "01KAH0000000000000000000BB  QUEUED                -     -       "
            "-       -      3m00s  moods\n"
            "01KAH0000000000000000000AA  RUNNING (cancelling)  3/10  2.5000  "
            "2.2500  ann    3m00s  moods\n");
}

TEST_F(ListTest, SaysWhatIsHeld) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("the disk is full");
  EXPECT_NE(RunVerb({"list"}).out.find("QUEUED (held)"), std::string::npos);
}

TEST_F(ListTest, FitsTheScreen) {
  AddBoth();
  terminal_.is_tty = true;
  terminal_.columns = [] { return 20; };
  EXPECT_EQ(RunVerb({"list"}).out,
            "ID                 …\n"
            "01KAH00000000000000…\n"
            "01KAH00000000000000…\n");
}

TEST_F(ListTest, FiltersAreTheServers) {
  RunVerb({"list", "--state", "queued", "--state", "RUNNING", "--owner", "bo",
           "--label", "a=1", "--label", "b=2", "--limit", "7"});
  ASSERT_EQ(data().listed.size(), 1u);
  const v1::ListJobsRequest& request = data().listed[0];
  EXPECT_THAT(request.states(), testing::ElementsAre(v1::JOB_STATE_QUEUED,
                                                     v1::JOB_STATE_RUNNING));
  EXPECT_EQ(request.owner(), "bo");
  EXPECT_EQ(request.labels().at("a"), "1");
  EXPECT_EQ(request.labels().at("b"), "2");
  EXPECT_EQ(request.page_size(), 7);
}

TEST_F(ListTest, AsManyPagesAsItTakes) {
  AddBoth();
  data().page_size = 1;
  EXPECT_EQ(RunVerb({"list", "-q"}).out,
            "01KAH0000000000000000000BB\n"
            "01KAH0000000000000000000AA\n");
  EXPECT_EQ(RunVerb({"list", "-q", "--limit", "1"}).out,
            "01KAH0000000000000000000BB\n");
}

TEST_F(ListTest, JsonIsAJobALine) {
  AddBoth();
  std::istringstream lines(RunVerb({"list", "--json"}).out);
  std::vector<std::string> states;
  for (std::string line; std::getline(lines, line);) {
    states.push_back(nlohmann::json::parse(line)["state"]);
  }
  EXPECT_THAT(states, testing::ElementsAre("QUEUED", "RUNNING"));
}

TEST_F(ListTest, BadLabel) {
  const Result result = RunVerb({"list", "--label", "team"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "mpsctl: --label 'team': expected NAME=VALUE\n");
}

}  // namespace
}  // namespace mpsd::client
