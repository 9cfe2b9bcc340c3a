// SPDX-License-Identifier: Apache-2.0
#include "client/submit.h"

#include <sys/stat.h>

#include <chrono>
#include <set>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "client/hash_files.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// --- submit ------------------------------------------------------------------

class SubmitTest : public ClientTest {
 protected:
  SubmitTest() {
    Write("train.jsonl", "{\"text\": \"x\"}\n");
    job_ = Write("job.json", R"({"model": "org/id",
      "dataset": {"train": ["train.jsonl"]}})");
    AddJob(kId, v1::JOB_STATE_QUEUED);
  }
  std::string job_;
};

TEST_F(SubmitTest, Detached) {
  data().jobs[0].set_queue_position(2);
  const Result result = RunVerb(
      {"submit", job_, "--detach", "--idempotency-key", "k", "--priority", "-5",
       "--anyway", "--label", "a=1", "--label", "b=2"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA submitted: QUEUED, 2 ahead of it\n"
            "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n");
  ASSERT_EQ(data().submitted.size(), 1u);
  const v1::SubmitRequest& request = data().submitted[0];
  EXPECT_TRUE(request.anyway());
  EXPECT_EQ(request.spec_json(), Read(job_));
  EXPECT_EQ(request.idempotency_key(), "k");
  EXPECT_EQ(request.priority(), -5);
  EXPECT_EQ(request.owner(), "");  // mpsd knows who calls
  EXPECT_EQ(request.labels().at("b"), "2");
  ASSERT_EQ(request.inputs_size(), 1);
  EXPECT_EQ(request.inputs(0).path(), "train.jsonl");
  EXPECT_EQ(data().blobs.count(request.inputs(0).sha256()), 1u);
}

TEST_F(SubmitTest, JsonIsOneObject) {
  const std::string out = RunVerb({"submit", job_, "--detach", "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["state"], "QUEUED");
}

TEST_F(SubmitTest, AHashThatIsKnownIsBelievedUnlessItShallNot) {
  const std::string data = (folder_ / "train.jsonl").string();
  struct stat info;
  ASSERT_EQ(stat(data.c_str(), &info), 0);
  HashCache cache = HashCache::Load(HashCachePath());
  cache.Keep(data, MarkOf(info), base::Sha256Hex("another"), absl::Now());
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_NE(RunVerb({"submit", job_, "--detach"}).code, 0);
  EXPECT_EQ(RunVerb({"submit", job_, "--detach", "--rehash"}).code, 0);
}

TEST_F(SubmitTest, WatchesUntilTheEnd) {
  data().jobs[0].set_state(v1::JOB_STATE_FAILED);
  AddState(kId, v1::JOB_STATE_FAILED);
  const Result result = RunVerb({"submit", job_});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(data().submitted[0].owner(), "");  // the daemon knows
  EXPECT_NE(result.out.find("03:04:05  FAILED\n"), std::string::npos);
}

TEST_F(SubmitTest, TheSameKeyAgain) {
  RunVerb({"submit", job_, "--detach", "--idempotency-key", "k"});
  const Result result =
      RunVerb({"submit", job_, "--detach", "--idempotency-key", "k"});
  EXPECT_EQ(result.out.substr(0, 61),
            "Job 01KAH0000000000000000000AA was submitted before: QUEUED\nF");
  EXPECT_EQ(data().uploads, 1);
}

TEST_F(SubmitTest, ABadSpecIsFoundHere) {
  const std::string bad = Write("bad.json", R"({
  "model": "org/id",
  "dataset": {"train": ["train.jsonl"]},
  "training": {"learning_rat": 1}
})");
  daemon_->Stop();
  const Result result = RunVerb({"submit", bad});
  EXPECT_EQ(result.code, 2);
  for (const char* part : {"bad.json:4", "training.learning_rat",
                           "learning_rate", "Nothing was submitted."}) {
    EXPECT_NE(result.err.find(part), std::string::npos) << result.err;
  }
}

TEST_F(SubmitTest, AFieldThatChangesNothingIsSaid) {
  const std::string job = Write("idle.json", R"({"model": "org/id",
      "dataset": {"train": ["train.jsonl"]},
      "training": {"early_stopping_threshold": 0.5}})");
  const Result result = RunVerb({"submit", job, "--detach"});
  EXPECT_EQ(result.code, 0);
  EXPECT_NE(result.err.find("idle.json: training.early_stopping_threshold has "
                            "no effect"),
            std::string::npos)
      << result.err;
  EXPECT_EQ(data().submitted.size(), 1u);
  EXPECT_EQ(RunVerb({"submit", job_, "--detach"}).err.find("warning"),
            std::string::npos);
}

TEST_F(SubmitTest, MissingDataIsBadInput) {
  std::filesystem::remove(folder_ / "train.jsonl");
  const Result result = RunVerb({"submit", job_});
  EXPECT_EQ(result.code, 2);
  EXPECT_NE(result.err.find("dataset.train names 'train.jsonl'"),
            std::string::npos);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SubmitTest, BadLabel) {
  EXPECT_EQ(RunVerb({"submit", job_, "--label", "x"}).code, 2);
  EXPECT_EQ(data().uploads, 0);
}

TEST_F(SubmitTest, WhatTheDaemonRefuses) {
  for (const auto& [status, code] :
       {std::pair{grpc::StatusCode::INVALID_ARGUMENT, 2},
        std::pair{grpc::StatusCode::ALREADY_EXISTS, 2},
        std::pair{grpc::StatusCode::FAILED_PRECONDITION, 2},
        std::pair{grpc::StatusCode::RESOURCE_EXHAUSTED, 6}}) {
    data().fail["Submit"] = grpc::Status(status, "because");
    const Result result = RunVerb({"submit", job_, "--detach"});
    EXPECT_EQ(result.code, code);
    EXPECT_NE(result.err.find("because"), std::string::npos) << result.err;
    EXPECT_EQ(result.out, "");
  }
}

TEST_F(SubmitTest, AfterNamesJobsByPartsOfTheirIds) {
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  const Result result =
      RunVerb({"submit", job_, "--detach", "--after", "0000AA", "--after",
               kOtherId, "--after", kId});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(data().submitted.size(), 1u);
  EXPECT_THAT(data().submitted[0].after(), testing::ElementsAre(kId, kOtherId));
  EXPECT_EQ(RunVerb({"submit", job_, "--after", "0000ZZ"}).code, 4);
  EXPECT_EQ(data().submitted.size(), 1u);
}

TEST_F(SubmitTest, AResultOfAJobIsNoFileHere) {
  const std::string job =
      Write("chained.json", std::string(R"({"model": "job:)") + kId +
                                R"(", "adapter": "job:)" + kOtherId +
                                R"(", "dataset": {"train": "train.jsonl"}})");
  const Result result = RunVerb({"submit", job, "--detach"});
  EXPECT_EQ(result.code, 0) << result.err;
  ASSERT_EQ(data().submitted.size(), 1u);
  EXPECT_EQ(data().submitted[0].spec_json(), Read(job));
  EXPECT_EQ(data().submitted[0].inputs_size(), 1);
}

