// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::HasSubstr;
using testing::Not;

class SweepTest : public ClientTest {
 protected:
  SweepTest() {
    AddJob(kId, v1::JOB_STATE_QUEUED);
    job_ = Write("job.json",
                 R"({"model": "org/tiny", "name": "j",
                     "dataset": {"train": "/data/train.jsonl"}})");
  }
  Result Sweep(std::vector<std::string> args) {
    args.insert(args.begin(), {"sweep", job_});
    return RunVerb(args);
  }
  nlohmann::json Spec(size_t i) {
    return nlohmann::json::parse(data().submitted.at(i).spec_json());
  }

  std::string job_;
};

TEST_F(SweepTest, SaysWhatItTakes) {
  const Result help = RunVerb({"sweep", "--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* text : {"--batch", "--grid", "--random", "--seed"}) {
    EXPECT_THAT(help.out, HasSubstr(text));
  }
  const Result nothing = Sweep({});
  EXPECT_EQ(nothing.code, 2);
  EXPECT_THAT(nothing.err, HasSubstr("--batch, --grid or --random"));
  EXPECT_THAT(Sweep({"--batch", "--grid", "lora.r=8,16"}).err,
              HasSubstr("not both"));
  EXPECT_EQ(RunVerb({"sweep"}).code, 2);
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepTest, PlacesForItsFilesAreLookedAtFirst) {
  const std::string nowhere = (folder_ / "none/x").string();
  for (const std::string& place : {nowhere, folder_.string()}) {
    const Result refused = Sweep({"--csv", place, "--batch"});
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err,
                HasSubstr(absl::StrCat("--csv: ", folder_.string())));
  }
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepTest, AGridIsOrdinaryJobsWithOneLabel) {
  const Result result =
      Sweep({"--grid", "training.learning_rate=1e-4,3e-4", "lora.r=8,16",
             "--priority", "2", "--label", "team=a", "--label", "lora.r=mine",
             "--hold", "--name", "Ann's"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("Job 01KAH0000000000000000000AA is queued, QUEUED: "
                        "learning_rate=0.0001 r=16\n"));
  EXPECT_THAT(result.out,
              HasSubstr("Sweep Ann's: 4 jobs\nRank them: `mpsctl list "
                        "--label 'sweep=Ann'\\''s' --sort train_loss`"));
  ASSERT_EQ(data().submitted.size(), 4u);
  std::set<std::string> keys;
  for (const v1::SubmitRequest& request : data().submitted) {
    EXPECT_EQ(request.priority(), 2);
    EXPECT_TRUE(request.held());
    EXPECT_EQ(request.labels().at("team"), "a");
    EXPECT_EQ(request.labels().at("sweep"), "Ann's");
    keys.insert(request.idempotency_key());
  }
  EXPECT_EQ(keys.size(), 4u);
  EXPECT_THAT(*keys.begin(), testing::EndsWith("/0001"));
  EXPECT_THAT(*keys.rbegin(), testing::EndsWith("/0004"));
  EXPECT_EQ(data().submitted[1].labels().at("lora.r"), "16");
  EXPECT_EQ(Spec(1)["lora"]["r"], 16);
  EXPECT_EQ(Spec(1)["training"]["learning_rate"], 1e-4);
  EXPECT_EQ(Spec(1)["name"], "j learning_rate=0.0001 r=16");
}

TEST_F(SweepTest, TheSameSeedIsTheSameJobs) {
  const std::vector<std::string> args = {
      "--random", "2", "training.learning_rate=log(1e-5,1e-3)", "--seed", "7"};
  EXPECT_EQ(Sweep(args).code, 0);
  EXPECT_THAT(Sweep(args).out, HasSubstr("2 jobs, 2 of them from before\n"));
  ASSERT_EQ(data().submitted.size(), 4u);
  EXPECT_EQ(data().submitted[0].spec_json(), data().submitted[2].spec_json());
  EXPECT_EQ(Spec(0)["training"]["learning_rate"], 6.021e-05);
  EXPECT_EQ(data().made, 2);
}

TEST_F(SweepTest, TheSameCommandQueuesTheRest) {
  const std::vector<std::string> args = {"--grid", "lora.r=1,2,3"};
  data().most_made = 2;
  const Result refused = Sweep(args);
  EXPECT_NE(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("ann has 2 jobs queued"));
  EXPECT_THAT(refused.err,
              HasSubstr("2 of the 3 jobs of sweep j are queued: the same "
                        "command queues the rest, `mpsctl cancel --label "
                        "'sweep=j'` ends those"));
  data().most_made = 3;
  const Result rest = Sweep(args);
  EXPECT_EQ(rest.code, 0) << rest.err;
  EXPECT_THAT(rest.out, HasSubstr("was queued before, QUEUED: r=1\n"));
  EXPECT_THAT(rest.out, HasSubstr(" is queued, QUEUED: r=3\n"));
  EXPECT_THAT(rest.out, HasSubstr("Sweep j: 3 jobs, 2 of them from before"));
  EXPECT_EQ(data().made, 3);
  // Another name, or key, is another sweep.
  data().most_made = 1000;
  EXPECT_EQ(Sweep({"--grid", "lora.r=1", "--name", "k"}).code, 0);
  EXPECT_EQ(Sweep({"--grid", "lora.r=1", "--idempotency-key", "own"}).code, 0);
  EXPECT_EQ(data().submitted.back().idempotency_key(), "own/0001");
  EXPECT_EQ(data().made, 5);
}

TEST_F(SweepTest, NothingIsQueuedWhereTheCommandMakesNoSense) {
  for (const auto& [args, why] :
       std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--grid", "lora.r"}, "expected FIELD=VALUES"},
           {{"--grid", "lora.r=1,,2"}, "a value is empty"},
           {{"--grid", "lora.r=int(1,2)"}, "a grid has no ranges"},
           {{"--grid", "lora.r=4,-1"}, "job 2 (r=-1): "},
           {{"--grid", "lora.rank=4"}, "lora.rank"},
           {{"--grid", "lora.r=1", "--label", "sweep=x"}, "with --name"},
           {{"--random", "many", "lora.r=8"}, "expected how many to draw"},
           {{"--random", "3"}, ""},
           {{"--random", "3", "a=int(1,2)", "--grid", "a=1"}, ""}}) {
    const Result result = Sweep(args);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_THAT(result.err, HasSubstr(why));
  }
  EXPECT_TRUE(data().submitted.empty());
}

TEST_F(SweepTest, WhatItIsRankedByIsTheJobs) {
  const auto hint = [&](const std::string& spec) {
    job_ = Write("my.json", spec);
    return Sweep({"--grid", "lora.r=1"}).out;
  };
  EXPECT_THAT(hint(R"({"model": "m", "dataset": {"train": "/t.jsonl",
                       "eval": "/e.jsonl"}})"),
              HasSubstr("--label 'sweep=my' --sort eval_loss`"));
  EXPECT_THAT(hint(R"({"model": "m", "dataset": {"train": "/t.jsonl",
               "eval": "/e.jsonl"}, "task": "SEQ_CLS",
               "training": {"load_best_model_at_end": true,
                            "metric_for_best_model": "eval_accuracy"}})"),
              HasSubstr("--sort metrics.accuracy`"));
}

TEST_F(SweepTest, JsonIsAJobALine) {
  const Result result =
      RunVerb({"--json", "sweep", job_, "--grid", "lora.r=1,2"});
  EXPECT_EQ(result.code, 0) << result.err;
  std::istringstream lines(result.out);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    EXPECT_EQ(nlohmann::json::parse(line)["id"], kId);
  }
  EXPECT_EQ(count, 2);
}

}  // namespace
}  // namespace mpsd::client
