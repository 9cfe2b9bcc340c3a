// SPDX-License-Identifier: Apache-2.0
#include "client/event_printer.h"

#include <cmath>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

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

TEST_F(EventPrinterTest, OnATerminalTheLastTwentyLosses) {
  terminal_.is_tty = true;
  for (int step = 1; step <= 24; ++step) {
    AddProgress(kId, step, 24);
    data().events[kId].back().mutable_progress()->set_loss(step > 4 ? 1 : 9);
  }
  terminal_.columns = [] { return 120; };
  std::string blocks;
  for (int i = 0; i < 20; ++i) blocks += "▅";
  EXPECT_THAT(Printed(), EndsWith("step 24/24  loss 1.0000 " + blocks +
                                  "  1,234 tok/s\x1b[K\r\x1b[K"));
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
  EXPECT_THAT(Outcome(job), HasSubstr("  metrics   accuracy 0.8750, f1 0.7500\n"
                                      "  model     /state/model\n"));
}

TEST_F(OutcomeTest, Failed) {
  v1::Job job = AddJob(kId, v1::JOB_STATE_FAILED);
  job.set_message("train.jsonl:3: no messages");
  EXPECT_EQ(Outcome(job),
            "Job 01KAH0000000000000000000AA FAILED: train.jsonl:3: no "
            "messages\n"
            "Read its log with `mpsctl logs 01KAH0000000000000000000AA`.\n");
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

class EventReaderTest : public ClientTest {
 protected:
  struct Outcome {
    grpc::Status status;
    bool interrupted = false;
    std::vector<int64_t> sequences;
  };

  Outcome ReadAll() {
    Outcome outcome;
    outcome.status = ReadEvents(
        TestConsole(), data().jobs[0],
        [&](v1::JobEvent& event) {
          outcome.sequences.push_back(event.sequence());
        },
        &outcome.interrupted);
    daemon_->Sync();
    return outcome;
  }
};

TEST_F(EventReaderTest, AllOfAJobThatHasEnded) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  AddState(kId, v1::JOB_STATE_RUNNING);
  AddProgress(kId, 1, 2);
  AddState(kId, v1::JOB_STATE_FAILED);
  const Outcome outcome = ReadAll();
  EXPECT_TRUE(outcome.status.ok());
  EXPECT_EQ(outcome.sequences, (std::vector<int64_t>{1, 2, 3}));
}

TEST_F(EventReaderTest, ARunningJobUpToItsRow) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_RUNNING);
  AddProgress(kId, 1, 9);
  *data().jobs[0].mutable_progress() = data().events[kId].back().progress();
  AddProgress(kId, 2, 9);
  data().on_idle = [] {};  // the stream stays open
  const Outcome outcome = ReadAll();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.sequences, (std::vector<int64_t>{1, 2}));
}

TEST_F(EventReaderTest, AJobWithoutProgressForASecond) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  AddState(kId, v1::JOB_STATE_RUNNING);
  AddEvent(kId).set_note("loading model");
  data().on_idle = [] {};
  const Outcome outcome = ReadAll();
  EXPECT_TRUE(outcome.status.ok()) << outcome.status.error_message();
  EXPECT_EQ(outcome.sequences, (std::vector<int64_t>{1, 2}));
}

TEST_F(EventReaderTest, AFailureIsToldAndCtrlCEndsIt) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  Fail("Watch", StatusCode::DATA_LOSS, "broken");
  EXPECT_EQ(ReadAll().status.error_code(), StatusCode::DATA_LOSS);
  AddState(kId, v1::JOB_STATE_RUNNING);
  data().on_idle = [this] { interrupt_.Raise(); };
  EXPECT_TRUE(ReadAll().interrupted);
}

class RetryPauseTest : public ClientTest {
 protected:
  RetryPauseTest() {
    terminal_.sleep = [this](absl::Duration d) {
      slept_.push_back(absl::ToDoubleSeconds(d));
    };
  }

  std::vector<double> slept_;
  const Console console_ = TestConsole();
  RetryPause pause_{console_};
};

TEST_F(RetryPauseTest, DoublesUpToTwoSeconds) {
  for (int i = 0; i < 6; ++i) pause_.Wait();
  EXPECT_THAT(slept_, ElementsAre(0.2, 0.4, 0.8, 1.6, 2, 2));
}

TEST_F(RetryPauseTest, RestartsFromTheShortest) {
  pause_.Wait();
  EXPECT_EQ(pause_.Wait(), absl::Milliseconds(400));
  pause_.Restart();
  EXPECT_EQ(pause_.Wait(), absl::Milliseconds(200));
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

TEST_F(ReconnectTest, ATunnelThatIsRefusedIsNotTriedAgain) {
  Connection connection(FindAddress("ssh://-oX", ""));
  EXPECT_FALSE(connection.Connect().ok());
  const Console console{out_, err_, terminal_, connection, false};
  Reconnect reconnect(console, absl::Seconds(10));
  reconnect.Received();
  EXPECT_FALSE(reconnect.ShouldRetry(kGone));
}

TEST_F(ReconnectTest, SomeErrorsWouldComeAgain) {
  reconnect_.Received();
  EXPECT_FALSE(reconnect_.ShouldRetry(
      grpc::Status(StatusCode::NOT_FOUND, "no such job")));
  EXPECT_TRUE(reconnect_.ShouldRetry(grpc::Status::OK))
      << "closed in good order";
}

}  // namespace
}  // namespace mpsd::client
