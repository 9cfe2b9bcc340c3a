// SPDX-License-Identifier: Apache-2.0
#include "client/submit.h"

#include <sys/stat.h>

#include <chrono>
#include <set>
#include <thread>

#include "absl/time/clock.h"
#include "client/hash_files.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class SubmitTest : public ClientTest {
 protected:
  SubmitTest() { AddJob(kId, v1::JOB_STATE_QUEUED); }
  Result Submit() { return RunVerb({"submit", job_, "--detach"}); }

  const std::string job_ = WriteJob();
};

TEST_F(SubmitTest, Detached) {
  data().jobs[0].set_queue_position(2);
  EXPECT_THAT(
      RunVerb({"submit", job_, "--detach", "--idempotency-key", "k",
               "--priority", "-5", "--anyway", "--label", "a=1", "--label",
               "b=2"}),
      Prints("Job 01KAH0000000000000000000AA submitted: QUEUED, 2 ahead of it\n"
             "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n"));
  const v1::SubmitRequest& request = Only(data().submitted);
  EXPECT_TRUE(request.anyway());
  EXPECT_EQ(request.spec_json(), Read(job_));
  EXPECT_EQ(request.idempotency_key(), "k");
  EXPECT_EQ(request.priority(), -5);
  EXPECT_EQ(request.owner(), "");  // mpsd knows who calls
  EXPECT_EQ(request.labels().at("b"), "2");
  ASSERT_EQ(request.inputs_size(), 1);
  EXPECT_EQ(request.inputs(0).path(), "t.jsonl");
  EXPECT_EQ(data().blobs.count(request.inputs(0).sha256()), 1u);
}

TEST_F(SubmitTest, JsonIsOneObject) {
  const std::string out = RunVerb({"submit", job_, "--detach", "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = ParseJson(out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["state"], "QUEUED");
}

TEST_F(SubmitTest, AHashThatIsKnownIsBelievedUnlessItShallNot) {
  const std::string data = (folder_ / "t.jsonl").string();
  struct stat info;
  ASSERT_EQ(stat(data.c_str(), &info), 0);
  HashCache cache = HashCache::Load(HashCachePath());
  cache.Keep(data, MarkOf(info), base::Sha256Hex("another"), absl::Now());
  ASSERT_TRUE(cache.Save().ok());
  EXPECT_NE(Submit().code, 0);
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
  "dataset": {"train": ["t.jsonl"]},
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
      "dataset": {"train": ["t.jsonl"]},
      "training": {"early_stopping_threshold": 0.5}})");
  EXPECT_THAT(RunVerb({"submit", job, "--detach"}),
              Ends(0, testing::_,
                   HasSubstr("idle.json: training.early_stopping_threshold has "
                             "no effect")));
  EXPECT_EQ(data().submitted.size(), 1u);
  EXPECT_THAT(RunVerb({"submit", job_, "--detach"}).err,
              Not(HasSubstr("warning")));
}

TEST_F(SubmitTest, MissingDataOrABadLabelIsBadInput) {
  EXPECT_EQ(RunVerb({"submit", job_, "--label", "x"}).code, 2);
  EXPECT_EQ(data().uploads, 0);
  std::filesystem::remove(folder_ / "t.jsonl");
  EXPECT_THAT(RunVerb({"submit", job_}),
              Fails(2, HasSubstr("dataset.train names 't.jsonl'")));
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SubmitTest, WhatTheDaemonRefuses) {
  for (const auto& [status, code] :
       {std::pair{StatusCode::INVALID_ARGUMENT, 2},
        std::pair{StatusCode::ALREADY_EXISTS, 2},
        std::pair{StatusCode::FAILED_PRECONDITION, 2},
        std::pair{StatusCode::RESOURCE_EXHAUSTED, 6}}) {
    Fail("Submit", status, "because");
    EXPECT_THAT(RunVerb({"submit", job_, "--detach"}),
                Ends(code, "", HasSubstr("because")));
  }
}

TEST_F(SubmitTest, AfterNamesJobsByPartsOfTheirIds) {
  AddJob(kOtherId, v1::JOB_STATE_RUNNING);
  EXPECT_THAT(RunVerb({"submit", job_, "--detach", "--after", "0000AA",
                       "--after", kOtherId, "--after", kId}),
              Prints());
  EXPECT_THAT(Only(data().submitted).after(), ElementsAre(kId, kOtherId));
  EXPECT_EQ(RunVerb({"submit", job_, "--after", "0000ZZ"}).code, 4);
  EXPECT_EQ(data().submitted.size(), 1u);
}

