// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_text.h"

#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/client/fake_sweeps.h"

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string Printed(const v1::Sweep& sweep) {
  std::ostringstream out;
  PrintSweep(sweep, 0, out);
  return out.str();
}

TEST(SweepText, TheRankingAndTheBest) {
  EXPECT_EQ(
      Printed(SomeSweep("01SWEEP")),
      "Sweep 01SWEEP tiny: 3 jobs, a grid; ranked by loss, the least first; "
      "the best 1/2 go on past step 4 (1 of 1 decided)\n"
      "RANK  ID                          learning_rate  lr_scheduler_type  "
      "loss  STATE      STEP  RUNG  MESSAGE\n"
      "1     01KAH0000000000000000000BB  0.0003         linear             "
      "0.25  SUCCEEDED  8     1/1   \n"
      "2     01KAH0000000000000000000AA  0.0001         cosine             "
      "0.5   RUNNING    8     1/1   \n"
      "3     01KAH0000000000000000000CC  0.001          linear             "
      "0.75  CANCELLED  4     0/1   ended by its sweep at step 4\n"
      "Best so far: job 01KAH0000000000000000000BB, loss 0.25\n");
}

TEST(SweepText, WhatIsNotThereIsADash) {
  v1::Sweep sweep = SomeSweep("S");
  sweep.clear_rungs();
  sweep.clear_best_job_id();
  sweep.set_strategy(v1::SWEEP_STRATEGY_RANDOM);
  sweep.set_seed(7);
  sweep.set_greater_is_better(true);
  sweep.set_running(0);
  auto& child = *sweep.mutable_children(0);
  child.clear_metric();
  child.clear_rank();
  child.clear_state();
  child.clear_values();
  const std::string text = Printed(sweep);
  EXPECT_THAT(text, HasSubstr("drawn with the seed 7; ranked by loss, the "
                              "greatest first\n"));
  EXPECT_THAT(text, HasSubstr("-     01KAH0000000000000000000BB  -"));
  EXPECT_THAT(text, HasSubstr("deleted"));
  EXPECT_THAT(text, Not(HasSubstr("RUNG")));
  EXPECT_THAT(text, Not(HasSubstr("Best")));
}

TEST(SweepText, HostileTextsSteerNoTerminal) {
  v1::Sweep sweep = SomeSweep("S");
  sweep.set_name("\x1b[2J");
  sweep.set_metric("a\nb\x1b");
  sweep.mutable_parameters(0)->set_field("f\x1b");
  sweep.mutable_children(0)->set_message("\x1b]0;x\a");
  sweep.mutable_children(0)->set_values(0, "\"\x1b\"");
  EXPECT_THAT(Printed(sweep), Not(HasSubstr("\x1b")));
}

TEST(SweepText, ProgressCountsWhatHasEnded) {
  v1::Sweep sweep = SomeSweep("S");
  EXPECT_EQ(SweepProgress(sweep), "2/3 done, loss 0.25");
  EXPECT_FALSE(HasEnded(sweep));
  sweep.set_running(0);  // it was deleted
  sweep.clear_best_metric();
  EXPECT_EQ(SweepProgress(sweep), "3/3 done");
  EXPECT_TRUE(HasEnded(sweep));
}

TEST(SweepText, FieldsOfOneNameKeepTheirPaths) {
  v1::Sweep sweep;
  for (const char* field : {"a.r", "b.r", "training.seed", "name"}) {
    sweep.add_parameters()->set_field(field);
  }
  EXPECT_THAT(ParameterNames(sweep), ElementsAre("a.r", "b.r", "seed", "name"));
}

TEST(SweepText, CsvHasTheValuesWhole) {
  v1::Sweep sweep = SomeSweep("S");
  sweep.mutable_children(1)->clear_metric();
  sweep.mutable_children(1)->clear_rank();
  sweep.mutable_children(2)->set_values(1, "\"=1+1\"");
  EXPECT_EQ(SweepCsv(sweep),
            "rank,job_id,training.learning_rate,training.lr_scheduler_type,"
            "metric,state,step,rungs_passed,name,message\r\n"
            "1,01KAH0000000000000000000BB,0.0003,linear,0.25,SUCCEEDED,8,1,"
            "tiny 0,\r\n"
            ",01KAH0000000000000000000AA,0.0001,cosine,,RUNNING,8,1,tiny 1,"
            "\r\n"
            "3,01KAH0000000000000000000CC,0.001,'=1+1,0.75,CANCELLED,4,0,"
            "tiny 2,ended by its sweep at step 4\r\n");
}

}  // namespace
}  // namespace mpsd::client