// --- round trip --------------------------------------------------------------

// Whose monotonic times are those of a list, one after the other.
class ListedClock final : public base::Clock {
 public:
  absl::Time Now() const override { return kNow; }
  absl::Duration Monotonic() const override {
    const absl::Duration next = times_.front();
    if (times_.size() > 1) times_.erase(times_.begin());
    return next;
  }
  mutable std::vector<absl::Duration> times_;
};

class RoundTripTest : public ClientTest {
 protected:
  RoundTripTest() {
    terminal_.clock = &listed_;
    job_ = Write("job.json", R"({"model": "org/id",
      "dataset": {"train": ["/data/of/the/daemon.jsonl"]}})");
    AddJob(kId, v1::JOB_STATE_QUEUED);
  }
  // What `submit` notes where the daemon's two answers take so long.
  double Noted(absl::Duration first, absl::Duration second) {
    const absl::Duration begin = absl::Seconds(100);
    listed_.times_ = {begin, begin + first, begin, begin + second, begin};
    data().submitted.clear();
    const Result result = RunVerb({"submit", job_, "--detach"});
    EXPECT_EQ(result.code, 0) << result.err;
    if (data().submitted.size() != 1u) return -1;
    EXPECT_TRUE(data().submitted[0].has_round_trip_seconds());
    return data().submitted[0].round_trip_seconds();
  }

  ListedClock listed_;
  std::string job_;
};

TEST_F(RoundTripTest, TheFirstCallsConnectionDoesNotCount) {
  EXPECT_DOUBLE_EQ(Noted(absl::Seconds(4), absl::Milliseconds(20)), 0.02);
  EXPECT_DOUBLE_EQ(Noted(absl::Milliseconds(20), absl::Seconds(4)), 0.02);
}

// A clock that jumps, and a machine that slept: mpsd would refuse them.
TEST_F(RoundTripTest, IsWithinWhatMayBeSaid) {
  EXPECT_EQ(Noted(absl::Hours(4), absl::Hours(3)), 600);
  EXPECT_EQ(Noted(absl::Seconds(-4), absl::Seconds(-5)), 0);
}

TEST_F(RoundTripTest, WithoutADaemonNothingIsNoted) {
  daemon_->Stop();
  listed_.times_ = {absl::ZeroDuration()};
  EXPECT_EQ(RunVerb({"submit", job_, "--detach"}).code, 3);
  EXPECT_TRUE(data().submitted.empty());
}

// --- sure submit -------------------------------------------------------------

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

// --- send job ----------------------------------------------------------------

class SendJobTest : public ClientTest {
 protected:
  ExitCode Send(const v1::SubmitRequest& request, bool detach) {
    Connection connection(SocketAddress(), nullptr);
    out_.str("");
    const Console console = TestConsole(connection, out_, err_);
    const ExitCode code = SendJob(
        console, request, [] { return grpc::Status::OK; }, detach);
    daemon_->Sync();
    return code;
  }
  std::ostringstream out_, err_;
};

TEST_F(SendJobTest, ARequestWithoutAKeyGetsItsOwn) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  EXPECT_EQ(Send({}, true), ExitCode::kOk);
  EXPECT_EQ(Send({}, true), ExitCode::kOk);
  ASSERT_EQ(data().submitted.size(), 2u);
  EXPECT_NE(data().submitted[0].idempotency_key(),
            data().submitted[1].idempotency_key());
  EXPECT_NE(out_.str().find(" submitted: QUEUED"), std::string::npos);
}

TEST_F(SendJobTest, AKeyThatWasUsedIsSaid) {
  AddJob(kId, v1::JOB_STATE_QUEUED);
  v1::SubmitRequest request;
  request.set_idempotency_key("k");
  Send(request, true);
  Send(request, true);
  EXPECT_NE(out_.str().find(" was submitted before: QUEUED"),
            std::string::npos);
}

TEST_F(SendJobTest, FollowsTheJobToItsEnd) {
  AddJob(kId, v1::JOB_STATE_CANCELLED);
  AddState(kId, v1::JOB_STATE_CANCELLED);
  EXPECT_EQ(Send({}, false), ExitCode::kJobCancelled);
}

}  // namespace
}  // namespace mpsd::client
