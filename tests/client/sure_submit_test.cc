// SPDX-License-Identifier: Apache-2.0
#include "client/sure_submit.h"

#include <chrono>
#include <set>
#include <thread>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using grpc::StatusCode;

// Through `submit`.
class SureSubmitTest : public ClientTest {
 protected:
  SureSubmitTest() {
    Write("train.jsonl", "{\"text\": \"x\"}\n");
    job_ = Write("job.json", R"({"model": "org/id",
      "dataset": {"train": ["train.jsonl"]}})");
    AddJob(kId, v1::JOB_STATE_QUEUED);
  }
  Result Submit() { return RunVerb({"submit", job_, "--detach"}); }

  std::string job_;
};

TEST_F(SureSubmitTest, EachCallHasAKeyOfItsOwn) {
  EXPECT_EQ(Submit().code, 0);
  EXPECT_EQ(Submit().code, 0);
  ASSERT_EQ(data().submitted.size(), 2u);
  EXPECT_EQ(data().keys.size(), 2u);
  EXPECT_EQ(data().made, 2);  // two calls mean two jobs
  std::set<std::string> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(NewIdempotencyKey());
  EXPECT_EQ(keys.size(), 1000u);
  EXPECT_EQ(keys.begin()->size(), 39u);
}

TEST_F(SureSubmitTest, ASlowDaemonIsWaitedFor) {
  EXPECT_EQ(Submit().code, 0);
  ASSERT_EQ(data().submit_deadlines.size(), 1u);
  const auto year = std::chrono::hours(24 * 365);
  EXPECT_GT(data().submit_deadlines[0],
            std::chrono::system_clock::now() + year);
}

TEST_F(SureSubmitTest, AnAnswerThatIsLostIsAskedForAgain) {
  for (StatusCode code : {StatusCode::UNAVAILABLE, StatusCode::CANCELLED,
                          StatusCode::DEADLINE_EXCEEDED}) {
    data().made = 0;
    sleeps_ = 0;
    data().submitted.clear();
    data().lost = {grpc::Status(code, "gone"), grpc::Status(code, "gone")};
    const Result result = Submit();
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(data().made, 1);
    ASSERT_EQ(data().submitted.size(), 3u);
    EXPECT_EQ(data().submitted[0].SerializeAsString(),
              data().submitted[2].SerializeAsString());
    EXPECT_EQ(sleeps_, 2);
    // It is this call's job, not one of before.
    EXPECT_NE(result.out.find(" submitted: QUEUED"), std::string::npos)
        << result.out;
    EXPECT_NE(result.err.find("sending the job again under the same key"),
              std::string::npos);
  }
}

TEST_F(SureSubmitTest, AConnectionThatBreaksIsMadeAnew) {
  data().lost = {grpc::Status::OK};
  std::thread restarts;
  data().on_idle = [&] {
    restarts = std::thread([&] {
      daemon_->Kill();
      daemon_->Start();
    });
  };
  terminal_.sleep = absl::SleepFor;
  const Result result = Submit();
  restarts.join();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(data().submitted.size(), 2u);
  EXPECT_EQ(data().made, 1);
}

TEST_F(SureSubmitTest, WhatIsRefusedIsNotSentAgain) {
  data().fail["Submit"] = grpc::Status(StatusCode::INVALID_ARGUMENT, "no");
  EXPECT_EQ(Submit().code, 2);
  EXPECT_EQ(data().submit_deadlines.size(), 1u);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(SureSubmitTest, AnInputThatHasGoneIsSentAgainOnce) {
  data().fail["Submit"] =
      grpc::Status(StatusCode::FAILED_PRECONDITION,
                   "input 'train.jsonl' (ab) has not been uploaded: send it");
  const Result result = Submit();
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("has not been uploaded"), std::string::npos);
  EXPECT_EQ(data().submit_deadlines.size(), 2u);
  data().submit_deadlines.clear();
  data().fail["Submit"] =
      grpc::Status(StatusCode::FAILED_PRECONDITION, "model: there is none");
  EXPECT_EQ(Submit().code, 2);
  EXPECT_EQ(data().submit_deadlines.size(), 1u);
}

TEST_F(SureSubmitTest, WithoutADaemonNothingWasSubmitted) {
  const std::string job = Write("bare.json", R"({"model": "org/id",
      "dataset": {"train": ["/data/of/the/daemon.jsonl"]}})");
  daemon_->Stop();
  const Result result = RunVerb({"submit", job, "--detach"});
  EXPECT_EQ(result.code, 3);
  EXPECT_NE(result.err.find("cannot reach mpsd"), std::string::npos);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(SureSubmitTest, ItEndsAfterTenMinutesAndSaysHowToLook) {
  data().fail["Submit"] = grpc::Status(StatusCode::UNAVAILABLE, "stopping");
  absl::Duration slept;
  terminal_.sleep = [&](absl::Duration pause) { slept += pause; };
  const Result result = Submit();
  EXPECT_EQ(result.code, 7);
  EXPECT_GE(slept, absl::Minutes(10));
  EXPECT_LE(slept, absl::Minutes(10) + absl::Seconds(2));
  EXPECT_NE(result.err.find("mpsctl: no answer from mpsd: stopping; the job "
                            "may have been queued\n"
                            "Submit it with --idempotency-key mpsctl-"),
            std::string::npos)
      << result.err;
}

TEST_F(SureSubmitTest, CtrlCEndsItAndSaysHowToLook) {
  data().lost = {grpc::Status::OK};
  data().on_idle = [&] { EXPECT_TRUE(interrupt_.Raise()); };
  const Result result = Submit();
  EXPECT_EQ(result.code, 130);
  ASSERT_EQ(data().submitted.size(), 1u);
  const std::string key = data().submitted[0].idempotency_key();
  EXPECT_EQ(result.err,
            "mpsctl: interrupted; the job may have been queued\n"
            "Submit it with --idempotency-key " +
                key +
                " to get that job, or to queue it if there is none; `mpsctl "
                "list` shows the latest.\n");
  // As it says.
  const Result again =
      RunVerb({"submit", job_, "--detach", "--idempotency-key", key});
  EXPECT_NE(again.out.find("was submitted before"), std::string::npos);
  EXPECT_EQ(data().made, 1);
}

TEST_F(SureSubmitTest, CtrlCBetweenTwoAttempts) {
  data().fail["Submit"] = grpc::Status(StatusCode::UNAVAILABLE, "stopping");
  terminal_.sleep = [&](absl::Duration) {
    ++sleeps_;
    if (sleeps_ == 3) {
      EXPECT_TRUE(interrupt_.Raise());
    }
  };
  const Result result = Submit();
  EXPECT_EQ(result.code, 130);
  EXPECT_EQ(sleeps_, 3);
}

}  // namespace
}  // namespace mpsd::client
