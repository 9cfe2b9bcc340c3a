// SPDX-License-Identifier: Apache-2.0
#include "client/event_reader.h"

#include <cmath>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

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
}

TEST(RowReachedTest, AtOnceWithoutAny) {
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
    Connection connection(SocketAddress());
    std::ostringstream out, err;
    Outcome outcome;
    outcome.status = ReadEvents(
        TestConsole(connection, out, err), data().jobs[0],
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

TEST_F(EventReaderTest, CtrlCEndsIt) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  AddState(kId, v1::JOB_STATE_RUNNING);
  data().on_idle = [this] { interrupt_.Raise(); };
  EXPECT_TRUE(ReadAll().interrupted);
}

TEST_F(EventReaderTest, AFailureIsTold) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  data().fail["Watch"] = grpc::Status(grpc::StatusCode::DATA_LOSS, "broken");
  EXPECT_EQ(ReadAll().status.error_code(), grpc::StatusCode::DATA_LOSS);
}

}  // namespace
}  // namespace mpsd::client
