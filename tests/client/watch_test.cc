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
  EXPECT_THAT(
      RunVerb({"watch", kId}),
      Ends(0,
           "03:04:05  QUEUED\n"
           "03:04:05  RUNNING\n"
           "03:04:05  step 1/2  loss 2.5000  1,234 tok/s  ETA 1m20s  "
           "lr 5e-05  grad norm 1.25\n"
           "03:04:05  step 2/2  loss 2.5000  1,234 tok/s  "
           "lr 5e-05  grad norm 1.25\n"
           "03:04:05  SUCCEEDED\n"
           "Job 01KAH0000000000000000000AA SUCCEEDED\n"
           "Fetch the adapter with `mpsctl download 01KAH0000000000000000000AA "
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
  const Result result = RunVerb({"watch", kId, "--after-event", "4"});
  EXPECT_EQ(result.out.substr(0, 20), "03:04:05  SUCCEEDED\n");
  EXPECT_EQ(RunVerb({"watch", kId, "--after-event", "5"}).code, 0);
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
                        "--after-event 2`."));
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
  EXPECT_THAT(RunVerb({"watch", kId}),
              Fails(130, AllOf(HasSubstr("Detached; job "
                                         "01KAH0000000000000000000AA is still "
                                         "queued.\n"),
                               HasSubstr("mpsctl cancel"))));
}

// Place and reason are read every two seconds, and printed when they change.
TEST_F(WatchTest, AWaitingJobShowsItsPlaceUntilItStarts) {
  data().filters_states = true;
  AddRun(v1::JOB_STATE_SUCCEEDED);
  std::vector<v1::JobEvent>& events = data().events[kId];
  const std::vector<v1::JobEvent> rest(events.begin() + 1, events.end());
  events.resize(1);
  AddJob(kOtherId, v1::JOB_STATE_RUNNING)
      .mutable_progress()
      ->set_eta_seconds(80);
  JobOf(kId).set_state(v1::JOB_STATE_QUEUED);
  JobOf(kId).set_queue_position(1);
  int idle = 0;
  data().on_idle = [&] {
    if (++idle == 2) JobOf(kId).set_hold("quiet");
    if (idle < 3) return;
    JobOf(kId).set_state(v1::JOB_STATE_SUCCEEDED);
    events.insert(events.end(), rest.begin(), rest.end());
    data().on_idle = nullptr;
  };
  const auto begins = [](const std::string& waits) {
    return StartsWith("03:04:05  QUEUED\n" + waits + "03:04:05  RUNNING\n");
  };
  EXPECT_THAT(RunVerb({"watch", kId}),
              Prints(begins("03:04:05  QUEUED, 1 ahead of it, the running "
                            "job ends in about 1m20s\n")))
      << "another text within 30 seconds is not printed";
  EXPECT_EQ(data().watched.back().after_sequence(), 1);
}

