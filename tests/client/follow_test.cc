// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class FollowTest : public ClientTest {
 protected:
  FollowTest() { data().filters_states = true; }

  // A job with two steps, which its row has.
  void AddRun(const std::string& id, v1::JobState state) {
    v1::Job& job = AddJob(id, state);
    AddState(id, v1::JOB_STATE_RUNNING);
    AddProgress(id, 1, 9);
    AddProgress(id, 2, 9);
    *job.mutable_progress() = data().events[id].back().progress();
  }

  v1::Job& JobOf(const std::string& id) {
    for (v1::Job& job : data().jobs) {
      if (job.id() == id) return job;
    }
    return data().jobs.front();
  }

  static int Count(const std::string& text, const std::string& part) {
    int count = 0;
    for (size_t at = text.find(part); at != std::string::npos;
         at = text.find(part, at + 1)) {
      ++count;
    }
    return count;
  }
};

TEST_F(FollowTest, LinesOfOneJobAndThenOfTheNext) {
  AddRun(kId, v1::JOB_STATE_RUNNING);
  AddRun(kOtherId, v1::JOB_STATE_QUEUED);
  terminal_.sleep = [this](absl::Duration) {
    // A stream has ended, or no job is left to wait for.
    v1::Job& job = JobOf(data().watched.back().id());
    if (job.state() == v1::JOB_STATE_RUNNING) {
      job.set_state(v1::JOB_STATE_SUCCEEDED);
      if (job.id() == kId) JobOf(kOtherId).set_state(v1::JOB_STATE_RUNNING);
    } else if (data().listed.size() == 3) {
      interrupt_.Raise();
    }
    daemon_->Sync();
  };
  const Result result = RunVerb({"watch"});
  EXPECT_EQ(result.code, 130);
  for (const char* id : {kId, kOtherId}) {
    EXPECT_THAT(result.out,
                HasSubstr(std::string("Job ") + id +
                          " moods\n03:04:05  RUNNING\n"
                          "03:04:05  step 1/9  loss 2.5000  1,234 tok/s  "));
    EXPECT_THAT(result.out,
                HasSubstr(std::string("Job ") + id + " SUCCEEDED\n"));
  }
  EXPECT_THAT(result.out, Not(HasSubstr("\x1b")));
  EXPECT_THAT(result.err, EndsWith("No job runs; waiting for one.\n"
                                   "mpsctl: stopped watching; jobs go on.\n"));
  EXPECT_TRUE(data().cancelled.empty());
}

TEST_F(FollowTest, AJobThatGoesBackToTheQueueIsLeft) {
  AddRun(kId, v1::JOB_STATE_QUEUED);
  AddState(kId, v1::JOB_STATE_QUEUED);
  data().on_idle = [] {};  // the stream stays open
  Connection connection(SocketAddress());
  std::ostringstream out, err;
  int64_t last = 0;
  EXPECT_EQ(Watch(TestConsole(connection, out, err),
                  {kId, 0, absl::Minutes(2), &last}),
            ExitCode::kOk);
  EXPECT_EQ(last, 4);
  EXPECT_EQ(err.str(), "");
}

TEST_F(FollowTest, OneScreenThatChangesNoMode) {
  AddRun(kId, v1::JOB_STATE_RUNNING);
  data().on_idle = [] {};
  terminal_.is_tty = true;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) terminal_.columns = [] { return 40; };  // a resize
    if (sleeps_ == 2) interrupt_.Raise();
  };
  const Result result = RunVerb({"watch"});
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.err, "mpsctl: stopped watching; jobs go on.\n");
  EXPECT_THAT(result.out,
              StartsWith(std::string(24, '\n') + "\x1b[?7l\x1b[H03:04:05  "));
  EXPECT_THAT(result.out, EndsWith("\x1b[J\x1b[?7h"));
  EXPECT_EQ(Count(result.out, "\x1b[?7l"), 2);
  EXPECT_THAT(result.out,
              HasSubstr(std::string("Job ") + kId + "  moods  ann\x1b[K\r\n"));
  EXPECT_THAT(result.out, HasSubstr("step 2/9"));
  EXPECT_THAT(result.out, HasSubstr("loss 2.5000 ▅▅\x1b[K\r\n"));
  EXPECT_EQ(Count(result.out, "\x1b[?7h"), 2);
  EXPECT_EQ(Count(result.out, "\x1b[?"), 4);
  EXPECT_TRUE(data().cancelled.empty());
}

TEST_F(FollowTest, TheScreenGoesOnToTheNextJob) {
  AddRun(kId, v1::JOB_STATE_RUNNING);
  AddRun(kOtherId, v1::JOB_STATE_QUEUED);
  data().on_idle = [] {};
  terminal_.is_tty = true;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) {
      JobOf(kId).set_state(v1::JOB_STATE_SUCCEEDED);
      JobOf(kOtherId).set_state(v1::JOB_STATE_RUNNING);
      daemon_->Sync();
    }
    if (sleeps_ == 11) JobOf(kOtherId).set_state(v1::JOB_STATE_FAILED);
    if (sleeps_ == 21) interrupt_.Raise();
  };
  const std::string out = RunVerb({"watch"}).out;
  const size_t first = out.find(std::string("Job ") + kId);
  const size_t second = out.find(std::string("Job ") + kOtherId);
  EXPECT_LT(first, second) << out;
  EXPECT_LT(second, out.find("No job runs.")) << out;
}

TEST_F(FollowTest, TheScreenComesThroughARestartOfTheDaemon) {
  AddRun(kId, v1::JOB_STATE_RUNNING);
  data().on_idle = [] {};
  terminal_.is_tty = true;
  terminal_.sleep = [this](absl::Duration) {
    ++sleeps_;
    if (sleeps_ == 1) daemon_->Kill();
    if (sleeps_ == 15) daemon_->Start();
    if (sleeps_ == 60) interrupt_.Raise();
  };
  const Result result = RunVerb({"watch"});
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(result.err, "mpsctl: stopped watching; jobs go on.\n");
  const size_t lost = result.out.rfind("NO ANSWER for 0.0s, trying again: ");
  EXPECT_NE(lost, std::string::npos) << result.out;
  EXPECT_LT(lost, result.out.rfind("\x1b[H03:04:05")) << result.out;
}

TEST_F(FollowTest, ADaemonThatStaysAway) {
  AddRun(kId, v1::JOB_STATE_RUNNING);
  data().on_idle = [] {};
  terminal_.is_tty = true;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) daemon_->Kill();
  };
  EXPECT_EQ(RunVerb({"watch", "--patience", "5"}).code, 3);
  EXPECT_GT(sleeps_, 10);
  EXPECT_EQ(RunVerb({"watch"}).code, 3);  // not there to begin with
}

TEST_F(FollowTest, ASequenceIsOfOneJob) {
  EXPECT_EQ(RunVerb({"watch", "--after", "3"}).code, 2);
}

}  // namespace
}  // namespace mpsd::client
