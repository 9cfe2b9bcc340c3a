// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class WatchTest : public ClientTest {
 protected:
  // A job that ran two steps and ended so.
  void AddEnded(v1::JobState state) {
    AddJob(kId, state);
    AddState(kId, v1::JOB_STATE_QUEUED);
    AddState(kId, v1::JOB_STATE_RUNNING);
    AddProgress(kId, 1, 2);
    AddProgress(kId, 2, 2);
    AddState(kId, state);
  }
};

TEST_F(WatchTest, UntilItSucceeds) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  const Result result = RunVerb({"watch", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out,
            "03:04:05  QUEUED\n"
            "03:04:05  RUNNING\n"
            "03:04:05  step 1/2  loss 2.5000  1,234 tok/s  ETA 1m20s  "
            "lr 5e-05  grad norm 1.25\n"
            "03:04:05  step 2/2  loss 2.5000  1,234 tok/s  "
            "lr 5e-05  grad norm 1.25\n"
            "03:04:05  SUCCEEDED\n"
            "Job 01KAH0000000000000000000AA SUCCEEDED\n"
            "Fetch it with `mpsctl download 01KAH0000000000000000000AA "
            "--output DIR`.\n");
}

TEST_F(WatchTest, ExitCodeOfTheJob) {
  AddEnded(v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunVerb({"watch", kId}).code, 1);
  data().jobs[0].set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(RunVerb({"watch", kId}).code, 5);
}

TEST_F(WatchTest, AfterASequence) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  const Result result = RunVerb({"watch", kId, "--after", "4"});
  EXPECT_EQ(result.out.substr(0, 20), "03:04:05  SUCCEEDED\n");
  EXPECT_EQ(RunVerb({"watch", kId, "--after", "5"}).code, 0);
}

TEST_F(WatchTest, JsonIsAnEventALineAndTheJob) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  std::istringstream lines(RunVerb({"watch", kId, "--json"}).out);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(nlohmann::json::parse(line));
  }
  ASSERT_EQ(objects.size(), 6u);
  EXPECT_EQ(objects[2]["progress"]["step"], 1);
  EXPECT_EQ(objects[4]["state"]["state"], "SUCCEEDED");
  EXPECT_EQ(objects[5]["state"], "SUCCEEDED");
}

TEST_F(WatchTest, ResumesAfterTheLastEventSeen) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  data().break_watch_at = 4;
  const Result result = RunVerb({"watch", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(sleeps_, 1);
  ASSERT_EQ(data().watched.size(), 2u);
  EXPECT_EQ(data().watched[1].after_sequence(), 3);
  EXPECT_EQ(result.out.find("QUEUED"), result.out.rfind("QUEUED"));
  EXPECT_NE(result.out.find("step 2/2"), std::string::npos);
  EXPECT_EQ(result.err,
            "mpsctl: lost the connection to mpsd; trying again for 2m00s\n");
}

TEST_F(WatchTest, ComesThroughARestartOfTheDaemon) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  data().break_watch_at = 3;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) daemon_->Stop();
    if (sleeps_ == 4) daemon_->Start();
  };
  EXPECT_EQ(RunVerb({"watch", kId}).code, 0);
  EXPECT_EQ(sleeps_, 4);
}

TEST_F(WatchTest, GivesUpOnADaemonThatStaysAway) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  data().break_watch_at = 3;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) daemon_->Stop();
  };
  const Result result = RunVerb({"watch", kId, "--patience", "5"});
  EXPECT_EQ(result.code, 3);
  EXPECT_GT(sleeps_, 2);
  EXPECT_NE(
      result.err.find("Resume with `mpsctl watch 01KAH0000000000000000000AA "
                      "--after 2`."),
      std::string::npos)
      << result.err;
}

TEST_F(WatchTest, AStreamThatEndsEarlyIsWatchedAgain) {
  AddEnded(v1::JOB_STATE_SUCCEEDED);
  data().jobs[0].set_state(v1::JOB_STATE_RUNNING);
  const v1::JobEvent last = data().events[kId].back();
  data().events[kId].pop_back();
  terminal_.sleep = [&](absl::Duration) {
    data().jobs[0].set_state(v1::JOB_STATE_SUCCEEDED);
    data().events[kId].push_back(last);
    daemon_->Sync();
  };
  const Result result = RunVerb({"watch", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.out.find("03:04:05  SUCCEEDED\n"), std::string::npos);
}

TEST_F(WatchTest, InterruptDetaches) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_QUEUED);
  data().on_idle = [this] { EXPECT_TRUE(interrupt_.Raise()); };
  const Result result = RunVerb({"watch", kId});
  EXPECT_EQ(result.code, 130);
  EXPECT_NE(result.err.find("stopped watching; job "
                            "01KAH0000000000000000000AA goes on.\n"),
            std::string::npos)
      << result.err;
  EXPECT_NE(result.err.find("mpsctl cancel"), std::string::npos);
}

TEST_F(WatchTest, OtherErrorsEndIt) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_QUEUED);
  data().fail["Watch"] = grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  EXPECT_EQ(RunVerb({"watch", kId}).code, 6);
}

}  // namespace
}  // namespace mpsd::client
