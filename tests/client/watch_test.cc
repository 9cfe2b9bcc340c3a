// SPDX-License-Identifier: Apache-2.0
#include "client/watch.h"

#include <cmath>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class WatchTest : public ClientTest {
 protected:
  // A job that ran two steps and ended so.
  void AddRun(v1::JobState state) {
    AddJob(kId, state);
    AddState(kId, v1::JOB_STATE_QUEUED);
    AddState(kId, v1::JOB_STATE_RUNNING);
    AddProgress(kId, 1, 2);
    AddProgress(kId, 2, 2);
    AddState(kId, state);
  }
};

TEST_F(WatchTest, UntilItSucceeds) {
  AddRun(v1::JOB_STATE_SUCCEEDED);
  EXPECT_THAT(RunVerb({"watch", kId}),
              Ends(0,
                   "03:04:05  QUEUED\n"
                   "03:04:05  RUNNING\n"
                   "03:04:05  step 1/2  loss 2.5000  1,234 tok/s  ETA 1m20s  "
                   "lr 5e-05  grad norm 1.25\n"
                   "03:04:05  step 2/2  loss 2.5000  1,234 tok/s  "
                   "lr 5e-05  grad norm 1.25\n"
                   "03:04:05  SUCCEEDED\n"
                   "Job 01KAH0000000000000000000AA SUCCEEDED\n"
                   "Fetch it with `mpsctl download 01KAH0000000000000000000AA "
                   "--output DIR`.\n",
                   ""));
}

TEST_F(WatchTest, ExitCodeOfTheJob) {
  AddRun(v1::JOB_STATE_FAILED);
  EXPECT_EQ(RunVerb({"watch", kId}).code, 1);
  data().jobs[0].set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(RunVerb({"watch", kId}).code, 5);
}

TEST_F(WatchTest, AfterASequence) {
  AddRun(v1::JOB_STATE_SUCCEEDED);
  const Result result = RunVerb({"watch", kId, "--after", "4"});
  EXPECT_EQ(result.out.substr(0, 20), "03:04:05  SUCCEEDED\n");
  EXPECT_EQ(RunVerb({"watch", kId, "--after", "5"}).code, 0);
}

TEST_F(WatchTest, JsonIsAnEventALineAndTheJob) {
  AddRun(v1::JOB_STATE_SUCCEEDED);
  std::istringstream lines(RunVerb({"watch", kId, "--json"}).out);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);) {
    objects.push_back(ParseJson(line));
  }
  ASSERT_EQ(objects.size(), 6u);
  EXPECT_EQ(objects[2]["progress"]["step"], 1);
  EXPECT_EQ(objects[4]["state"]["state"], "SUCCEEDED");
  EXPECT_EQ(objects[5]["state"], "SUCCEEDED");
}

TEST_F(WatchTest, ResumesAfterTheLastEventSeen) {
  AddRun(v1::JOB_STATE_SUCCEEDED);
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
  AddRun(v1::JOB_STATE_SUCCEEDED);
  data().break_watch_at = 3;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) daemon_->Stop();
    if (sleeps_ == 4) daemon_->Start();
  };
  EXPECT_EQ(RunVerb({"watch", kId}).code, 0);
  EXPECT_EQ(sleeps_, 4);
}

TEST_F(WatchTest, GivesUpOnADaemonThatStaysAway) {
  AddRun(v1::JOB_STATE_SUCCEEDED);
  data().break_watch_at = 3;
  terminal_.sleep = [this](absl::Duration) {
    if (++sleeps_ == 1) daemon_->Stop();
  };
  const Result result = RunVerb({"watch", kId, "--patience", "5"});
  EXPECT_EQ(result.code, 3);
  EXPECT_GT(sleeps_, 2);
  EXPECT_THAT(result.err,
              HasSubstr("Resume with `mpsctl watch 01KAH0000000000000000000AA "
                        "--after 2`."));
}

TEST_F(WatchTest, AStreamThatEndsEarlyIsWatchedAgain) {
  AddRun(v1::JOB_STATE_SUCCEEDED);
  data().jobs[0].set_state(v1::JOB_STATE_RUNNING);
  const v1::JobEvent last = data().events[kId].back();
  data().events[kId].pop_back();
  terminal_.sleep = [&](absl::Duration) {
    data().jobs[0].set_state(v1::JOB_STATE_SUCCEEDED);
    data().events[kId].push_back(last);
    daemon_->Sync();
  };
  EXPECT_THAT(RunVerb({"watch", kId}),
              Prints(HasSubstr("03:04:05  SUCCEEDED\n")));
}

TEST_F(WatchTest, InterruptDetachesAndOtherErrorsEndIt) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_QUEUED);
  Fail("Watch", StatusCode::INTERNAL, "broken");
  EXPECT_EQ(RunVerb({"watch", kId}).code, 6);
  data().on_idle = [this] { EXPECT_TRUE(interrupt_.Raise()); };
  EXPECT_THAT(
      RunVerb({"watch", kId}),
      Fails(130, AllOf(HasSubstr("stopped watching; job "
                                 "01KAH0000000000000000000AA keeps running.\n"),
                       HasSubstr("mpsctl cancel"))));
}

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
  EXPECT_THAT(result.err,
              EndsWith("No job runs; waiting for one.\n"
                       "mpsctl: stopped watching; jobs keep running.\n"));
  EXPECT_TRUE(data().cancelled.empty());
}

