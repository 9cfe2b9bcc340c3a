// SPDX-License-Identifier: Apache-2.0
#include "client/jobs.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// Through `cancel`, which prints the id it found and changes the job.
class JobIdTest : public ClientTest {
 protected:
  JobIdTest() {
    AddJob(kId, v1::JOB_STATE_CANCELLED);
    AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  }
};

TEST_F(JobIdTest, AWholeIdIsNotLookedUpAndAUniqueEndIs) {
  EXPECT_EQ(RunVerb({"cancel", kId}).code, 0);
  EXPECT_TRUE(data().found.empty());
  EXPECT_TRUE(data().listed.empty());
  for (const char* text : {"0000AA", "0000aa", "00000000AA"}) {
    EXPECT_EQ(RunVerb({"cancel", text}).out,
              "Job 01KAH0000000000000000000AA is CANCELLED.\n");
  }
  EXPECT_EQ(data().found.size(), 3u);
  EXPECT_EQ(data().found[1].id_part(), "0000aa");
  EXPECT_TRUE(data().listed.empty());
}

TEST_F(JobIdTest, NothingOrTooLittleIsNoJob) {
  data().jobs.pop_back();  // one is left, which every text would fit
  for (const char* verb : {"cancel", "retry", "show", "logs", "watch"}) {
    EXPECT_THAT(RunVerb({verb, ""}),
                Fails(2,
                      "mpsctl: the job's id is empty\n"
                      "List the jobs with `mpsctl list`.\n"))
        << verb;
  }
  EXPECT_TRUE(data().cancelled.empty());
  EXPECT_THAT(RunVerb({"cancel", "0BB"}),
              Fails(2,
                    "mpsctl: '0BB' is too short: give at least 4 characters of "
                    "the job's id, or its name\n"
                    "List the jobs with `mpsctl list`.\n"));
  EXPECT_EQ(RunVerb({"cancel", "00BB"}).code, 0);
  EXPECT_EQ(data().cancelled.size(), 1u);
}

TEST_F(JobIdTest, WhatNoJobHasIsNotFound) {
  for (const char* text : {"../etc/passwd", "0000%B", "\x1b[2J0000BB",
                           "01KAH0000000000000000000BBB", "Moods", "ZZZZZZ"}) {
    EXPECT_THAT(RunVerb({"cancel", text}),
                Fails(4, AllOf(HasSubstr("mpsctl: no job with id or name '"),
                               HasSubstr("List the jobs with `mpsctl list`."),
                               Not(HasSubstr("\x1b")))));
  }
}

TEST_F(JobIdTest, ANameMeansTheOneJobThatHasIt) {
  AddJob("01KAH0000000000000000000CC", v1::JOB_STATE_CANCELLED)
      .set_name("ab c");
  for (const char* verb : {"cancel", "retry", "show", "hold"}) {
    EXPECT_THAT(RunVerb({verb, "ab c"}), Prints(HasSubstr("000CC"))) << verb;
  }
  EXPECT_THAT(RunVerb({"cancel", "moods"}),
              Fails(2, HasSubstr("'moods' is ambiguous: 2 jobs match\n")));
  EXPECT_EQ(data().cancelled.size(), 1u);
  // The caller's own comes before those of others.
  data().who.set_user("ann");
  data().jobs[2].set_owner("bob");
  EXPECT_THAT(RunVerb({"hold", "moods"}),
              Prints(HasSubstr(data().jobs[1].id())));
}

TEST_F(JobIdTest, ADeletedJobHasItsRecord) {
  data().past.push_back(PastJob("01KAH0000000000000000000DD"));
  data().past[0].set_name("gone");
  EXPECT_THAT(RunVerb({"cancel", "gone"}),
              Fails(4,
                    "mpsctl: job 'gone' was deleted\nIts record: `mpsctl "
                    "show 01KAH0000000000000000000DD`.\n"));
}

