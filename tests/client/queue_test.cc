// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class QueueTest : public ClientTest {
 protected:
  v1::QueueResponse::Entry& Add(const std::string& id, v1::JobState state,
                                const std::string& owner,
                                const std::string& why) {
    v1::QueueResponse::Entry& entry = *data().queue.add_entries();
    entry.set_id(id);
    entry.set_name("moods");
    entry.set_owner(owner);
    entry.set_state(state);
    entry.set_why(why);
    SetTime(entry.mutable_queue_time(), absl::Seconds(125));
    return entry;
  }
};

TEST_F(QueueTest, ShowsTheOrderAndWhy) {
  EXPECT_EQ(Out({"queue"}), "No job runs or waits.\n");
  Add(kId, v1::JOB_STATE_RUNNING, "ann", "has the device");
  Add(kOtherId, v1::JOB_STATE_QUEUED, "bob", "priority 5").set_priority(5);
  v1::QueueResponse::Entry& held =
      Add("01KAH0000000000000000000CC", v1::JOB_STATE_QUEUED, "", "priority 0");
  held.set_hold("the model is away");
  SetTime(held.mutable_not_before(), -absl::Seconds(30));
  data().queue.set_more(1200);
  data().queue.set_half_life_seconds(86400);
  v1::QueueResponse::Usage& usage = *data().queue.add_usage();
  usage.set_owner("ann");
  usage.set_seconds(7500);
  EXPECT_EQ(
      RunVerb({"queue"}).out,
      "PLACE  ID                          OWNER  PRIORITY  WAITS  NAME   WHY\n"
      "runs   01KAH0000000000000000000AA  ann    0         -      moods  has "
      "the device\n"
      "1      01KAH0000000000000000000BB  bob    5         2m05s  moods  "
      "priority 5\n"
      "2      01KAH0000000000000000000CC  -      0         2m05s  moods  "
      "priority 0; held: the model is away; not before 2026-01-02 03:04:35\n"
      "and 1,200 more\n"
      "\n"
      "These owners' recent use of the device; it halves every 1d00h:\n"
      "OWNER  USED\n"
      "ann    2h05m\n");
}

TEST_F(QueueTest, NoNameSteersTheTerminal) {
  Add(kId, v1::JOB_STATE_QUEUED, "ev\x1b[2Je", "x\ny").set_name("a\x1b]0;b");
  const std::string out = RunVerb({"queue"}).out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("by e\x1b[2J");
  EXPECT_THAT(Out({"hold", kId}), Not(HasSubstr("\x1b")));
}

TEST_F(QueueTest, Json) {
  Add(kId, v1::JOB_STATE_QUEUED, "ann", "priority 0");
  data().queue.set_half_life_seconds(3600);
  const nlohmann::json json = ParseJson(RunVerb({"queue", "--json"}).out);
  EXPECT_EQ(json["entries"][0]["id"], kId);
  EXPECT_EQ(json["entries"][0]["state"], "QUEUED");
  EXPECT_EQ(json["half_life_seconds"], 3600);
}

// The verbs that change jobs, or whether jobs start.
using QueueVerbsTest = ClientTest;

TEST_F(QueueVerbsTest, RefusalsAreTold) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  const struct {
    Args args;
    const char* method;
    StatusCode status;
    int code;
  } cases[] = {
      {{"queue"}, "Queue", StatusCode::INTERNAL, 6},
      {{"release", kId}, "Release", StatusCode::FAILED_PRECONDITION, 2},
      {{"move", kId, "--top"}, "Move", StatusCode::INVALID_ARGUMENT, 2},
      {{"retry", kId}, "Retry", StatusCode::FAILED_PRECONDITION, 2},
      {{"drain"}, "Drain", StatusCode::PERMISSION_DENIED, 8},
      {{"undrain"}, "Undrain", StatusCode::PERMISSION_DENIED, 8}};
  for (const auto& one : cases) {
    Fail(one.method, one.status, "for a reason");
    EXPECT_THAT(RunVerb(one.args), Fails(one.code, HasSubstr("for a reason")));
  }
}

