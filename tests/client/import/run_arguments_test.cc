// SPDX-License-Identifier: Apache-2.0
#include "client/import/run_arguments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;
using Values = std::vector<std::string>;

RunArguments Parse(const std::string& text) {
  auto run = ParseRunArguments(text);
  EXPECT_TRUE(run.ok()) << run.status();
  return run.ok() ? *run : RunArguments();
}

std::vector<std::pair<std::string, Values>> Of(const RunArguments& run) {
  std::vector<std::pair<std::string, Values>> all;
  for (const RunArgument& a : run.arguments) all.push_back({a.name, a.values});
  return all;
}

TEST(RunArguments, TheCommandOfTheGuide) {
  const RunArguments run = Parse(
      "export TASK_NAME=mrpc\n"
      "python examples/pytorch/text-classification/run_glue.py \\\n"
      "  --task_name $TASK_NAME \\\n"
      "- --use_mps_device \\\n"
      "  --do_train \\\n"
      "  --output_dir /tmp/$TASK_NAME/\n");
  EXPECT_EQ(run.script, "run_glue.py");
  EXPECT_THAT(run.launcher, ElementsAre("python"));
  EXPECT_THAT(run.strays, testing::IsEmpty());
  EXPECT_THAT(Of(run), ElementsAre(Pair("task_name", Values{"mrpc"}),
                                   Pair("use_mps_device", Values{}),
                                   Pair("do_train", Values{}),
                                   Pair("output_dir", Values{"/tmp/mrpc/"})));
}

TEST(RunArguments, SpellingsOfAnArgument) {
  EXPECT_THAT(Of(Parse("--learning-rate=3e-5 --max_steps -1 --report_to a b "
                       "--seed 1 --seed 2")),
              ElementsAre(Pair("learning_rate", Values{"3e-5"}),
                          Pair("max_steps", Values{"-1"}),
                          Pair("report_to", Values{"a", "b"}),
                          Pair("seed", Values{"2"})));
}

TEST(RunArguments, ArgumentsAloneInLines) {
  EXPECT_EQ(Parse("--do_train\n--seed 1\n").arguments.size(), 2u);
  EXPECT_EQ(Parse("python run_glue.py\n--do_train\n--seed 1\necho done --x\n")
                .arguments.size(),
            2u);
}

TEST(RunArguments, LaunchersAndStrays) {
  const RunArguments run =
      Parse("cd x\ntorchrun --nproc_per_node 8 run_glue.py args --seed 1");
  EXPECT_EQ(run.script, "run_glue.py");
  EXPECT_THAT(run.launcher, ElementsAre("torchrun", "--nproc_per_node", "8"));
  EXPECT_THAT(run.strays, ElementsAre("args"));
}

TEST(RunArguments, Json) {
  const RunArguments run = Parse(R"( {"task_name": "mrpc", "do_train": true,
      "learning_rate": 2e-05, "report_to": ["a"], "seed": 1, "cache_dir": null,
      "lr_scheduler_kwargs": {"a": 1}})");
  EXPECT_EQ(run.script, "");
  EXPECT_THAT(
      Of(run),
      ElementsAre(Pair("task_name", Values{"mrpc"}),
                  Pair("do_train", Values{"true"}),
                  Pair("learning_rate", Values{"2e-05"}),
                  Pair("report_to", Values{"a"}), Pair("seed", Values{"1"}),
                  Pair("lr_scheduler_kwargs", Values{"{\"a\":1}"})));
}

TEST(RunArguments, RefusesWhatIsNeither) {
  for (const char* text : {"", "echo hello", "{\"a\": ", "--a 'b"}) {
    EXPECT_EQ(ParseRunArguments(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
  EXPECT_THAT(std::string(ParseRunArguments("echo").status().message()),
              HasSubstr("run_glue.py"));
}

}  // namespace
}  // namespace mpsd::client
