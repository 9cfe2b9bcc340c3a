// SPDX-License-Identifier: Apache-2.0
#include "client/event_printer.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class EventPrinterTest : public ClientTest {
 protected:
  std::string Printed(bool json = false) {
    std::ostringstream out;
    Connection connection({"unix:/none", "/none"});
    const Console console{out, out, terminal_, connection, json};
    EventPrinter printer(console);
    for (const v1::JobEvent& event : data().events[kId]) printer.Print(event);
    printer.Clear();
    return out.str();
  }
};

TEST_F(EventPrinterTest, ALineForEachKind) {
  AddState(kId, v1::JOB_STATE_RUNNING);
  data().events[kId].back().mutable_state()->set_message("attempt 2");
  AddEvent(kId).set_note("loading\x1b model");
  AddEvent(kId).set_warning("memory\x1b grows\nand grows");
  AddEvent(kId).mutable_evaluated()->set_eval_loss(2.25);
  AddProgress(kId, 1, 4);
  v1::Checkpoint& checkpoint = *AddEvent(kId).mutable_checkpoint();
  checkpoint.set_step(1);
  checkpoint.set_size_bytes(12'300'000);
  v1::Evaluated& evaluated = *AddEvent(kId).mutable_evaluated();
  evaluated.set_step(1);
  evaluated.set_eval_loss(2);
  AddEvent(kId);  // of a kind that this build does not know
  EXPECT_EQ(Printed(),
            "03:04:05  RUNNING  attempt 2\n"
            "03:04:05  loading\\x1b model\n"
            "03:04:05  warning: memory\\x1b grows and grows\n"
            "03:04:05  eval loss 2.2500 before training\n"
            "03:04:05  step 1/4  loss 2.5000  1,234 tok/s  ETA 1m20s"
            "  lr 5e-05  grad norm 1.25\n"
            "03:04:05  checkpoint of step 1 (12.3 MB)\n"
            "03:04:05  eval loss 2.0000 at step 1\n");
}

TEST_F(EventPrinterTest, OneProgressLineAPercent) {
  for (int step = 1; step <= 1000; ++step) AddProgress(kId, step, 1000);
  const std::string text = Printed();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 101);
  EXPECT_NE(text.find("step 1000/1000"), std::string::npos);
}

TEST_F(EventPrinterTest, EachStepOfAShortRun) {
  for (int step = 1; step <= 7; ++step) AddProgress(kId, step, 7);
  const std::string text = Printed();
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 7);
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

TEST_F(EventPrinterTest, OnATerminalTheLastTwentyLosses) {
  terminal_.is_tty = true;
  for (int step = 1; step <= 24; ++step) {
    AddProgress(kId, step, 24);
    data().events[kId].back().mutable_progress()->set_loss(step > 4 ? 1 : 9);
  }
  terminal_.columns = [] { return 120; };
  std::string blocks;
  for (int i = 0; i < 20; ++i) blocks += "▅";
  EXPECT_TRUE(Printed().ends_with("step 24/24  loss 1.0000 " + blocks +
                                  "  1,234 tok/s\x1b[K\r\x1b[K"))
      << Printed();
}

TEST_F(EventPrinterTest, JsonIsOneObjectALine) {
  AddState(kId, v1::JOB_STATE_QUEUED);
  AddEvent(kId).set_note("n");
  AddEvent(kId).set_warning("w");
  EXPECT_EQ(Printed(true),
            R"({"sequence":1,"time":"2026-01-02T03:04:05Z",)"
            R"("state":{"state":"QUEUED","message":""}})"
            "\n"
            R"({"sequence":2,"time":"2026-01-02T03:04:05Z","note":"n"})"
            "\n"
            R"({"sequence":3,"time":"2026-01-02T03:04:05Z","warning":"w"})"
            "\n");
}

class OutcomeTest : public EventPrinterTest {
 protected:
  std::string Outcome(const v1::Job& job) {
    std::ostringstream out;
    Connection connection({"unix:/none", "/none"});
    PrintOutcome({out, out, terminal_, connection, false}, job);
    return out.str();
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
            "Job 01KAH0000000000000000000AA SUCCEEDED after 1m20s\n"
            "  eval loss 2.5000 before, 1.5000 after\n"
            "  adapter   /state/adapter\n"
            "Fetch it with `mpsctl download 01KAH0000000000000000000AA "
            "--output DIR`.\n");
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

TEST_F(OutcomeTest, AModelAndItsMetrics) {
  v1::Job job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  (*job.mutable_metrics())["f1"] = 0.75;
  (*job.mutable_metrics())["accuracy"] = 0.875;
  job.set_output_path("/state/model");
  job.set_output_kind(v1::OUTPUT_KIND_MODEL);
  EXPECT_NE(Outcome(job).find("  metrics   accuracy 0.8750, f1 0.7500\n"
                              "  model     /state/model\n"),
            std::string::npos)
      << Outcome(job);
}

TEST_F(OutcomeTest, Failed) {
  v1::Job job = AddJob(kId, v1::JOB_STATE_FAILED);
  job.set_message("train.jsonl:3: no messages");
  EXPECT_EQ(Outcome(job),
            "Job 01KAH0000000000000000000AA FAILED: train.jsonl:3: no "
            "messages\n"
            "Read its log with `mpsctl logs 01KAH0000000000000000000AA`.\n");
}

}  // namespace
}  // namespace mpsd::client