TEST_F(JobIdTest, TheBeginningOfAShownIdIsEnough) {
  AddJob("01KAH0000000000000CAFE00CC", v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(RunVerb({"cancel", "cafe"}), Prints(HasSubstr("CAFE00CC")));
  EXPECT_THAT(RunVerb({"cancel", "00CAFE"}), Fails(4));
}

TEST_F(JobIdTest, LastAndRunning) {
  data().who.set_user("ann");
  EXPECT_THAT(RunVerb({"cancel", "@last"}), Prints(HasSubstr(kOtherId)));
  EXPECT_EQ(data().listed[0].owner(), "ann");
  data().filters_states = true;
  EXPECT_THAT(RunVerb({"cancel", "@running"}),
              Fails(4, HasSubstr("no job is running")));
  AddJob("01KAH0000000000000000000CC", v1::JOB_STATE_RUNNING);
  EXPECT_THAT(RunVerb({"cancel", "@running"}), Prints(HasSubstr("000CC")));
  AddJob("01KAH0000000000000000000DD", v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"cancel", "@running"}).code, 2);
  Fail("WhoAmI", StatusCode::INTERNAL, "no");
  EXPECT_THAT(RunVerb({"cancel", "@last"}), Fails(6));
}

TEST_F(JobIdTest, AmbiguousBeginningListsTheJobs) {
  EXPECT_THAT(RunVerb({"cancel", "01KAH0"}),
              Fails(2,
                    "mpsctl: '01KAH0' is ambiguous: 2 jobs match\n"
                    "Give the id of one of these:\n"
                    "  000000BB  CANCELLED  moods  3m00s ago, ann's\n"
                    "  000000AA  CANCELLED  moods  3m00s ago, ann's\n"));
  AddJob("01KAH0000000000000000000CC", v1::JOB_STATE_QUEUED);
  data().most_found = 2;
  EXPECT_THAT(RunVerb({"cancel", "01KAH0"}).err,
              AllOf(HasSubstr("is ambiguous: more than 2 jobs match\n"),
                    EndsWith("\n  …\n")));
}

TEST_F(JobIdTest, AFailedSearchIsReportedAsSuch) {
  Fail("FindJobs", StatusCode::INTERNAL, "disk on fire");
  EXPECT_THAT(RunVerb({"cancel", "0000AA"}),
              Fails(6, HasSubstr("disk on fire")));
  EXPECT_TRUE(data().listed.empty());
}

using JobLabels = google::protobuf::Map<std::string, std::string>;

TEST(JobLabelsTest, ErrorsNameTheLabel) {
  JobLabels job_labels;
  EXPECT_EQ(AddJobLabels({"team"}, &job_labels).message(),
            "--label 'team': expected NAME=VALUE");
  EXPECT_EQ(AddJobLabels({"=x"}, &job_labels).message(),
            "--label '=x': expected NAME=VALUE");
  EXPECT_EQ(AddJobLabels({"a=1", "a=2"}, &job_labels).message(),
            "--label a is given twice, as '1' and '2'");
}

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
      "PLACE  ID        OWNER  PRIORITY  WAITS  NAME   WHY\n"
      "runs   000000AA  ann    0         -      moods  has the device\n"
      "1      000000BB  bob    5         2m05s  moods  priority 5\n"
      "2      000000CC  -      0         2m05s  moods  "
      "held: the model is away; not before 2026-01-02 03:04:35; priority 0\n"
      "and 1,200 more\n"
      "\n"
      "These owners' recent use of the device; it halves every 1d00h:\n"
      "OWNER  USED\n"
      "ann    2h05m\n");
}

TEST_F(QueueTest, WhatAllSayIsSaidOnceAndAPauseIsShown) {
  const std::string common = "priority 0, ann has used the device 4m lately";
  Add(kOtherId, v1::JOB_STATE_QUEUED, "ann", common);
  Add("01KAH0000000000000000000CC", v1::JOB_STATE_QUEUED, "ann", common)
      .set_hold("by ann");
  data().queue.mutable_pause()->add_reasons(v1::PAUSE_REASON_QUIET_HOURS);
  EXPECT_THAT(RunVerb({"queue"}).out,
              AllOf(HasSubstr("2m05s  moods  \n"),
                    HasSubstr("2m05s  moods  held: by ann\n"),
                    EndsWith("\nAll that wait: " + common +
                             "\nPaused: quiet hours\n")));
  Add(kId, v1::JOB_STATE_RUNNING, "ann", "has the device");
  data().queue.mutable_entries()->SwapElements(0, 2);
  data().queue.mutable_pause()->set_held(true);
  EXPECT_THAT(
      RunVerb({"queue"}).out,
      AllOf(HasSubstr("\nPAUSED  000000AA"), HasSubstr("moods  quiet hours\n"),
            EndsWith("All that wait: " + common + "\n")));
}

