// SPDX-License-Identifier: Apache-2.0
#include "server/planner/spec_shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace mpsd::planner {
namespace {

using testing::HasSubstr;

std::string Spec(const std::string& more, const std::string& dataset = "") {
  return R"({"model": "org/m", "dataset": {"train": "t.jsonl")" + dataset +
         "}" + more + "}";
}

jobs::SubmitRequest Request(const std::string& spec) {
  jobs::SubmitRequest request;
  request.spec_json = spec;
  request.inputs = {{"t.jsonl", std::string(64, 'a')}};
  return request;
}

std::string ShapeOf(const std::string& more) {
  return SpeedShape(*spec::ParseTrainSpec(Spec(more), "job.json"));
}

TEST(SpeedShape, IsThatOfTheRowsAndTheAdapter) {
  const std::string shape = ShapeOf("");
  for (const char* same :
       {R"(, "name": "x")", R"(, "training": {"learning_rate": 1})",
        R"(, "training": {"num_train_epochs": 9, "seed": 3})",
        R"(, "lora": {"lora_alpha": 99})"}) {
    EXPECT_EQ(ShapeOf(same), shape) << same;
  }
  for (const char* other :
       {R"(, "training": {"max_length": 77})", R"(, "lora": {"r": 9})",
        R"(, "training": {"per_device_train_batch_size": 2})",
        R"(, "training": {"bf16": true})", R"(, "training": {"packing": true})",
        R"(, "training": {"gradient_checkpointing": true})",
        R"(, "quantization_config": {"load_in_4bit": true})",
        R"(, "gradients": "autograd")"}) {
    EXPECT_NE(ShapeOf(other), shape) << other;
  }
}

TEST(CheckSameSteps, RatesNamesAndTheLengthOfTheRunDoNotCount) {
  const jobs::SubmitRequest probed = Request(Spec(""));
  for (const char* more :
       {"", R"(, "name": "x", "training": {"learning_rate": 1, "max_steps": 7,
                "save_steps": 3, "lr_scheduler_type": "cosine", "seed": 1})"}) {
    EXPECT_EQ(CheckSameSteps(probed, Request(Spec(more))), absl::OkStatus());
  }
  jobs::SubmitRequest evaluated = Request(Spec("", R"(, "eval": "e.jsonl")"));
  evaluated.inputs.push_back({"e.jsonl", std::string(64, 'b')});
  EXPECT_EQ(CheckSameSteps(probed, evaluated), absl::OkStatus());
}

TEST(CheckSameSteps, NamesTheFieldThatIsAnother) {
  const jobs::SubmitRequest probed = Request(Spec(""));
  const absl::Status length = CheckSameSteps(
      probed, Request(Spec(R"(, "training": {"max_length": 77})")));
  EXPECT_TRUE(absl::IsInvalidArgument(length));
  EXPECT_THAT(std::string(length.message()),
              HasSubstr("training.max_length was 1024 and is 77"));
  EXPECT_THAT(
      std::string(CheckSameSteps(
                      probed, Request(Spec(R"(, "lora": {"layers_to_transform":
                           [1], "target_modules": ["q_proj"]})")))
                      .message()),
      HasSubstr("lora."));
}

TEST(CheckSameSteps, OtherDataAreAnotherJob) {
  const jobs::SubmitRequest probed = Request(Spec(""));
  jobs::SubmitRequest planned = probed;
  planned.inputs[0].sha256 = std::string(64, 'b');
  EXPECT_THAT(std::string(CheckSameSteps(probed, planned).message()),
              HasSubstr("the file 't.jsonl' is another"));
  planned = probed;
  planned.inputs.push_back({"t2.jsonl", std::string(64, 'a')});
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSameSteps(probed, planned)));
}

TEST(CheckSameSteps, AProbeThatNobodyCanReadIsAnotherJob) {
  EXPECT_THAT(
      std::string(CheckSameSteps(Request("{\"gone\": 1}"), Request(Spec("")))
                      .message()),
      HasSubstr("cannot read its job.json"));
}

}  // namespace
}  // namespace mpsd::planner
