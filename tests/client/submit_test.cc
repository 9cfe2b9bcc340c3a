// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "absl/time/clock.h"
#include "client/hash_cache.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

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

}  // namespace
}  // namespace mpsd::client