TEST_F(FollowTest, AJobThatGoesBackToTheQueueIsLeft) {
  AddRun(kId, v1::JOB_STATE_QUEUED);
  AddState(kId, v1::JOB_STATE_QUEUED);
  data().on_idle = [] {};  // the stream stays open
  int64_t last = 0;
  EXPECT_EQ(Watch(TestConsole(), {kId, 0, absl::Minutes(2), &last}),
            ExitCode::kOk);
  EXPECT_EQ(last, 4);
  EXPECT_EQ(err_.str(), "");
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
  EXPECT_EQ(result.err, "mpsctl: stopped watching; jobs keep running.\n");
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
  EXPECT_EQ(result.err, "mpsctl: stopped watching; jobs keep running.\n");
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

class PlotTest : public ClientTest {
 protected:
  // A loss that falls and wavers.
  static double LossAt(int step) {
    return 0.6 + 1.8 * std::exp(-step / 40.0) + 0.3 * std::sin(step * step);
  }

  void AddLoss(int64_t step, double loss) {
    AddProgress(kId, step, 200);
    v1::JobEvent& event = data().events[kId].back();
    event.mutable_time()->set_seconds(event.time().seconds() + 30 * step);
    event.mutable_progress()->set_loss(loss);
    event.mutable_progress()->set_tokens(100);
  }

  void AddEvaluation(int64_t step, double loss) {
    v1::Evaluated& evaluated = *AddEvent(kId).mutable_evaluated();
    evaluated.set_step(step);
    evaluated.set_eval_loss(loss);
    (*evaluated.mutable_metrics())["accuracy"] = 1 - loss / 4;
  }

  // The row has what the last events say.
  void FinishRow() {
    for (const v1::JobEvent& event : data().events[kId]) {
      v1::Job& job = data().jobs[0];
      if (event.has_progress()) *job.mutable_progress() = event.progress();
      if (!event.has_evaluated()) continue;
      if (event.evaluated().step() == 0) {
        job.set_eval_loss_before(event.evaluated().eval_loss());
      } else {
        job.set_eval_loss_after(event.evaluated().eval_loss());
      }
    }
  }

  void AddRun(v1::JobState state, int steps) {
    AddJob(kId, state);
    AddState(kId, v1::JOB_STATE_RUNNING);
    AddEvaluation(0, 2.4);
    for (int step = 1; step <= steps; ++step) {
      AddLoss(step, LossAt(step));
      if (step % 100 == 0) AddEvaluation(step, step == 100 ? 0.8 : 0.62);
    }
    if (state != v1::JOB_STATE_RUNNING) AddState(kId, state);
    FinishRow();
  }

  static int Lines(const std::string& text) {
    return static_cast<int>(std::count(text.begin(), text.end(), '\n'));
  }
};

// The example of client/README.md.
TEST_F(PlotTest, Loss) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 200);
  terminal_.columns = [] { return 72; };
  terminal_.rows = [] { return 16; };
  const Result result = RunVerb({"plot", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(result.out, R"(loss by step, job 01KAH0000000000000000000AA moods
⠒⠢ loss  ◆ eval loss
 2.608┤⢸
      │◆⢧⢸⢠
      │⠘⠸⣸⡞⣼  ⡀
      │  ⠛⠃⡏⣦⡄⣿ ⢀
      │     ⡏⢻⢹⣦⢸⣸⣰  ⣀
      │      ⠈⠸⠘⣾⠟⢿⣼ ⣿ ⡄⣄ ⢀ ⢀
      │         ⠉  ⢿⣷⠉⣆⣷⠙⠙⣼ ⣾ ⣧⣶⣶⡦⡀ ⡀⢠   ⡀ ⢀
      │             ⠘ ⠿⠋  ⠘⣷⠉⣶⠉⡟⡏⡇⣿⢀⣷⣼⢀◆⣠⡏⡆⡜⡇⡄⡇⡆ ⡷⡇⡆⡰⣾⣷⡀⡄⢰⣤⡀   ⣤⡄ ⢠⣤⣤⡄⡀⢰
      │                    ⠛ ⠹  ⠇⠃⠹⣿⠈⠉⡾⡴⡟⡇⡇⡇⣧⢳⢱⢣⣶⡇⡇⣿⠃⡇⡏⢱⢣⡸⢻⡇⡄⡄⢸⡟⣷⢸⡜⠸⠸⢱⣇◆
0.3302┤                               ⠃ ⠁⠃⠘ ⠛⠸⠘⠸⠈⠇⠟⠇   ⠘⠸⡇⠘⠗⠿⠿⠇⠁⠸⠿⠃  ⠈⠿⡇
      └─────────────────────────────────────────────────────────────────
       0                                                             200
steps 1 to 200 of 200, SUCCEEDED
)");
  const std::string readme =
      Read(std::string(MPSD_TEST_SOURCE_DIR) + "/client/README.md");
  EXPECT_THAT(readme, HasSubstr(result.out))
      << "client/README.md shows another drawing than:\n"
      << result.out;
}

TEST_F(PlotTest, ARunningJobUpToNow) {
  AddRun(v1::JOB_STATE_RUNNING, 40);
  data().on_idle = [] {};  // the stream stays open
  EXPECT_THAT(RunVerb({"plot", kId}),
              Prints(EndsWith("steps 1 to 40 of 200, RUNNING\n")));
}

TEST_F(PlotTest, FillsTheTerminal) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 40);
  EXPECT_EQ(Lines(RunVerb({"plot", kId}).out), 23);  // of 24
  terminal_.rows = [] { return 50; };
  EXPECT_EQ(Lines(RunVerb({"plot", kId}).out), 49);
  terminal_.rows = [] { return 1; };
  terminal_.columns = [] { return 1; };
  EXPECT_EQ(Lines(RunVerb({"plot", kId}).out), 6);
}

