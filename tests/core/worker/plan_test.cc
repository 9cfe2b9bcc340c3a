// SPDX-License-Identifier: Apache-2.0
#include "core/worker/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/core/job_folder.h"

namespace mpsd::worker {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing_support::Golden;
using testing_support::JobFolder;

struct Answer {
  int code = -1;
  std::vector<json> lines;
  json plan() const { return lines.empty() ? json() : lines.back()["plan"]; }
  std::string error() const {
    return lines.empty() || !lines.back().contains("error")
               ? ""
               : lines.back()["error"].dump();
  }
};

class PlanVerbTest : public testing::Test {
 protected:
  PlanVerbTest() { Tell({{"rates", Rates()}}); }

  static json Rates() {
    return {{"fp32_operations", 1e11},
            {"half_operations", 1e11},
            {"bytes", 1e10},
            {"source", "a test"}};
  }
  void Tell(const json& facts) {
    std::ofstream(folder_.path() / "facts.json") << facts.dump();
  }

  // In a process of its own, which the limits on reading end with.
  Answer Run() { return RunOn(folder_.Write()); }
  Answer RunOn(const fs::path& job) {
    const fs::path out = folder_.path() / "out.jsonl";
    const pid_t child = fork();
    if (child == 0) {
      setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
      int code = -1;
      {
        std::ofstream lines(out), words(folder_.path() / "err");
        code = RunPlan({job.string(), (folder_.path() / "facts.json").string()},
                       lines, words);
      }
      _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Answer answer;
    EXPECT_TRUE(WIFEXITED(status));
    answer.code = WEXITSTATUS(status);
    std::ifstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      answer.lines.push_back(json::parse(line));
    }
    return answer;
  }