TEST_F(WatchTest, OnATerminalTheWaitingLineIsRedrawnWithAnEta) {
  data().filters_states = true;
  AddState(kId, v1::JOB_STATE_QUEUED);
  AddJob(kId, v1::JOB_STATE_QUEUED).set_queue_position(0);
  AddJob(kOtherId, v1::JOB_STATE_RUNNING)
      .mutable_progress()
      ->set_eta_seconds(80);
  terminal_.is_tty = true;
  int idle = 0;
  data().on_idle = [&] {
    if (++idle == 2) interrupt_.Raise();
  };
  EXPECT_EQ(RunVerb({"watch", kId}).out,
            "03:04:05  QUEUED\n"
            "\rQUEUED, next, starts in about 1m20s\x1b[K"
            "\r\x1b[K");
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
  EXPECT_THAT(result.err, EndsWith("No job runs; waiting for one.\n"
                                   "Detached; jobs are still running.\n"));
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
  EXPECT_EQ(result.err, "Detached; jobs are still running.\n");
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
  EXPECT_EQ(RunVerb({"watch", "--after-event", "3"}).code, 2);
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

class EventPrinterTest : public ClientTest {
 protected:
  std::string Printed(bool json = false) {
    const Console console = TestConsole(json);
    EventPrinter printer(console);
    for (const v1::JobEvent& event : data().events[kId]) printer.Print(event);
    printer.Clear();
    return out_.str();
  }
};

TEST_F(EventPrinterTest, ALineForEachKind) {
  AddState(kId, v1::JOB_STATE_RUNNING);
  data().events[kId].back().mutable_state()->set_message("attempt 2");
  AddEvent(kId).set_note("loading\x1b model");
  AddEvent(kId).set_note("paused: on battery");
  AddEvent(kId).set_warning("memory\x1b grows\nand grows");
  AddEvent(kId).mutable_evaluated()->set_eval_loss(2.25);
  AddProgress(kId, 1, 4);
  v1::Checkpoint& checkpoint = *AddEvent(kId).mutable_checkpoint();
  checkpoint.set_step(1);
  checkpoint.set_size_bytes(12'300'000);
  v1::Evaluated& evaluated = *AddEvent(kId).mutable_evaluated();
  evaluated.set_step(1);
  evaluated.set_eval_loss(2);
  v1::Sampled& sampled = *AddEvent(kId).mutable_sampled();
  sampled.set_step(1);
  sampled.add_completions("Blue\nand\x1b wide.");
  sampled.add_completions("");
  AddEvent(kId);  // of a kind that this build does not know
  EXPECT_EQ(Printed(),
            "03:04:05  RUNNING  attempt 2\n"
            "03:04:05  loading\\x1b model\n"
            "03:04:05  PAUSED: on battery\n"
            "03:04:05  warning: memory\\x1b grows and grows\n"
            "03:04:05  eval loss 2.2500 before training\n"
            "03:04:05  step 1/4  loss 2.5000  1,234 tok/s  ETA 1m20s"
            "  lr 5e-05  grad norm 1.25\n"
            "03:04:05  checkpoint of step 1 (11.7 MiB)\n"
            "03:04:05  eval loss 2.0000 at step 1\n"
            "03:04:05  sample 1 at step 1: Blue\\nand\\x1b wide.\n"
            "03:04:05  sample 2 at step 1: \n");
}

TEST_F(EventPrinterTest, OneProgressLineAPercentAndEachOfAShortRun) {
  for (int step = 1; step <= 1000; ++step) AddProgress(kId, step, 1000);
  const std::string text = Printed();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 101);
  EXPECT_THAT(text, HasSubstr("step 1000/1000"));
  data().events.clear();
  for (int step = 1; step <= 7; ++step) AddProgress(kId, step, 7);
  const std::string all = Printed();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 7);
}

TEST_F(EventPrinterTest, OnATerminalABarUnderTheLines) {
  terminal_.is_tty = true;
  terminal_.columns = [] { return 40; };
  AddProgress(kId, 1, 4);
  AddEvent(kId).set_note("evaluating");
  EXPECT_EQ(Printed(),
            "\r 25% step 1/4  loss 2.5000  1,234 tok/…\x1b[K"
            "\r\x1b[K03:04:05  evaluating\n"
            " 25% step 1/4  loss 2.5000  1,234 tok/…"
            "\r\x1b[K");
}

class OutcomeTest : public EventPrinterTest {
 protected:
  std::string Outcome(const v1::Job& job) {
    PrintOutcome(TestConsole(), job);
    return out_.str();
  }
};

TEST_F(OutcomeTest, Succeeded) {
  v1::Job job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  SetTime(job.mutable_start_time(), absl::Seconds(100));
  SetTime(job.mutable_end_time(), absl::Seconds(20));
  job.set_eval_loss_before(2.5);
  job.set_eval_loss_after(1.5);
  job.set_output_path("/state/adapter");
  job.set_output_kind(v1::OUTPUT_KIND_ADAPTER);
  EXPECT_EQ(Outcome(job),
            "Job 01KAH0000000000000000000AA SUCCEEDED after 2m40s in total\n"
            "  eval loss 2.5000 before, 1.5000 after\n"
            "  adapter   /state/adapter\n"
            "Fetch the adapter with `mpsctl download "
            "01KAH0000000000000000000AA --output DIR`.\n");
}

TEST_F(OutcomeTest, AStudy) {
  v1::Job job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  job.set_kind(v1::JOB_KIND_SMOKE);
  job.set_output_path("/state/out");
  EXPECT_EQ(Outcome(job),
            "Job 01KAH0000000000000000000AA SUCCEEDED\n"
            "  result    /state/out\n"
            "See what it found with `mpsctl show "
            "01KAH0000000000000000000AA`.\n");
}

TEST_F(OutcomeTest, Failed) {
  v1::Job job = AddJob(kId, v1::JOB_STATE_FAILED);
  job.set_message("train.jsonl:3: no messages");
  job.set_exit_reason("Rejected");
  EXPECT_EQ(Outcome(job),
            "Job 01KAH0000000000000000000AA FAILED: train.jsonl:3: no "
            "messages\n"
            "Read its log with `mpsctl logs 01KAH0000000000000000000AA`. "
            "Correct the data or job.json, and submit it again; `mpsctl clone "
            "01KAH0000000000000000000AA --set FIELD=VALUE` changes a field.\n");
}

