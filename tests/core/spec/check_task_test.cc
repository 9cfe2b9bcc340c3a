// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/spec/train_spec.h"

namespace mpsd::spec {
namespace {

using testing::HasSubstr;

absl::Status Check(Task task, Family family,
                   std::vector<std::string> architectures = {}) {
  TrainSpec spec;
  spec.task = task;
  ModelConfig config;
  config.family = family;
  config.model_type = "some";
  config.architectures = std::move(architectures);
  return CheckTask(spec, config);
}

TEST(CheckTask, EveryFamilyHasItsTasks) {
  EXPECT_TRUE(Check(Task::kCausalLm, Family::kDecoder).ok());
  EXPECT_TRUE(Check(Task::kSeqCls, Family::kDecoder).ok());
  EXPECT_TRUE(Check(Task::kSeqCls, Family::kEncoder).ok());
  EXPECT_TRUE(Check(Task::kImageCls, Family::kVision).ok());
}

TEST(CheckTask, SaysWhatTheModelIsFor) {
  const absl::Status bert = Check(Task::kCausalLm, Family::kEncoder);
  EXPECT_EQ(bert.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(bert.message()),
              HasSubstr("type \"some\" is for SEQ_CLS; set task"));
  EXPECT_FALSE(Check(Task::kImageCls, Family::kEncoder).ok());
  EXPECT_FALSE(Check(Task::kSeqCls, Family::kVision).ok());
  EXPECT_FALSE(Check(Task::kImageCls, Family::kDecoder).ok());
}

TEST(CheckTask, ALanguageModelNeedsItsHead) {
  EXPECT_TRUE(
      Check(Task::kCausalLm, Family::kDecoder, {"LlamaForCausalLM"}).ok());
  const absl::Status headless =
      Check(Task::kCausalLm, Family::kDecoder, {"LlamaModel"});
  EXPECT_EQ(headless.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(headless.message()), HasSubstr("\"LlamaModel\""));
  EXPECT_TRUE(Check(Task::kSeqCls, Family::kDecoder, {"LlamaModel"}).ok());
}

TEST(CheckTask, DynamicRopeEndsAtTheModelsPositions) {
  TrainSpec spec;
  ModelConfig config;
  config.max_position_embeddings = 64;
  config.dynamic_rope = true;
  spec.training.max_length = 64;
  EXPECT_TRUE(CheckTask(spec, config).ok());
  spec.training.max_length = 65;
  const absl::Status beyond = CheckTask(spec, config);
  EXPECT_EQ(beyond.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(beyond.message()),
              HasSubstr("max_length: 65 is more than the "
                        "max_position_embeddings of the model (64)"));
  config.dynamic_rope = false;
  EXPECT_TRUE(CheckTask(spec, config).ok());
}

}  // namespace
}  // namespace mpsd::spec
