// SPDX-License-Identifier: Apache-2.0
#include "client/progress_line.h"

#include <sstream>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

TEST(StepTextTest, WhatIsKnown) {
  v1::Progress progress;
  progress.set_step(1);
  progress.set_total_steps(20);
  progress.set_loss(1.23456);
  progress.set_eta_seconds(80);
  EXPECT_EQ(StepText(progress), "step 1/20  loss 1.2346  ETA 1m20s");
  progress.set_tokens_per_second(1234.4);
  EXPECT_EQ(StepText(progress),
            "step 1/20  loss 1.2346  1,234 tok/s  ETA 1m20s");
  progress.set_step(20);
  EXPECT_EQ(StepText(progress), "step 20/20  loss 1.2346  1,234 tok/s");
}

TEST(StepTextTest, ASparklineWhereTheWidthAllows) {
  v1::Progress progress;
  progress.set_step(20);
  progress.set_total_steps(20);
  progress.set_loss(1);
  const std::vector<double> losses = {7, 6, 5, 4, 3, 2, 1, 0};
  Terminal terminal;
  // The text has 23 columns, the percentage and the shortest bar 13.
  for (const auto& [columns, text] :
       {std::pair{80, "step 20/20  loss 1.0000 █▇▆▅▄▃▂▁"},
        std::pair{41, "step 20/20  loss 1.0000 █▆▃▁"},
        std::pair{40, "step 20/20  loss 1.0000"},
        std::pair{1, "step 20/20  loss 1.0000"}}) {
    terminal.columns = [columns = columns] { return columns; };
    EXPECT_EQ(StepText(progress, losses, terminal), text) << columns;
  }
  terminal.utf8 = false;
  terminal.columns = [] { return 80; };
  EXPECT_EQ(StepText(progress, losses, terminal),
            "step 20/20  loss 1.0000 #*+=-:._");
  EXPECT_EQ(StepText(progress, {3, 2, 1}, terminal), "step 20/20  loss 1.0000");
}

class ProgressLineTest : public testing::Test {
 protected:
  std::string Draw(bool is_tty, bool json) {
    std::ostringstream out;
    Terminal terminal;
    terminal.is_tty = is_tty;
    terminal.columns = [] { return 18; };
    Connection nowhere({"unix:/nowhere", "/nowhere"});
    const Console console{out, out, terminal, nowhere, json};
    {
      ProgressLine line(console);
      line.Draw(1, 4, "x");
    }
    return out.str();
  }
};

TEST_F(ProgressLineTest, RedrawsInPlaceAndLeavesNothing) {
  EXPECT_EQ(Draw(true, false),
            "\r 25% ━━──────── x\x1b[K"
            "\r\x1b[K");
}

TEST_F(ProgressLineTest, ALineAboveIsALineWithoutABar) {
  std::ostringstream out;
  Terminal terminal;
  Connection nowhere({"unix:/nowhere", "/nowhere"});
  const Console console{out, out, terminal, nowhere, false};
  ProgressLine line(console);
  line.Draw(1, 4, "x");
  line.PrintAbove("text");
  EXPECT_EQ(out.str(), "text\n");
}

TEST_F(ProgressLineTest, SilentInAPipeAndInJson) {
  EXPECT_EQ(Draw(false, false), "");
  EXPECT_EQ(Draw(true, true), "");
}

}  // namespace
}  // namespace mpsd::client