TEST_F(QueueVerbsTest, OneThatFailsDoesNotKeepTheOthers) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  for (const char* verb :
       {"hold", "release", "pin", "cancel", "retry", "delete"}) {
    EXPECT_THAT(RunVerb({verb, kId, "01KAH0000000000000000000CC", kOtherId}),
                Ends(4, AllOf(HasSubstr(kId), HasSubstr(kOtherId))))
        << verb;
  }
  ASSERT_EQ(data().retried.size(), 2u);
  EXPECT_EQ(data().retried[0].id(), kId);
  EXPECT_EQ(data().retried[1].id(), kOtherId);
}

TEST_F(QueueVerbsTest, JsonIsTheJob) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_held(true);
  for (const char* verb : {"hold", "release", "pin", "cancel"}) {
    const auto json = ParseJson(Out({verb, kId, "--json"}));
    EXPECT_EQ(json["id"], kId) << verb;
    EXPECT_EQ(json["state"], "QUEUED") << verb;
    EXPECT_EQ(json["held"], true) << verb;
  }
  EXPECT_EQ(Out({"drain", "--json"}), "{}\n");
}

// The fake daemon gives all jobs, whatever the filter.
TEST_F(QueueVerbsTest, ALabelMeansQueuedJobsAndThoseThatAreHeld) {
  data().who.set_user("ann");
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"hold", "--label", "sweep=ranks"}).code, 0);
  EXPECT_EQ(Only(data().held).id(), kId);
  EXPECT_THAT(data().listed[0].states(), ElementsAre(v1::JOB_STATE_QUEUED));
  EXPECT_FALSE(data().listed[0].has_held());
  EXPECT_EQ(RunVerb({"release", "--label", "sweep=ranks"}).code, 0);
  EXPECT_THAT(data().released, ElementsAre(kId));
  EXPECT_TRUE(data().listed[1].held());
  EXPECT_EQ(data().listed[1].owner(), "ann");
}

TEST_F(QueueVerbsTest, DrainAndUndrain) {
  EXPECT_EQ(Out({"drain", "--reason", "a new disk"}),
            "mpsd starts no further job until `mpsctl undrain`, not even after "
            "a restart. A running job continues.\n");
  EXPECT_EQ(Only(data().drained).reason(), "a new disk");
  EXPECT_EQ(Out({"undrain"}), "mpsd starts jobs again.\n");
  EXPECT_EQ(data().undrained, 1);
}

using HoldTest = ClientTest;

TEST_F(HoldTest, SeveralJobsForOneReason) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("by ann: the data is late");
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  EXPECT_THAT(
      RunVerb({"hold", kId, kOtherId, "--reason", "the data is late"}),
      Prints("Job 01KAH0000000000000000000AA is held by ann: the data is late. "
             "It starts after `mpsctl release 01KAH0000000000000000000AA`.\n"
             "Job 01KAH0000000000000000000BB is held. "
             "It starts after `mpsctl release 01KAH0000000000000000000BB`.\n"));
  ASSERT_EQ(data().held.size(), 2u);
  EXPECT_EQ(data().held[0].reason(), "the data is late");
  EXPECT_EQ(data().held[1].id(), kOtherId);
}

TEST_F(HoldTest, AShortIdIsTooShortToChangeAJob) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"hold", "00AA"}).code, 2);
  EXPECT_TRUE(data().held.empty());
}

using ReleaseTest = ClientTest;

TEST_F(ReleaseTest, SaysHowManyAreAhead) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(2);
  EXPECT_THAT(RunVerb({"release", kId}),
              Prints("Job 01KAH0000000000000000000AA is released, 2 ahead of "
                     "it.\n"));
  EXPECT_THAT(data().released, ElementsAre(kId));
}

using MoveTest = ClientTest;

TEST_F(MoveTest, ToTheTop) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(0);
  EXPECT_THAT(
      RunVerb({"move", kId, "--top"}),
      Prints("Job 01KAH0000000000000000000AA has priority 0, first in the "
             "queue.\n"));
  EXPECT_TRUE(Only(data().moved).top());
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