  JobFolder folder_{"plan_verb"};
};

TEST_F(PlanVerbTest, PrintsStagesAndThePlan) {
  const Answer answer = Run();
  ASSERT_EQ(answer.code, 0) << answer.error();
  ASSERT_GT(answer.lines.size(), 2u);
  EXPECT_EQ(answer.lines.front()["stage"], "reading training data");
  const json plan = answer.plan();
  EXPECT_EQ(plan["data"]["train"]["rows"], 10);
  EXPECT_EQ(plan["data"]["eval"]["rows"], 3);
  EXPECT_EQ(plan["steps"]["total_steps"], 8);
  EXPECT_EQ(plan["steps"]["steps_per_epoch"], 5);
  EXPECT_EQ(plan["model"]["gradients"], "explicit step");
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_ROOFLINE");
  EXPECT_EQ(plan["time"]["rates"], "a test");
}

TEST_F(PlanVerbTest, TheWarmUpIsTheSchedules) {
  folder_.training()["warmup_ratio"] = 0.25;
  EXPECT_EQ(Run().plan()["steps"]["warmup_steps"], 2);
}

// The device need not be there, and is not opened.
TEST_F(PlanVerbTest, PlansForADeviceThatIsNotHere) {
  folder_.job()["device"] = "mps";
  Tell({{"chip", "Apple M2 Max"}, {"gpu_cores", 38}});
  const json plan = Run().plan();
  EXPECT_EQ(plan["model"]["device"], "mps");
  EXPECT_THAT(plan["time"]["rates"].dump(), HasSubstr("Apple M2 Max"));
  folder_.job()["device"] = "auto";
  Tell({{"device", "cuda"}, {"chip", "NVIDIA H200"}});
  EXPECT_EQ(Run().plan()["model"]["device"], "cuda");
}

TEST_F(PlanVerbTest, OnTheCpuItMeasuresTheCpu) {
  Tell(json::object());
  const Answer answer = Run();
  EXPECT_THAT(answer.plan()["time"]["rates"].dump(), HasSubstr("this CPU"));
}

TEST_F(PlanVerbTest, TextsToClassify) {
  std::ofstream(folder_.path() / "rows.csv")
      << "text,label\ngood,1\nvery bad indeed,0\nfine,1\nawful,0\n";
  folder_.job() = {{"model", Golden("smollm", "model").string()},
                   {"task", "SEQ_CLS"},
                   {"dataset", {{"train", "rows.csv"}}},
                   {"classification", {{"ignore_mismatched_sizes", true}}},
                   {"training", {{"max_length", 32}}},
                   {"device", "cpu"}};
  const Answer answer = Run();
  ASSERT_EQ(answer.code, 0) << answer.error();
  const json plan = answer.plan();
  EXPECT_EQ(plan["data"]["train"]["rows"], 4);
  EXPECT_EQ(plan["data"]["samplings"].size(), 3u);
  EXPECT_EQ(plan["model"]["gradients"], "autograd");
  EXPECT_EQ(plan["model"]["gradients_reason"], "a classifier");
}

TEST_F(PlanVerbTest, AFaultIsAnErrorWithItsCodeAndPlace) {
  std::ofstream(folder_.path() / "train.jsonl") << "{\"text\": 3}\n";
  const Answer answer = Run();
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.lines.back()["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(answer.error(), HasSubstr("train.jsonl"));
}

TEST_F(PlanVerbTest, WhatIsMissingIsNamed) {
  std::ofstream(folder_.path() / "train.jsonl").close();
  EXPECT_THAT(Run().error(), HasSubstr("the file has no rows"));
  fs::remove(folder_.path() / "train.jsonl");
  EXPECT_THAT(Run().error(), HasSubstr("NOT_FOUND"));
  folder_.WriteRows("train.jsonl", 4);
  // A model without a tokenizer.
  const fs::path model = folder_.path() / "model";
  fs::create_directories(model);
  fs::copy(Golden("smollm", "model") / "config.json", model / "config.json");
  folder_.job()["model"] = model.string();
  EXPECT_THAT(Run().error(), HasSubstr("tokenizer"));
  folder_.job()["model"] = "/no/such/model";
  EXPECT_THAT(Run().error(), HasSubstr("/no/such/model"));
  EXPECT_THAT(RunOn(folder_.path() / "none.json").error(),
              HasSubstr("none.json"));
}

// Where the job's weights are is not asked: a plan reads none.
TEST_F(PlanVerbTest, NoWeightsAreRead) {
  const fs::path model = folder_.path() / "hollow";
  fs::create_directories(model);
  for (const auto& file : fs::directory_iterator(Golden("smollm", "model"))) {
    if (file.path().extension() == ".safetensors") continue;
    fs::copy(file.path(), model / file.path().filename());
  }
  folder_.job()["model"] = model.string();
  const Answer answer = Run();
  EXPECT_EQ(answer.code, 0) << answer.error();
}

TEST_F(PlanVerbTest, NothingBeyondTheRootsIsRead) {
  Tell({{"read_roots", {"/no/such/root"}}, {"rates", Rates()}});
  const Answer answer = Run();
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.error(), HasSubstr("FAILED_PRECONDITION"));
}

TEST_F(PlanVerbTest, WrongFactsAreNamed) {
  Tell({{"chip", 3}});
  EXPECT_THAT(Run().error(), HasSubstr("facts.chip"));
  Tell({{"device", "abacus"}});
  folder_.job()["device"] = "auto";
  EXPECT_THAT(Run().error(), HasSubstr("facts.device"));
  fs::remove(folder_.path() / "facts.json");
  EXPECT_THAT(Run().error(), HasSubstr("facts.json"));
}

// Each text makes a row or an error, and every line stays JSON of one line.
TEST_F(PlanVerbTest, HostileTexts) {
  const std::string long_word(1 << 20, 'x');
  for (const std::string& text :
       {std::string("\u2028\u0000\u001b[2J", 9), long_word,
        std::string("{\"plan\": 1}\n{\"error\": 2}"),
        std::string(3000, '\n')}) {
    std::ofstream(folder_.path() / "train.jsonl")
        << json{{"text", "two words " + text}}.dump(
               -1, ' ', true, json::error_handler_t::replace)
        << "\n";
    const Answer answer = Run();
    EXPECT_EQ(answer.code, 0) << answer.error();
    EXPECT_LE(answer.plan()["data"]["train"]["longest"], 48);
  }
  std::ofstream(folder_.path() / "train.jsonl")
      << "{\"text\": \"\xff\xfe broken\"}\n";
  EXPECT_EQ(Run().code, 1);
  std::ofstream(folder_.path() / "train.jsonl")
      << std::string(200'000, '[') << "\n";
  EXPECT_EQ(Run().code, 1);
}

TEST_F(PlanVerbTest, WhatWasTokenizedIsKeptForTheRun) {
  ASSERT_EQ(Run().code, 0);
  const auto kept = fs::recursive_directory_iterator(folder_.path() / "cache" /
                                                     "mpsd" / "tokens");
  EXPECT_NE(kept, fs::recursive_directory_iterator());
}

}  // namespace
}  // namespace mpsd::worker