TEST_F(PlotTest, AsciiWhereTheLocaleIsNotUtf8) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 100);
  terminal_.utf8 = false;
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](char c) {
    return (c & 0x80) == 0;
  })) << out;
}

TEST_F(PlotTest, SaysWhichStepsThereAre) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  for (const int step : {400, 410, 420, 999, 1000}) AddLoss(step, 1);
  FinishRow();
  data().jobs[0].mutable_progress()->set_total_steps(1000);
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_THAT(out, EndsWith("\nsteps 400 to 1,000 of 1,000, SUCCEEDED; mpsd "
                            "has 5 of them: it thins "
                            "out old steps and very fast ones\n"));
}

TEST_F(PlotTest, SaysThatStepsWereDoneAgain) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  for (const int step : {1, 2, 3}) AddLoss(step, 9);
  AddEvaluation(3, 7);
  for (const int step : {2, 3}) AddLoss(step, 5);
  AddEvaluation(3, 4);
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_THAT(
      out, EndsWith("\nsteps 1 to 3, SUCCEEDED; went back to an earlier step 1 "
                    "time: the last values count\n"));
  // From the first step to what counts of the last one: 9, 5, 5 and 4.
  EXPECT_NE(out.find("\n9┤"), std::string::npos) << out;
  EXPECT_NE(out.find("\n4┤"), std::string::npos) << out;
  EXPECT_EQ(out.find("◆", out.find("◆ eval loss") + 5), out.rfind("◆")) << out;
}

TEST_F(PlotTest, CountsWhatItLeavesOut) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  for (const double loss : {2.0, double{NAN}, double{INFINITY}, 1.0}) {
    AddLoss(std::ssize(data().events[kId]) + 1, loss);
  }
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_TRUE(out.ends_with("; 2 left out: NaN or infinite\n")) << out;
}

TEST_F(PlotTest, OnlyEvaluations) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  AddEvaluation(0, 2.5);
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_NE(out.find("◆"), std::string::npos) << out;
  EXPECT_TRUE(out.ends_with("\nsteps 0 to 0, FAILED\n")) << out;
}

TEST_F(PlotTest, WhatFailsDrawsNothing) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 3);
  EXPECT_THAT(RunVerb({"plot", kId, "--json"}), Ends(2, ""));
  Fail("Watch", StatusCode::INTERNAL, "broken");
  EXPECT_THAT(RunVerb({"plot", kId}), Ends(6, ""));
  EXPECT_EQ(RunVerb({"plot", kOtherId}).code, 4);
  EXPECT_EQ(RunVerb({"plot"}).code, 2);
}

TEST_F(PlotTest, NoStepYet) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  AddState(kId, v1::JOB_STATE_QUEUED);
  data().on_idle = [] {};
  Result result = RunVerb({"plot", kId});
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err,
            "mpsctl: job 01KAH0000000000000000000AA (QUEUED) has no step yet\n"
            "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n");
  data().on_idle = nullptr;
  data().jobs[0].set_state(v1::JOB_STATE_FAILED);
  result = RunVerb({"plot", kId});
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.err.find("mpsctl show"), std::string::npos);
}

TEST_F(PlotTest, InterruptEndsIt) {
  AddRun(v1::JOB_STATE_RUNNING, 3);
  data().jobs[0].mutable_progress()->set_step(4);  // its event does not come
  data().on_idle = [this] { EXPECT_TRUE(interrupt_.Raise()); };
  EXPECT_EQ(RunVerb({"plot", kId}).code, 130);
}

TEST_F(PlotTest, TheNameDoesNotSteerTheTerminal) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 3);
  data().jobs[0].set_name("x\x1b[2J\ny");
  EXPECT_THAT(
      RunVerb({"plot", kId}).out,
      StartsWith("loss by step, job 01KAH0000000000000000000AA x\\x1b[2J y\n"));
}

}  // namespace
}  // namespace mpsd::client