v1::JobEvent Step(int64_t step, double loss) {
  v1::JobEvent event;
  event.mutable_progress()->set_step(step);
  event.mutable_progress()->set_loss(loss);
  return event;
}

v1::JobEvent Evaluation(int64_t step, double loss) {
  v1::JobEvent event;
  event.mutable_evaluated()->set_step(step);
  event.mutable_evaluated()->set_eval_loss(loss);
  return event;
}

TEST(RowReachedTest, WithTheProgressOfTheRow) {
  v1::Job job;
  *job.mutable_progress() = Step(2, NAN).progress();
  job.mutable_progress()->set_step_seconds(4);
  RowReached reached(job);
  EXPECT_FALSE(reached.Add({}));
  EXPECT_FALSE(reached.Add(Step(2, NAN)));  // an earlier attempt's
  v1::JobEvent same;
  *same.mutable_progress() = job.progress();
  EXPECT_TRUE(reached.Add(same));
}

TEST(RowReachedTest, WithItsEvaluationToo) {
  v1::Job job;
  job.set_eval_loss_before(3);
  EXPECT_TRUE(RowReached(job).Add(Evaluation(0, 3)));
  job.set_eval_loss_after(NAN);
  *job.mutable_progress() = Step(2, 1).progress();
  RowReached reached(job);
  EXPECT_FALSE(reached.Add(Evaluation(0, 3)));
  EXPECT_FALSE(reached.Add(Step(2, 1)));
  EXPECT_TRUE(reached.Add(Evaluation(2, NAN)));
  EXPECT_TRUE(RowReached(v1::Job()).Add({}));
}

const grpc::Status kGone(StatusCode::UNAVAILABLE, "gone");

class ReconnectTest : public ClientTest {
 protected:
  ReconnectTest() {
    terminal_.sleep = [this](absl::Duration d) { slept_ += d; };
  }

  absl::Duration slept_ = absl::ZeroDuration();
  const Console console_ = TestConsole();
  Reconnect reconnect_{console_, absl::Seconds(10)};
};

TEST_F(ReconnectTest, NotBeforeAnythingCame) {
  EXPECT_FALSE(reconnect_.ShouldRetry(kGone));
  EXPECT_EQ(slept_, absl::ZeroDuration());
}

TEST_F(ReconnectTest, GivesUpAfterTheLimit) {
  reconnect_.Received();
  int attempts = 0;
  while (reconnect_.ShouldRetry(kGone)) ++attempts;
  EXPECT_EQ(attempts, 8) << "0.2 + 0.4 + 0.8 + 1.6 + 2 …";
  EXPECT_GE(slept_, absl::Seconds(10));
  EXPECT_LT(slept_, absl::Seconds(12));
  EXPECT_EQ(err_.str(),
            "mpsctl: lost the connection to mpsd; trying again for 10s\n");
}

TEST_F(ReconnectTest, TheLimitStartsAnewWhenSomethingComes) {
  for (int outage = 0; outage < 20; ++outage) {
    reconnect_.Received();
    EXPECT_TRUE(reconnect_.ShouldRetry(kGone));
  }
  EXPECT_EQ(slept_, absl::Seconds(4));
}

TEST_F(ReconnectTest, SomeErrorsWouldComeAgain) {
  reconnect_.Received();
  EXPECT_FALSE(reconnect_.ShouldRetry(
      grpc::Status(StatusCode::NOT_FOUND, "no such job")));
  EXPECT_TRUE(reconnect_.ShouldRetry(grpc::Status::OK))
      << "closed in good order";
}

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
  EXPECT_EQ(RunVerb({"wait", kId, "--timeout", "3m"}).code, 7);
  EXPECT_EQ(moved_.now, absl::Seconds(182.5));
  for (const char* wrong : {"-1", "nan", "3 m", ""}) {
    EXPECT_THAT(RunVerb({"wait", kOtherId, "--timeout", wrong}),
                Fails(2, HasSubstr("30m")));
  }
  EXPECT_EQ(RunVerb({"wait"}).code, 2);
}

