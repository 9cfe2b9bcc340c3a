// SPDX-License-Identifier: Apache-2.0
#include "core/worker/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/core/job_folder.h"

namespace mpsd::worker {
namespace {

using testing::HasSubstr;
using testing_support::JobFolder;

report::Progress Step(int64_t step) {
  report::Progress report;
  report.step = step;
  report.total_steps = 7;
  report.loss = 1.25;
  report.tokens = 100;
  report.seconds = 0.5;
  return report;
}

TEST(TerminalObserverTest, PrintsEveryNthStepAndTheLast) {
  std::ostringstream out;
  const std::atomic<bool> stop{false};
  TerminalObserver observer(out, stop, 3);
  for (int64_t i = 1; i <= 7; ++i) observer.OnStep(Step(i));
  const std::string text = out.str();
  for (const char* line : {"step 3/7", "step 6/7", "step 7/7"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("step 2/7")));
  EXPECT_THAT(text, HasSubstr("loss 1.2500"));
  EXPECT_THAT(text, HasSubstr("200 tok/s"));
}

TEST(TerminalObserverTest, AStageIsSaidOnce) {
  std::ostringstream out;
  const std::atomic<bool> stop{false};
  TerminalObserver observer(out, stop, 1);
  for (double f : {0.1, 0.5, 0.9}) observer.OnStage("loading model", f);
  EXPECT_EQ(out.str(), "loading model\n");
}

TEST(TerminalObserverTest, AWarningIsSaidOnce) {
  std::ostringstream out;
  const std::atomic<bool> stop{false};
  TerminalObserver observer(out, stop, 1);
  for (int i = 0; i < 2; ++i) observer.OnWarning("memory grows");
  EXPECT_EQ(out.str(), "warning: memory grows\n");
}

TEST(TerminalObserverTest, TheStopFlagMeansCheckpointAndEnd) {
  std::ostringstream out;
  std::atomic<bool> stop{false};
  TerminalObserver observer(out, stop, 1);
  EXPECT_EQ(observer.stop_request(), train::StopRequest::kNone);
  stop = true;
  EXPECT_EQ(observer.stop_request(), train::StopRequest::kPreempt);
}

TEST(RunAloneTest, ExitCodesTellWhoseFaultItWas) {
  const JobFolder folder("run_alone");
  std::ostringstream out, err;
  EXPECT_EQ(RunAlone(folder.Write().string(), (folder.path() / "out").string(),
                     out, err),
            0);
  EXPECT_THAT(out.str(), HasSubstr("done: 8 steps"));
  EXPECT_THAT(out.str(), HasSubstr("adapter: "));
  EXPECT_EQ(err.str(), "");
  std::ofstream(folder.path() / "train.jsonl") << "{}\n";
  EXPECT_EQ(RunAlone((folder.path() / "job.json").string(),
                     (folder.path() / "out2").string(), out, err),
            2);
  EXPECT_THAT(err.str(), HasSubstr("train.jsonl:1"));
}

}  // namespace
}  // namespace mpsd::worker