TEST_F(QueueTest, NoNameSteersTheTerminal) {
  Add(kId, v1::JOB_STATE_QUEUED, "ev\x1b[2Je", "x\ny").set_name("a\x1b]0;b");
  const std::string out = RunVerb({"queue"}).out;
  EXPECT_EQ(out.find('\x1b'), std::string::npos) << out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 2) << out;
  AddJob(kId, v1::JOB_STATE_QUEUED).set_hold("by e\x1b[2J");
  EXPECT_THAT(Out({"hold", kId}), Not(HasSubstr("\x1b")));
}

// The verbs that change jobs, or whether jobs start.
using QueueVerbsTest = ClientTest;

TEST_F(QueueVerbsTest, RefusalsAreReported) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  const struct {
    Args args;
    const char* method;
    StatusCode status;
    int code;
  } cases[] = {
      {{"queue"}, "Queue", StatusCode::INTERNAL, 6},
      {{"release", kId}, "Release", StatusCode::FAILED_PRECONDITION, 2},
      {{"set", kId, "--top"}, "Move", StatusCode::INVALID_ARGUMENT, 2},
      {{"retry", kId}, "Retry", StatusCode::FAILED_PRECONDITION, 2},
      {{"admin", "drain"}, "Drain", StatusCode::PERMISSION_DENIED, 8},
      {{"admin", "undrain"}, "Undrain", StatusCode::PERMISSION_DENIED, 8}};
  for (const auto& one : cases) {
    Fail(one.method, one.status, "for a reason");
    EXPECT_THAT(RunVerb(one.args), Fails(one.code, HasSubstr("for a reason")));
  }
}

TEST_F(QueueVerbsTest, OneThatFailsDoesNotKeepTheOthers) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  for (Args args : {Args{"hold"},
                    {"release"},
                    {"cancel"},
                    {"retry"},
                    {"set", "--pin"},
                    {"set", "--unpin"},
                    {"delete"}}) {
    for (const char* id : {kId, "01KAH0000000000000000000CC", kOtherId}) {
      args.emplace_back(id);
    }
    EXPECT_THAT(RunVerb(args),
                Ends(4, AllOf(HasSubstr(kId), HasSubstr(kOtherId))))
        << args[0];
  }
  ASSERT_EQ(data().retried.size(), 2u);
  EXPECT_EQ(data().retried[0].id(), kId);
  EXPECT_EQ(data().retried[1].id(), kOtherId);
}

TEST_F(QueueVerbsTest, JsonIsTheJob) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_held(true);
  for (const char* verb : {"hold", "release", "cancel"}) {
    const auto json = ParseJson(Out({verb, kId, "--json"}));
    EXPECT_EQ(json["id"], kId) << verb;
    EXPECT_EQ(json["state"], "QUEUED") << verb;
    EXPECT_EQ(json["held"], true) << verb;
  }
  EXPECT_EQ(Out({"admin", "drain", "--json"}), "{}\n");
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

TEST_F(QueueVerbsTest, TheFilterOfListAndDeleteMeansYourJobs) {
  data().who.set_user("ann");
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"cancel", "--model", "tiny", "--tag", "old"}).code, 0);
  EXPECT_EQ(RunVerb({"cancel", "--state", "queued", "--owner", "bob"}).code, 0);
  const auto& mine = data().listed[0];
  EXPECT_EQ(mine.owner(), "ann");
  EXPECT_EQ(mine.model(), "tiny");
  EXPECT_THAT(mine.tags(), ElementsAre("old"));
  EXPECT_THAT(mine.states(),
              ElementsAre(v1::JOB_STATE_QUEUED, v1::JOB_STATE_RUNNING));
  EXPECT_EQ(data().listed[1].owner(), "bob");
  EXPECT_THAT(data().listed[1].states(), ElementsAre(v1::JOB_STATE_QUEUED));
  EXPECT_EQ(RunVerb({"cancel"}).code, 2);
  EXPECT_EQ(RunVerb({"cancel", kId, "--held"}).code, 2);
}

using SetTest = ClientTest;

TEST_F(SetTest, APriority) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_priority(-3);
  job.set_queue_position(4);
  job.set_held(true);
  EXPECT_EQ(RunVerb({"set", kId, "--priority", "-3"}).out,
            "Job 01KAH0000000000000000000AA has priority -3, 4 ahead of it; "
            "it is held.\n");
  EXPECT_EQ(data().moved[0].priority(), -3);
}

