// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

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
  EXPECT_NE(readme.find(result.out), std::string::npos)
      << "client/README.md shows another drawing than:\n"
      << result.out;
}

TEST_F(PlotTest, ARunningJobUpToNow) {
  AddRun(v1::JOB_STATE_RUNNING, 40);
  data().on_idle = [] {};  // the stream stays open
  const Result result = RunVerb({"plot", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(result.out.ends_with("steps 1 to 40 of 200, RUNNING\n"))
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
  EXPECT_TRUE(out.ends_with(
      "\nsteps 400 to 1,000 of 1,000, SUCCEEDED; mpsd has 5 of them: it thins "
      "out old steps and very fast ones\n"))
      << out;
}

TEST_F(PlotTest, SaysThatStepsWereDoneAgain) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  for (const int step : {1, 2, 3}) AddLoss(step, 9);
  AddEvaluation(3, 7);
  for (const int step : {2, 3}) AddLoss(step, 5);
  AddEvaluation(3, 4);
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_TRUE(
      out.ends_with("\nsteps 1 to 3, SUCCEEDED; went back to an earlier step 1 "
                    "time: the last values count\n"))
      << out;
  // From the first step to what counts of the last one: 9, 5, 5 and 4.
  EXPECT_NE(out.find(" 9┤"), std::string::npos) << out;
  EXPECT_NE(out.find(" 4┤"), std::string::npos) << out;
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

TEST_F(PlotTest, NoJson) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 3);
  const Result result = RunVerb({"plot", kId, "--json"});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
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

TEST_F(PlotTest, UnknownJobAndNoJob) {
  EXPECT_EQ(RunVerb({"plot", kOtherId}).code, 4);
  EXPECT_EQ(RunVerb({"plot"}).code, 2);
}

TEST_F(PlotTest, ErrorsOfTheStream) {
  AddRun(v1::JOB_STATE_SUCCEEDED, 3);
  data().fail["Watch"] = grpc::Status(grpc::StatusCode::INTERNAL, "broken");
  const Result result = RunVerb({"plot", kId});
  EXPECT_EQ(result.code, 6);
  EXPECT_EQ(result.out, "");
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
  const std::string out = RunVerb({"plot", kId}).out;
  EXPECT_TRUE(out.starts_with(
      "loss by step, job 01KAH0000000000000000000AA x\\x1b[2J y\n"))
      << out;
}

}  // namespace
}  // namespace mpsd::client
