// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "client/plan.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class PlanTextTest : public ClientTest {
 protected:
  std::string Printed() {
    Connection connection(SocketAddress(), nullptr);
    std::ostringstream out, err;
    PrintPlan(plan_, TestConsole(connection, out, err));
    return out.str();
  }

  v1::Plan plan_;
};

TEST_F(PlanTextTest, WhatIsNotToldIsNoLine) {
  EXPECT_EQ(Printed(), "Verdict: not told\n");
}

TEST_F(PlanTextTest, TheDataAndTheirLengths) {
  plan_.set_verdict(v1::VERDICT_PASS);
  v1::PlanRows& rows = *plan_.mutable_data()->mutable_train();
  rows.set_rows(1200);
  rows.set_tokens(34000);
  rows.set_cut_rows(12);
  rows.set_cut_share(0.01);
  rows.set_dropped_rows(3);
  rows.set_dropped_share(0.0025);
  rows.set_shortest(3);
  rows.set_median(20);
  rows.set_p95(60);
  rows.set_longest(64);
  for (int i = 0; i < 40; ++i) {
    v1::PlanLengths& bin = *rows.add_lengths();
    bin.set_from(10 * i);
    bin.set_to(10 * i + 9);
    bin.set_rows(i == 0 ? 300 : 1);
  }
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("  train         1,200 rows, 34,000 tokens; 12 "
                              "rows cut (1.0 %); 3 dropped (0.2 %)\n"));
  EXPECT_THAT(text, HasSubstr("3 to 64 tokens, median 20, 95 % have at most "
                              "60\n"));
  // Four bins a bar.
  EXPECT_THAT(text, HasSubstr("      0–39      ██████████████████████████████ "
                              "303\n"));
  EXPECT_THAT(text, HasSubstr("    360–399     █ 4\n"));
  terminal_.utf8 = false;
  EXPECT_THAT(Printed(), HasSubstr("############################## 303\n"));
}

TEST_F(PlanTextTest, MemoryWithItsPartsAgainstWhatThereIs) {
  plan_.set_verdict(v1::VERDICT_PASS);
  v1::PlanMemory& memory = *plan_.mutable_memory();
  memory.set_source(v1::PLAN_SOURCE_PROBE);
  memory.set_peak_bytes(int64_t{3} << 30);
  memory.set_estimated_bytes(int64_t{2} << 30);
  memory.set_base_weights_bytes(1'000'000'000);
  memory.set_limit_bytes(int64_t{8} << 30);
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("  peak          3.00 GiB of 8.00 GiB, measured "
                              "by a probe\n"));
  EXPECT_THAT(text, HasSubstr("  estimate      2.00 GiB\n"));
  EXPECT_THAT(text, HasSubstr("  parts         frozen weights 953.7 MiB\n"));
  memory.clear_limit_bytes();
  EXPECT_THAT(Printed(), HasSubstr("3.00 GiB of what is not told"));
}

TEST_F(PlanTextTest, TimeSaysWhereItComesFrom) {
  v1::PlanTime& time = *plan_.mutable_time();
  EXPECT_THAT(Printed(), HasSubstr("  a step        not told\n"));
  time.set_source(v1::PLAN_SOURCE_HISTORY);
  time.set_runs(3);
  time.set_seconds_per_step(0.5);
  time.set_tokens_per_second(1234.4);
  time.set_total_seconds(3600);
  time.set_evaluation_seconds(60);
  time.set_roofline_seconds_per_step(0.25);
  const std::string text = Printed();
  EXPECT_THAT(text,
              HasSubstr("  a step        0.5 s, 1,234 tokens a second, by "
                        "past runs of this shape (3 runs)\n"));
  EXPECT_THAT(text, HasSubstr("  roofline      0.25 s a step\n"));
  EXPECT_THAT(text, HasSubstr("  in total      1h00m, 1m00s of it "
                              "evaluations\n"));
}

TEST_F(PlanTextTest, TheQueueSaysWhenTheJobWouldEnd) {
  v1::PlanQueue& queue = *plan_.mutable_queue();
  queue.set_jobs_ahead(2);
  queue.set_wait_seconds(30);
  queue.set_finish_seconds(90);
  EXPECT_THAT(Printed(), HasSubstr("Queue\n"
                                   "  ahead         2 jobs\n"
                                   "  wait          30s\n"
                                   "  would end     2026-01-02 03:05:35, in "
                                   "1m30s\n"));
  queue.clear_wait_seconds();
  queue.clear_finish_seconds();
  queue.set_why("a new disk");
  queue.add_not_told("how long the queue is held");
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("  held          a new disk\n"));
  EXPECT_THAT(text, HasSubstr("  not told      how long the queue is held\n"));
  EXPECT_THAT(text, Not(HasSubstr("would end")));
}

TEST_F(PlanTextTest, NothingSteersTheTerminal) {
  plan_.set_verdict(v1::VERDICT_FAIL);
  const std::string bad = "\x1b]0;PWNED\a\x1b[2J\nforged";
  plan_.mutable_model()->set_model_type(bad);
  plan_.mutable_model()->set_gradients(bad);
  plan_.mutable_time()->set_rates(bad);
  plan_.mutable_queue()->set_why(bad);
  plan_.mutable_queue()->add_not_told(bad);
  plan_.mutable_data()->add_samplings()->set_name(bad);
  plan_.add_alternatives()->add_changes(bad);
  plan_.add_findings()->set_found(bad);
  const std::string text = Printed();
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\nforged")));
}

}  // namespace
}  // namespace mpsd::client