TEST_F(SetTest, WantsSomethingToSetAndNoTwoThatExclude) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_THAT(RunVerb({"set", kId}), Fails(2, HasSubstr("name what to set")));
  for (const Args& args : {Args{"--top", "--bottom"},
                           {"--top", "--priority", "1"},
                           {"--priority", "high"},
                           {"--hold", "--release"},
                           {"--pin", "--unpin"}}) {
    Args all = {"set", kId};
    all.insert(all.end(), args.begin(), args.end());
    EXPECT_EQ(RunVerb(all).code, 2) << args[0];
  }
  EXPECT_TRUE(data().moved.empty());
}

TEST_F(SetTest, AllChangesEvenAfterOneThatFails) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(RunVerb({"set", kId, kOtherId, "--top", "--hold"}).code, 0);
  ASSERT_EQ(data().moved.size(), 2u);
  EXPECT_EQ(data().moved[1].id(), kId) << "the first named is the first";
  EXPECT_EQ(data().held.size(), 2u);
  Fail("Move", StatusCode::FAILED_PRECONDITION, "it has ended");
  EXPECT_THAT(RunVerb({"set", kId, "--bottom", "--pin"}),
              Ends(2, HasSubstr("is pinned"), HasSubstr("it has ended")));
}

TEST_F(SetTest, SeveralJobsArePinnedAndUnpinned) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  EXPECT_THAT(
      Out({"set", kId, "0000BB", "--pin"}),
      HasSubstr("Job 01KAH0000000000000000000BB is pinned: nothing of it is "
                "removed until `mpsctl set ID --unpin`.\n"));
  EXPECT_TRUE(data().jobs[0].pinned() && data().jobs[1].pinned());
  EXPECT_EQ(RunVerb({"set", kId, "--unpin"}).out,
            "Job 01KAH0000000000000000000AA is not pinned.\n");
  EXPECT_TRUE(data().jobs[0].pinned());
  EXPECT_FALSE(data().jobs[1].pinned());
  EXPECT_EQ(ParseJson(Out({"set", kId, "--pin", "--json"}))["pinned"], true);
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
            "Job 01KAH0000000000000000000AA: cancelling; saving a checkpoint. "
            "`mpsctl cancel --now 01KAH0000000000000000000AA` ends it at "
            "once.\n");
  EXPECT_EQ(RunVerb({"cancel", "--now", kId}).out,
            "Job 01KAH0000000000000000000AA is ended at once.\n");
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

TEST_F(RetryTest, SaysWhereTheJobStarts) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_queue_position(2);
  const std::string again =
      "Job 01KAH0000000000000000000AA is QUEUED again, 2 ahead of it; ";
  EXPECT_THAT(RunVerb({"retry", kId}),
              Prints(again + "resumes from its last checkpoint.\n"));
  EXPECT_EQ(Only(data().retried).id(), kId);
  EXPECT_FALSE(data().retried[0].from_scratch());
  job.set_checkpoint_step(0);
  EXPECT_EQ(RunVerb({"retry", kId}).out,
            again + "starts from step 0: it has no checkpoint.\n");
  job.set_checkpoint_step(12);
  job.mutable_progress()->set_total_steps(20);
  EXPECT_EQ(RunVerb({"retry", kId}).out,
            again + "resumes from step 12 of 20.\n");
}

TEST_F(RetryTest, ARunningJobTakesItsTime) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"retry", "--from-scratch", kId}).out,
            "Job 01KAH0000000000000000000AA: requeue requested; starts from "
            "step 0, without its earlier results.\n");
  EXPECT_TRUE(data().retried[0].from_scratch());
  EXPECT_EQ(RunVerb({"retry", kId}).out,
            "Job 01KAH0000000000000000000AA: requeue requested; saving a "
            "checkpoint.\n");
}

class AuditTest : public ClientTest {
 protected:
  v1::AuditEntry& Add(const std::string& user, const std::string& method) {
    v1::AuditEntry entry;
    entry.set_sequence(static_cast<int64_t>(data().audit.size()) + 1);
    SetTime(entry.mutable_time(), absl::ZeroDuration());
    entry.set_user(user);
    entry.set_role(v1::ROLE_USER);
    entry.set_way(v1::WAY_TOKEN);
    entry.set_credential("token 0a1b2c3d4e5f");
    entry.set_origin("192.168.1.7");
    entry.set_method(method);
    entry.set_result("OK");
    return *data().audit.insert(data().audit.begin(), entry);
  }
  const v1::ListAuditRequest& asked() { return data().audited.at(0); }
};

