// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// A clock that the verb's own pauses move.
class MovedClock final : public base::Clock {
 public:
  absl::Time Now() const override { return kNow; }
  absl::Duration Monotonic() const override { return now; }
  absl::Duration now;
};

class WaitTest : public ClientTest {
 protected:
  WaitTest() {
    terminal_.clock = &moved_;
    terminal_.sleep = [this](absl::Duration pause) {
      moved_.now += pause;
      pauses_.push_back(pause);
      if (on_pause_) on_pause_();
    };
  }

  MovedClock moved_;
  std::vector<absl::Duration> pauses_;
  std::function<void()> on_pause_;
};

TEST_F(WaitTest, UntilAllHaveSucceeded) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
  on_pause_ = [&] {
    if (pauses_.size() == 3) JobOf(kId).set_state(v1::JOB_STATE_SUCCEEDED);
  };
  EXPECT_THAT(RunVerb({"wait", kId, kOtherId}),
              Prints("Job 01KAH0000000000000000000BB SUCCEEDED\n"
                     "Job 01KAH0000000000000000000AA SUCCEEDED\n"));
  EXPECT_EQ(pauses_.size(), 3u);
}

TEST_F(WaitTest, OneThatFailedGivesTheCode) {
  AddJob(kId, v1::JOB_STATE_FAILED).set_message("out of\x1b memory");
  AddJob(kOtherId, v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(
      RunVerb({"wait", kId, kOtherId}),
      Ends(1, AllOf(Not(HasSubstr("\x1b")), HasSubstr("AA FAILED: out of"))));
  EXPECT_EQ(RunVerb({"wait", kOtherId, kId}).code, 1);
  EXPECT_EQ(RunVerb({"wait", kOtherId}).code, 5);
}

TEST_F(WaitTest, AnyIsTheFirstToEnd) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  on_pause_ = [&] {
    if (pauses_.size() == 2) JobOf(kOtherId).set_state(v1::JOB_STATE_FAILED);
  };
  EXPECT_THAT(RunVerb({"wait", "--any", kId, kOtherId}),
              Ends(1, "Job 01KAH0000000000000000000BB FAILED\n"));
}

TEST_F(WaitTest, TheTimeIsUp) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(RunVerb({"wait", kId, kOtherId, "--timeout", "2.5"}),
              Fails(7, AllOf(HasSubstr("1 of the jobs had not ended: "),
                             HasSubstr(kId))));
  EXPECT_EQ(moved_.now, absl::Seconds(2.5));
  EXPECT_EQ(RunVerb({"wait", kId, "--timeout", "0"}).code, 7);
  EXPECT_EQ(RunVerb({"wait", kOtherId, "--timeout", "0"}).code, 0);
  EXPECT_EQ(RunVerb({"wait", kOtherId, "--timeout", "-1"}).code, 2);
  EXPECT_EQ(RunVerb({"wait"}).code, 2);
}

TEST_F(WaitTest, AHeldJobIsToldOnce) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_held(true);
  job.set_hold("by bob: later");
  const Result result = RunVerb({"wait", kId, "--timeout", "3"});
  EXPECT_EQ(result.code, 7);
  EXPECT_THAT(result.err,
              HasSubstr("job 01KAH0000000000000000000AA is held (by bob: "
                        "later): it ends only after `mpsctl release "
                        "01KAH0000000000000000000AA`\n"));
  EXPECT_EQ(result.err.find("is held"), result.err.rfind("is held"));
}

TEST_F(WaitTest, ADaemonThatRestartsIsWaitedFor) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  on_pause_ = [&] {
    if (pauses_.size() == 1) {
      Fail("Get", StatusCode::UNAVAILABLE, "stopping");
    } else {
      data().fail.clear();
      JobOf(kId).set_state(v1::JOB_STATE_SUCCEEDED);
    }
  };
  EXPECT_THAT(RunVerb({"wait", kId}),
              Ends(0, testing::_, HasSubstr("lost the connection")));
}

TEST_F(WaitTest, ADaemonThatStaysAwayEndsIt) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  on_pause_ = [&] { Fail("Get", StatusCode::UNAVAILABLE, "stopping"); };
  // It answers, and cannot do it now.
  EXPECT_EQ(RunVerb({"wait", kId, "--patience", "5"}).code, 7);
}

TEST_F(WaitTest, AJobThatIsDeletedMeanwhileIsNotFound) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  on_pause_ = [&] { data().jobs.clear(); };
  EXPECT_EQ(RunVerb({"wait", kId}).code, 4);
}

TEST_F(WaitTest, JsonIsAJobALine) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddJob(kOtherId, v1::JOB_STATE_SUCCEEDED);
  const Result result = RunVerb({"wait", kId, kOtherId, "--json"});
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 2);
  EXPECT_THAT(result.out, HasSubstr("\"state\":\"SUCCEEDED\""));
}

}  // namespace
}  // namespace mpsd::client