TEST_F(SubmitTest, AResultOfAJobIsNoFileHere) {
  const std::string job =
      Write("chained.json", std::string(R"({"model": "job:)") + kId +
                                R"(", "adapter": "job:)" + kOtherId +
                                R"(", "dataset": {"train": "t.jsonl"}})");
  EXPECT_THAT(RunVerb({"submit", job, "--detach"}), Prints());
  EXPECT_EQ(Only(data().submitted).spec_json(), Read(job));
  EXPECT_EQ(data().submitted[0].inputs_size(), 1);
}

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
    EXPECT_THAT(RunVerb({"submit", job_, "--detach"}), Prints());
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

using SureSubmitTest = SubmitTest;

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
    EXPECT_THAT(result.out, HasSubstr(" submitted: QUEUED"));
    EXPECT_THAT(result.err,
                HasSubstr("sending the job again under the same key"));
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
  Fail("Submit", StatusCode::INVALID_ARGUMENT, "no");
  EXPECT_EQ(Submit().code, 2);
  EXPECT_EQ(data().submit_deadlines.size(), 1u);
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(SureSubmitTest, AnInputThatHasGoneIsSentAgainOnce) {
  Fail("Submit", StatusCode::FAILED_PRECONDITION,
       "input 't.jsonl' (ab) has not been uploaded: send it");
  EXPECT_THAT(Submit(), Fails(2, HasSubstr("has not been uploaded")));
  EXPECT_EQ(data().submit_deadlines.size(), 2u);
  data().submit_deadlines.clear();
  Fail("Submit", StatusCode::FAILED_PRECONDITION, "model: there is none");
  EXPECT_EQ(Submit().code, 2);
  EXPECT_EQ(data().submit_deadlines.size(), 1u);
}

TEST_F(SureSubmitTest, WithoutADaemonNothingWasSubmitted) {
  const std::string job = Write("bare.json", R"({"model": "org/id",
      "dataset": {"train": ["/data/of/the/daemon.jsonl"]}})");
  daemon_->Stop();
  EXPECT_THAT(RunVerb({"submit", job, "--detach"}),
              Fails(3, HasSubstr("cannot reach mpsd")));
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(SureSubmitTest, ItEndsAfterTenMinutesAndSaysHowToLook) {
  Fail("Submit", StatusCode::UNAVAILABLE, "stopping");
  absl::Duration slept;
  terminal_.sleep = [&](absl::Duration pause) { slept += pause; };
  const Result result = Submit();
  EXPECT_EQ(result.code, 7);
  EXPECT_GE(slept, absl::Minutes(10));
  EXPECT_LE(slept, absl::Minutes(10) + absl::Seconds(2));
  EXPECT_THAT(result.err,
              HasSubstr("mpsctl: no answer from mpsd: stopping; the job "
                        "may have been queued\n"
                        "Submit it with --idempotency-key mpsctl-"));
}

TEST_F(SureSubmitTest, CtrlCEndsItAndSaysHowToLook) {
  data().lost = {grpc::Status::OK};
  data().on_idle = [&] { EXPECT_TRUE(interrupt_.Raise()); };
  const Result result = Submit();
  EXPECT_EQ(result.code, 130);
  const std::string key = Only(data().submitted).idempotency_key();
  EXPECT_EQ(result.err,
            "mpsctl: interrupted; the job may have been queued\n"
            "Submit it with --idempotency-key " +
                key +
                " to get that job, or to queue it if there is none; `mpsctl "
                "list` shows the latest.\n");
  // As it says.
  EXPECT_THAT(
      RunVerb({"submit", job_, "--detach", "--idempotency-key", key}).out,
      HasSubstr("was submitted before"));
  EXPECT_EQ(data().made, 1);
}

TEST_F(SureSubmitTest, CtrlCBetweenTwoAttempts) {
  Fail("Submit", StatusCode::UNAVAILABLE, "stopping");
  terminal_.sleep = [&](absl::Duration) {
    ++sleeps_;
    if (sleeps_ == 3) {
      EXPECT_TRUE(interrupt_.Raise());
    }
  };
  EXPECT_THAT(Submit(), Fails(130));
  EXPECT_EQ(sleeps_, 3);
}

}  // namespace
}  // namespace mpsd::client