TEST_F(AuditTest, NewestFirstWithWhoHowWhenceWhatAndTheResult) {
  EXPECT_EQ(Out({"admin", "audit"}), "No audit entries.\n");
  Add("ada", "JobService.Submit").set_job_id(kId);
  data().audit[0].set_detail("inputs: 1");
  Add("bob", "JobService.Cancel").set_job_id(kId);
  data().audit[0].set_result("PERMISSION_DENIED");
  data().audit[0].set_message("the job is ada's");
  EXPECT_EQ(
      RunVerb({"admin", "audit"}).out,
      "TIME                 USER  BY                  FROM         WHAT    "
      "JOB                         RESULT             \n"
      "2026-01-02 03:04:05  bob   token 0a1b2c3d4e5f  192.168.1.7  Cancel  "
      "01KAH0000000000000000000AA  PERMISSION_DENIED  the job is ada's\n"
      "2026-01-02 03:04:05  ada   token 0a1b2c3d4e5f  192.168.1.7  Submit  "
      "01KAH0000000000000000000AA  OK                 inputs: 1\n");
}

TEST_F(AuditTest, AStrangerAndACallWithoutAnAnswerHaveDashesAndAMark) {
  v1::AuditEntry& entry = Add("", "JobService.Delete");
  entry.clear_credential();
  entry.clear_origin();
  entry.clear_result();
  EXPECT_THAT(RunVerb({"admin", "audit"}).out,
              HasSubstr("-     -   -     Delete  -    ?"));
}

TEST_F(AuditTest, FiltersAreSent) {
  EXPECT_EQ(RunVerb({"admin", "audit", "--user", "ada", "--job", kId,
                     "--method", "Cancel", "--refused", "--since", "2h",
                     "--until", "2026-01-02 03:00"})
                .code,
            0);
  EXPECT_EQ(asked().user(), "ada");
  EXPECT_EQ(asked().job_id(), kId);
  EXPECT_EQ(asked().method(), "Cancel");
  EXPECT_TRUE(asked().refused());
  EXPECT_EQ(asked().since().seconds(),
            absl::ToUnixSeconds(kNow - absl::Hours(2)));
  EXPECT_EQ(asked().until().seconds(),
            absl::ToUnixSeconds(kNow - absl::Minutes(4) - absl::Seconds(5)));
}

TEST_F(AuditTest, AShortIdIsThatOfAJobAndAWholeOneOfAnyJob) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  EXPECT_EQ(RunVerb({"admin", "audit", "--job", "00AA"}).code, 0);
  EXPECT_EQ(asked().job_id(), kId);
  EXPECT_EQ(
      RunVerb({"admin", "audit", "--job", "01kah0000000000000000000cc"}).code,
      0);
  EXPECT_EQ(data().audited.at(1).job_id(), "01KAH0000000000000000000CC");
}

TEST_F(AuditTest, ATimeThatIsNoneIsRefused) {
  for (const char* time : {"yesterday", "-3d", "3", "3y", "d", "2026-13-01"}) {
    EXPECT_THAT(RunVerb({"admin", "audit", "--since", time}),
                Fails(2, HasSubstr("--since")))
        << time;
    EXPECT_TRUE(data().audited.empty()) << time;
  }
}

TEST_F(AuditTest, ContinuesPageByPageUpToItsLimit) {
  data().page_size = 2;
  for (int i = 0; i < 9; ++i) Add("ada", "JobService.Cancel");
  const Result result = RunVerb({"admin", "audit", "--limit", "5", "--json"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 5);
  EXPECT_THAT(data().audited, SizeIs(3));
}

TEST_F(AuditTest, HostileTextStaysText) {
  Add("ada", "JobService.Submit").set_detail("\x1b[2J");
  EXPECT_THAT(RunVerb({"admin", "audit"}).out, Not(HasSubstr("\x1b")));
  Fail("ListAudit", StatusCode::PERMISSION_DENIED, "role admin");
  EXPECT_THAT(RunVerb({"admin", "audit"}),
              Fails(testing::Ne(0), HasSubstr("role admin")));
}

class DeleteTest : public ClientTest {
 protected:
  DeleteTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddJob(kOtherId, v1::JOB_STATE_FAILED);
  }
};

