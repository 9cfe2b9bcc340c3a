// SPDX-License-Identifier: Apache-2.0
#include "client/sweep_grid.h"

#include <string>

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kSweep[] = "01KAH0000000000000000000SS";

class SweepGridTest : public ClientTest {
 protected:
  SweepGridTest() {
    job_ = Write("job.json",
                 R"({"model": "org/tiny", "name": "j",
                     "dataset": {"train": "/data/train.jsonl"}})");
    v1::Sweep done = SomeSweep(kSweep);
    done.set_running(0);
    done.set_cancelled(2);
    daemon_->sweeps().sweeps = {done};
  }
  Result Sweep(std::vector<std::string> args) {
    args.insert(args.begin(), {"sweep", job_});
    return RunVerb(args);
  }
  const v1::CreateSweepRequest& Asked() {
    return daemon_->sweeps().created.back();
  }

  std::string job_;
};

TEST_F(SweepGridTest, AGridIsSentAndItsRankingShown) {
  const Result result = Sweep(
      {"--grid", "training.learning_rate=1e-4,3e-4", "lora.r=8,16", "--eta",
       "3", "--rungs", "4,8", "--metric", "f1", "--greater-is-better",
       "--priority", "2", "--label", "team=a", "--hold", "--name", "n"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("Sweep 01KAH0000000000000000000SS is "
                                    "queued: 3 jobs\n3/3 done, loss 0.25"));
  EXPECT_THAT(result.out, HasSubstr("Best: job 01KAH"));
  EXPECT_EQ(Asked().strategy(), v1::SWEEP_STRATEGY_GRID);
  ASSERT_EQ(Asked().parameters_size(), 2);
  EXPECT_EQ(Asked().parameters(1).field(), "lora.r");
  EXPECT_THAT(Asked().parameters(1).choices().values(), ElementsAre("8", "16"));
  EXPECT_EQ(Asked().eta(), 3);
  EXPECT_THAT(Asked().rungs(), ElementsAre(4, 8));
  EXPECT_EQ(Asked().metric(), "f1");
  EXPECT_TRUE(Asked().greater_is_better());
  EXPECT_EQ(Asked().submission().priority(), 2);
  EXPECT_TRUE(Asked().submission().held());
  EXPECT_EQ(Asked().submission().labels().at("team"), "a");
  EXPECT_THAT(Asked().submission().spec_json(), HasSubstr("\"name\":\"n\""));
  EXPECT_THAT(Asked().submission().idempotency_key(), HasSubstr("mpsctl-"));
}

TEST_F(SweepGridTest, ValuesAreDrawnAtRandom) {
  EXPECT_EQ(Sweep({"--random", "20", "training.learning_rate=log(1e-5,1e-3)",
                   "lora.r=8,16", "--seed", "7", "--less-is-better"})
                .code,
            0);
  EXPECT_EQ(Asked().strategy(), v1::SWEEP_STRATEGY_RANDOM);
  EXPECT_EQ(Asked().count(), 20);
  EXPECT_EQ(Asked().seed(), 7);
  EXPECT_EQ(Asked().parameters(0).log_uniform().high(), 1e-3);
  EXPECT_TRUE(Asked().has_greater_is_better());
  EXPECT_FALSE(Asked().greater_is_better());
}

TEST_F(SweepGridTest, NothingIsSentWhereTheCommandMakesNoSense) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--grid", "lora.r"},
        {"--grid", "lora.r=1,,2"},
        {"--random", "many", "lora.r=8"},
        {"--random", "3"},
        {"--random", "3", "a=int(1,2)", "--grid", "a=1"},
        {}}) {
    const Result result = Sweep(args);
    EXPECT_EQ(result.code, 2) << result.err;
  }
  EXPECT_EQ(RunVerb({"sweep"}).code, 2);
  EXPECT_TRUE(daemon_->sweeps().created.empty());
}

TEST_F(SweepGridTest, TheCourseIsFollowedToItsEnd) {
  v1::Sweep begun = daemon_->sweeps().sweeps[0];
  begun.set_succeeded(0);
  begun.set_cancelled(0);
  begun.set_queued(3);
  begun.clear_best_metric();
  begun.set_rungs_decided(0);
  v1::Sweep later = begun;
  later.set_rungs_decided(1);
  later.set_queued(2);
  later.set_cancelled(1);
  later.set_best_metric(0.5);
  daemon_->sweeps().course = {begun, begun, later};
  // CreateSweep answers with the end; what follows is asked for.
  v1::Sweep done = daemon_->sweeps().sweeps[0];
  daemon_->sweeps().sweeps = {begun};
  daemon_->sweeps().course.push_back(done);
  const Result result = Sweep({"--grid", "lora.r=1,2,3"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("0/3 done, 0/1 rungs\n"
                                    "1/3 done, loss 0.5, 1/1 rungs\n"
                                    "3/3 done, loss 0.25, 1/1 rungs\n"));
  EXPECT_EQ(sleeps_, 4);
}

TEST_F(SweepGridTest, DetachedItIsNotFollowed) {
  const Result result = Sweep({"--grid", "lora.r=1", "--detach"});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out, "Sweep 01KAH0000000000000000000SS is queued: 3 jobs\n");
  EXPECT_EQ(sleeps_, 0);
}

TEST_F(SweepGridTest, TheEndIsTheExitCode) {
  v1::Sweep& sweep = daemon_->sweeps().sweeps[0];
  sweep.set_succeeded(0);
  sweep.set_failed(1);
  EXPECT_EQ(Sweep({"--grid", "lora.r=1"}).code, 1);
  sweep.set_failed(0);
  sweep.set_cancelled(3);
  EXPECT_EQ(Sweep({"--grid", "lora.r=1"}).code,
            static_cast<int>(ForJobState(v1::JOB_STATE_CANCELLED)));
  data().fail["CreateSweep"] =
      grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "child 2 (r=-1): no");
  const Result refused = Sweep({"--grid", "lora.r=1,-1"});
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("child 2 (r=-1): no"));
}

TEST_F(SweepGridTest, PictureAndTableAreWritten) {
  const std::string svg = (folder_ / "s.svg").string();
  const std::string csv = (folder_ / "s.csv").string();
  const Result result =
      Sweep({"--grid", "lora.r=1", "--svg", svg, "--csv", csv});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(Read(svg), HasSubstr("<svg"));
  EXPECT_THAT(Read(csv), HasSubstr("rank,job_id"));
  const std::string nowhere = (folder_ / "none" / "x.svg").string();
  const Result bad = Sweep({"--grid", "lora.r=1", "--svg", nowhere});
  EXPECT_NE(bad.code, 0);
  EXPECT_THAT(bad.err, HasSubstr((folder_ / "none").string()));
  EXPECT_THAT(bad.err, HasSubstr("Nothing was submitted."));
}

TEST_F(SweepGridTest, JsonIsTheSweepAlone) {
  const Result result =
      RunVerb({"--json", "sweep", job_, "--grid", "lora.r=1"});
  EXPECT_EQ(result.code, 0) << result.err;
  const auto json = nlohmann::json::parse(result.out);
  EXPECT_EQ(json["id"], kSweep);
  EXPECT_EQ(json["children"].size(), 3);
  EXPECT_THAT(result.err, HasSubstr("3/3 done"));
}

}  // namespace
}  // namespace mpsd::client
