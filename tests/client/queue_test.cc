// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// --- queue -------------------------------------------------------------------

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

TEST_F(QueueTest, Empty) {
  const Result result = RunVerb({"queue"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "No job runs or waits.\n");
}

TEST_F(QueueTest, ShowsTheOrderAndWhy) {
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
      "What these owners used of the device lately; half of it is forgotten in "
      "1d00h:\n"
      "OWNER  USED\n"
      "ann    2h05m\n");
}

TEST_F(QueueTest, NoNameSteersTheTerminal) {
  Add(kId, v1::JOB_STATE_QUEUED, "ev\x1b[2Je", "x\ny").set_name("a\x1b]0;b");
  const std::string out = RunVerb({"queue"}).out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
}

TEST_F(QueueTest, Json) {
  Add(kId, v1::JOB_STATE_QUEUED, "ann", "priority 0");
  data().queue.set_half_life_seconds(3600);
  const nlohmann::json json =
      nlohmann::json::parse(RunVerb({"queue", "--json"}).out);
  EXPECT_EQ(json["entries"][0]["id"], kId);
  EXPECT_EQ(json["entries"][0]["state"], "QUEUED");
  EXPECT_EQ(json["half_life_seconds"], 3600);
}

TEST_F(QueueTest, ARefusalIsTold) {
  data().fail["Queue"] = {grpc::StatusCode::INTERNAL, "no"};
  EXPECT_NE(RunVerb({"queue"}).code, 0);
}

// --- hold --------------------------------------------------------------------

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

// --- release -----------------------------------------------------------------

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

// --- move --------------------------------------------------------------------

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

// --- pin ---------------------------------------------------------------------

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

// --- cancel ------------------------------------------------------------------

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

// --- retry -------------------------------------------------------------------

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

// --- drain -------------------------------------------------------------------

class DrainTest : public ClientTest {};

TEST_F(DrainTest, WithAReason) {
  const Result result = RunVerb({"drain", "--reason", "a new disk"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out,
            "mpsd starts no further job until `mpsctl undrain`, after a "
            "restart either. A running job goes on.\n");
  ASSERT_EQ(data().drained.size(), 1u);
  EXPECT_EQ(data().drained[0].reason(), "a new disk");
}

TEST_F(DrainTest, JsonIsAnObject) {
  EXPECT_EQ(RunVerb({"drain", "--json"}).out, "{}\n");
}

TEST_F(DrainTest, WhoIsNoAdminIsNotLetIn) {
  data().fail["Drain"] = {grpc::StatusCode::PERMISSION_DENIED, "role user"};
  EXPECT_EQ(RunVerb({"drain"}).code, 8);
}

// --- undrain -----------------------------------------------------------------

class UndrainTest : public ClientTest {};

TEST_F(UndrainTest, SaysSo) {
  const Result result = RunVerb({"undrain"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "mpsd starts jobs.\n");
  EXPECT_EQ(data().undrained, 1);
}

TEST_F(UndrainTest, WhoIsNoAdminIsNotLetIn) {
  data().fail["Undrain"] = {grpc::StatusCode::PERMISSION_DENIED, "role user"};
  EXPECT_EQ(RunVerb({"undrain"}).code, 8);
}

}  // namespace
}  // namespace mpsd::client