TEST_F(DeleteTest, SeveralJobs) {
  EXPECT_THAT(
      RunVerb({"delete", kId, "0000BB"}),
      Prints("Deleted job 01KAH0000000000000000000AA, freed 1.4 MiB.\n"
             "Deleted job 01KAH0000000000000000000BB, freed 1.4 MiB.\n"));
  EXPECT_TRUE(data().jobs.empty());
}

TEST_F(DeleteTest, NeitherNothingNorALittleIsAJob) {
  const auto json = ParseJson(Out({"delete", kId, "--json"}));
  EXPECT_EQ(json["job_id"], kId);
  EXPECT_EQ(json["freed_bytes"], 1'500'000);
  // One is left, which every text would fit.
  for (const char* text : {"", "BB", "0BB"}) {
    EXPECT_EQ(RunVerb({"delete", text}).code, 2) << text;
  }
  EXPECT_EQ(RunVerb({"delete", kOtherId, ""}).code, 2);
  EXPECT_EQ(data().jobs.size(), 1u);
}

TEST_F(DeleteTest, WhatTheDaemonRefuses) {
  Fail("Delete", StatusCode::FAILED_PRECONDITION,
       "job X is RUNNING: cancel it");
  EXPECT_THAT(RunVerb({"delete", kId}),
              Fails(2, HasSubstr("job X is RUNNING: cancel it")));
  Fail("Delete", StatusCode::UNIMPLEMENTED, "");
  EXPECT_THAT(RunVerb({"delete", kId}),
              Fails(6, HasSubstr("differ in version")));
}

TEST_F(DeleteTest, AFilterAsksFirstAndDeletesWhatItFound) {
  data().who.set_user("ann");
  answers_ = {"yes"};
  const std::string out = Out({"delete", "--state", "failed", "--older-than",
                               "30d", "--label", "team=a"});
  EXPECT_EQ(asked_,
            "Delete 2 jobs with logs, checkpoints and results, "
            "freeing about 2.9 MiB? (yes/no) \n");
  EXPECT_EQ(out, "Deleted 2 jobs, freed 2.9 MiB.\n");
  EXPECT_TRUE(data().jobs.empty());
  const v1::ListJobsRequest& filter = data().listed.back();
  EXPECT_THAT(filter.states(), ElementsAre(v1::JOB_STATE_FAILED));
  EXPECT_EQ(filter.end_time_to().seconds(),
            absl::ToUnixSeconds(kNow - absl::Hours(30 * 24)));
  EXPECT_EQ(filter.labels().at("team"), "a");
  EXPECT_EQ(filter.owner(), "ann");
}

TEST_F(DeleteTest, ANoDeletesNothing) {
  for (const char* answer : {"no", "", "nothing"}) {
    answers_ = {answer};
    EXPECT_EQ(RunVerb({"delete", "--all"}).err, "Nothing was deleted.\n");
  }
  // Nor does a script without a terminal.
  answers_.clear();
  EXPECT_THAT(RunVerb({"delete", "--all"}),
              Fails(2, HasSubstr("--yes deletes them without asking")));
  EXPECT_EQ(data().jobs.size(), 2u);
}

TEST_F(DeleteTest, AllMeansThoseThatHaveEndedAnAdminsEveryones) {
  data().who.set_role(v1::ROLE_ADMIN);
  data().jobs[0].set_pinned(true);
  EXPECT_THAT(RunVerb({"delete", "--all", "--yes"}),
              Prints("Job 01KAH0000000000000000000BB stays: it is "
                     "pinned\\x1b[2J\nDeleted 1 job, freed 1.4 MiB.\n"));
  EXPECT_EQ(asked_, "");
  EXPECT_EQ(data().listed.back().states_size(), 3);
  EXPECT_EQ(data().listed.back().owner(), "");
}

TEST_F(DeleteTest, ADryRunReportsAndDeletesNothing) {
  data().jobs[0].set_pinned(true);
  EXPECT_THAT(RunVerb({"delete", "--owner", "ann", "--dry-run"}),
              Prints(std::string(kId) +
                     "\nJob 01KAH0000000000000000000BB stays: it is "
                     "pinned\\x1b[2J\n1 job would be deleted, freeing about "
                     "1.4 MiB.\n"));
  const auto object =
      ParseJson(Out({"delete", kId, kOtherId, "--dry-run", "--json"}));
  EXPECT_EQ(object["matched"], 1);
  EXPECT_EQ(object["deleted"][0], kId);
  EXPECT_EQ(object["kept"][0]["id"], kOtherId);
  EXPECT_EQ(data().jobs.size(), 2u);
}