TEST_F(QueueVerbsTest, SeveralJobsArePinnedAndUnpinned) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  EXPECT_THAT(
      Out({"pin", kId, "0000BB"}),
      HasSubstr("Job 01KAH0000000000000000000BB is pinned: nothing of it is "
                "removed until `mpsctl unpin`.\n"));
  EXPECT_TRUE(data().jobs[0].pinned() && data().jobs[1].pinned());
  EXPECT_EQ(RunVerb({"unpin", kId}).out,
            "Job 01KAH0000000000000000000AA is not pinned.\n");
  EXPECT_TRUE(data().jobs[0].pinned());
  EXPECT_FALSE(data().jobs[1].pinned());
  EXPECT_EQ(ParseJson(Out({"pin", kId, "--json"}))["pinned"], true);
}

using CancelTest = ClientTest;

TEST_F(CancelTest, SeveralJobsEachOnce) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(RunVerb({"cancel", kOtherId, "0000AA", kId}),
              Prints("Job 01KAH0000000000000000000BB is CANCELLED.\n"
                     "Job 01KAH0000000000000000000AA is CANCELLED.\n"));
}

TEST_F(CancelTest, RunningJobTakesItsTime) {
  AddJob(kId, v1::JOB_STATE_RUNNING).set_cancel_requested(true);
  EXPECT_EQ(RunVerb({"cancel", kId}).out,
            "Job 01KAH0000000000000000000AA is being cancelled; see it end "
            "with `mpsctl watch 01KAH0000000000000000000AA`.\n");
  data().jobs[0].set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(RunVerb({"cancel", kId}).out,
            "Job 01KAH0000000000000000000AA had ended before: SUCCEEDED.\n");
}

TEST_F(CancelTest, WhereOneIsUnclearNoneIsCancelled) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(RunVerb({"cancel", kId, ""}).code, 2);
  EXPECT_EQ(RunVerb({"cancel", kId, "ZZZZZZ"}).code, 4);
  EXPECT_TRUE(data().cancelled.empty());
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
  EXPECT_THAT(RunVerb({"cancel", "--label", "sweep=ranks", "--label", "a=b"}),
              Prints());
  ASSERT_EQ(data().cancelled.size(), 2u);
  const v1::ListJobsRequest& asked = data().listed[0];
  EXPECT_EQ(asked.owner(), "ann");
  EXPECT_EQ(asked.labels().at("sweep"), "ranks");
  EXPECT_EQ(asked.labels().size(), 2u);
  EXPECT_THAT(asked.states(),
              ElementsAre(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING));
  data().jobs.clear();
  EXPECT_EQ(RunVerb({"cancel", "--label", "sweep=ranks"}).code, 4);
  EXPECT_EQ(RunVerb({"cancel", "--label", "ranks"}).code, 2);
  EXPECT_EQ(RunVerb({"cancel", "--label", "a=b", kId}).code, 2);
  EXPECT_EQ(RunVerb({"cancel"}).code, 2);
  Fail("WhoAmI", StatusCode::INTERNAL, "no");
  EXPECT_NE(RunVerb({"cancel", "--label", "sweep=ranks"}).code, 0);
  EXPECT_EQ(data().cancelled.size(), 2u);
}

using RetryTest = ClientTest;

TEST_F(RetryTest, SaysThatTheJobIsQueuedAgain) {
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(2);
  EXPECT_THAT(
      RunVerb({"retry", kId}),
      Prints(
          "Job 01KAH0000000000000000000AA is QUEUED again, 2 ahead of it; it "
          "resumes from its last checkpoint.\n"));
  EXPECT_EQ(Only(data().retried).id(), kId);
  EXPECT_FALSE(data().retried[0].from_scratch());
}

TEST_F(RetryTest, ARunningJobTakesItsTime) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(
      RunVerb({"retry", "--from-scratch", kId}).out,
      "Job 01KAH0000000000000000000AA returns to the queue once its worker has "
      "stopped; it runs from scratch, without its earlier results.\n");
  EXPECT_TRUE(data().retried[0].from_scratch());
}

TEST_F(RetryTest, JsonIsAJobALine) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  const Result result = RunVerb({"--json", "retry", kId, kOtherId});
  EXPECT_THAT(result.out, HasSubstr("\"state\":\"QUEUED\""));
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
}

}  // namespace
}  // namespace mpsd::client