TEST_F(WaitTest, AHeldJobIsReportedOnce) {
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

constexpr char kLog[] = "loading the model\nstep 1\nstep 2, still runn";

class LogsTest : public ClientTest {
 protected:
  LogsTest() {
    AddJob(kId, v1::JOB_STATE_RUNNING);
    data().logs[kId] = kLog;
  }
};

TEST_F(LogsTest, AsTheyAre) {
  EXPECT_THAT(RunVerb({"logs", kId}), Prints(kLog));
  EXPECT_EQ(RunVerb({"logs", kId, "--json"}).out,
            "{\"line\":\"loading the model\"}\n"
            "{\"line\":\"step 1\"}\n"
            "{\"line\":\"step 2, still runn\"}\n");
  data().jobs[0].set_state(v1::JOB_STATE_FAILED);
  EXPECT_THAT(RunVerb({"logs", "-f", kId}), Prints(kLog));
}

constexpr char kHostile[] =
    "h\u00e9llo\x1b]0;PWNED\x07\x1b[2J\tnext\n\u202eevil \xff end\n";
constexpr char kCleaned[] =
    "h\u00e9llo\\x1b]0;PWNED\\x07\\x1b[2J\tnext\n\\u202eevil \\xff end\n";

TEST_F(LogsTest, OnATerminalNothingSteersIt) {
  terminal_.is_tty = true;
  // The daemon sends ten bytes at a time, characters cut in two among them.
  for (int i = 0; i < 10; ++i) {
    const std::string before(i, '.');
    data().logs[kId] = before + kHostile;
    EXPECT_EQ(RunVerb({"logs", kId}).out, before + kCleaned);
  }
  data().logs[kId] = "cut \xc3";
  EXPECT_EQ(RunVerb({"logs", kId}).out, "cut \\xc3");
}

TEST_F(LogsTest, RawOnATerminalWhereAskedAndElsewhereAlways) {
  data().logs[kId] = kHostile;
  EXPECT_EQ(RunVerb({"logs", kId}).out, kHostile);
  terminal_.is_tty = true;
  EXPECT_EQ(RunVerb({"logs", kId, "--raw"}).out, kHostile);
}

TEST_F(LogsTest, FollowContinuesWhereTheConnectionBroke) {
  terminal_.sleep = [this](absl::Duration) {
    data().fail.clear();
    data().logs[kId] += "ing\n";
    data().jobs[0].set_state(v1::JOB_STATE_SUCCEEDED);
    daemon_->Sync();
  };
  Fail("Logs", StatusCode::UNAVAILABLE, "gone");
  EXPECT_THAT(RunVerb({"logs", "-f", kId}),
              Prints(std::string(kLog) + "ing\n"));
}

TEST_F(LogsTest, ABrokenConnectionIsAnErrorAndInterruptEndsFollowing) {
  Fail("Logs", StatusCode::UNAVAILABLE, "gone");
  EXPECT_EQ(RunVerb({"logs", kId}).code, 7);
  data().on_idle = [this] { EXPECT_TRUE(interrupt_.Raise()); };
  EXPECT_EQ(RunVerb({"logs", "-f", kId}).code, 130);
}

class LogTailTest : public ClientTest {
 protected:
  LogTailTest() { AddJob(kId, v1::JOB_STATE_RUNNING); }

  LogTail Read() {
    LogTail tail;
    const grpc::Status status = ReadLogTail(TestConsole(), kId, 1000, &tail);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return tail;
  }
};

TEST_F(LogTailTest, OfALongOneTheLastLines) {
  std::string log;
  for (int i = 0; i < 1000; ++i) log += "line " + std::to_string(i) + "\n";
  for (const size_t size :
       {log.size(), log.size() - 1, size_t{4000}, size_t{4001}, size_t{1001}}) {
    data().logs[kId] = log.substr(0, size);
    const LogTail tail = Read();
    EXPECT_LE(tail.text.size(), 1000u);
    EXPECT_GE(tail.text.size(), 400u);
    EXPECT_TRUE(tail.text.starts_with("line ")) << size;
    EXPECT_EQ(
        log.substr(static_cast<size_t>(tail.before_bytes), tail.text.size()),
        tail.text);
    EXPECT_EQ(static_cast<size_t>(tail.before_bytes) + tail.text.size(), size);
  }
}

TEST_F(LogTailTest, ALineWithoutEndIsCut) {
  data().logs[kId] = std::string(5000, 'x');
  const LogTail tail = Read();
  EXPECT_LE(tail.text.size(), 1000u);
  EXPECT_GE(tail.text.size(), 400u);
  LogTail none;
  EXPECT_EQ(ReadLogTail(TestConsole(), kOtherId, 100, &none).error_code(),
            StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace mpsd::client