TEST_F(DeleteTest, IdsOrAFilter) {
  for (const Args& args :
       {Args{"delete"},
        {"delete", kId, "--all"},
        {"delete", "--yes"},
        {"delete", "--older-than", "soon"},
        {"delete", "--older-than", "3d", "--ended-until", "3d"}}) {
    EXPECT_EQ(RunVerb(args).code, 2) << args.back();
  }
  EXPECT_EQ(data().jobs.size(), 2u);
  data().jobs.clear();
  EXPECT_THAT(RunVerb({"delete", "--text", "x"}), Prints("No such jobs.\n"));
}

class GcTest : public ClientTest {
 protected:
  v1::CollectionItem& Add(v1::CollectionItem::Kind kind, const std::string& id,
                          int64_t bytes, const std::string& why) {
    v1::CollectionItem& item = *data().plan.add_items();
    item.set_kind(kind);
    item.set_id(id);
    item.set_size_bytes(bytes);
    item.set_why(why);
    return item;
  }
};

TEST_F(GcTest, ADryRunShowsWhatWouldGoAndWhy) {
  Add(v1::CollectionItem::KIND_BLOB, std::string(64, 'a'), 5'000'000,
      "an upload that no job needs");
  v1::CollectionItem& job = Add(v1::CollectionItem::KIND_JOB, kId, 7'000'000,
                                "it ended 45 days ago, keep-days is 30");
  job.set_owner("ann");
  job.set_name("moods\x1b[2J");
  data().plan.set_more(1200);
  data().plan.set_freed_bytes(3'000'000'000);
  data().plan.set_used_bytes(90'000'000'000);
  data().plan.set_budget_bytes(80'000'000'000);
  data().plan.set_short_of("pinned jobs have 5 bytes");
  EXPECT_THAT(
      RunVerb({"admin", "gc", "--dry-run"}),
      Prints(
          "WHAT    ID                          SIZE     OWNER  NAME          "
          "WHY\n"
          "upload  aaaaaaaaaaaa…               4.8 MiB  -      -             "
          "an "
          "upload that no job needs\n"
          "job     01KAH0000000000000000000AA  6.7 MiB  ann    moods\\x1b[2J  "
          "it ended 45 days ago, keep-days is 30\n"
          "… and 1,200 more\n"
          "1,202 would be removed, about 2.79 GiB freed.\n"
          "The state folder has 83.82 GiB of a budget of 74.51 GiB.\n"
          "Short of space: pinned jobs have 5 bytes.\n"));
  EXPECT_EQ(data().collections, 0);
  data().plan.Clear();
  data().plan.set_fresh(5);
  SetTime(data().plan.mutable_fresh_until(), -absl::Minutes(42));
  EXPECT_THAT(Out({"admin", "gc", "--dry-run"}),
              StartsWith("Nothing would be removed.\n5 jobs beyond the rules "
                         "ended too recently; the first may be removed at "
                         "2026-01-02 03:46:05.\n"));
}

TEST_F(GcTest, RemovesAndSaysWhatStays) {
  data().collected.set_removed(3);
  data().collected.set_freed_bytes(2'000'000);
  data().collected.add_failed("job X: it is pinned");
  EXPECT_THAT(
      RunVerb({"admin", "gc"}),
      Prints("Stays: job X: it is pinned\n3 removed, 1.9 MiB freed.\n"));
  EXPECT_EQ(data().collections, 1);
  data().plan.set_freed_bytes(7);
  EXPECT_THAT(RunVerb({"admin", "gc", "--dry-run", "--json"}).out,
              HasSubstr("\"freed_bytes\":7"));
  data().collected.set_removed(3);
  EXPECT_THAT(RunVerb({"admin", "gc", "--json"}).out,
              HasSubstr("\"removed\":3"));
  Fail("Collect", StatusCode::PERMISSION_DENIED, "needs the role admin");
  EXPECT_THAT(RunVerb({"admin", "gc"}),
              Fails(testing::Ne(0), HasSubstr("needs the role admin")));
}

}  // namespace
}  // namespace mpsd::client
