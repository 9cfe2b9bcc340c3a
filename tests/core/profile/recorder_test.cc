// SPDX-License-Identifier: Apache-2.0
#include "core/profile/recorder.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/base/file.h"
#include "core/profile/block_mark.h"
#include "core/profile/tally.h"
#include "nlohmann/json.hpp"
#include "tests/core/scratch_folder.h"

namespace mpsd::profile {
namespace {

// A step with a forward of two blocks and autograd's backward.
void Step(const at::Tensor& weight) {
  const BlockMark step("mpsd::step");
  at::Tensor x = at::ones({32, 32});
  {
    const BlockMark layer(0, "");
    const BlockMark block("mpsd::attention");
    x = at::softmax(at::mm(x, weight), -1);
  }
  {
    const BlockMark layer(1, "");
    const BlockMark block("mpsd::mlp");
    x = at::silu(at::mm(x, weight));
  }
  const at::Tensor loss = x.sum();
  const BlockMark backward("mpsd::backward");
  loss.backward();
}

class RecorderTest : public testing::Test {
 protected:
  const at::Tensor weight_ = at::rand({32, 32}).requires_grad_(true);
  Recorder recorder_;
};

TEST_F(RecorderTest, RecordsCallsMarksAndNodes) {
  recorder_.Start();
  EXPECT_TRUE(recorder_.recording());
  Step(weight_);
  Step(weight_);
  const Capture capture = recorder_.Stop();
  EXPECT_FALSE(recorder_.recording());
  Tally tally;
  tally.Add(capture);
  EXPECT_EQ(tally.steps, 2);
  EXPECT_EQ(tally.operators.at("aten::silu").calls, 2);
  const auto block = [&](const char* name, Phase phase) {
    return tally.blocks.count({name, phase}) > 0
               ? tally.blocks.at({name, phase}).ns
               : 0;
  };
  for (const char* name : {"attention", "mlp"}) {
    EXPECT_GT(block(name, Phase::kForward), 0) << name;
    // By autograd: the nodes go back to where they were made.
    EXPECT_GT(block(name, Phase::kBackward), 0) << name;
  }
  ASSERT_EQ(tally.layers.size(), 2u);
  for (const int64_t layer : {0, 1}) {
    EXPECT_GT(tally.layers.at(layer).ns[static_cast<int>(Phase::kBackward)], 0);
  }
  int64_t sum = 0;
  for (const auto& [name, cost] : tally.blocks) sum += cost.ns;
  EXPECT_EQ(sum, tally.step_ns);
  EXPECT_TRUE(tally.waits.empty());
}

TEST_F(RecorderTest, ABlockingCopyIsSeen) {
  recorder_.Start();
  {
    const BlockMark step("mpsd::step");
    const BlockMark block("mpsd::mlp");
    at::ones({1}).item();
  }
  Tally tally;
  tally.Add(recorder_.Stop());
  ASSERT_EQ(tally.waits.size(), 1u);
  EXPECT_EQ(tally.waits.at("aten::_local_scalar_dense").blocks.at("mlp"), 1);
}

TEST_F(RecorderTest, WhatRanBeforeAndAfterIsNotRecorded) {
  Step(weight_);
  recorder_.Start();
  const Capture empty = recorder_.Stop();
  Tally tally;
  tally.Add(empty);
  EXPECT_EQ(tally.steps, 0);
  Step(weight_);
  recorder_.Start();
  Step(weight_);
  tally.Add(recorder_.Stop());
  EXPECT_EQ(tally.steps, 1);
}

TEST_F(RecorderTest, SavesATraceInChromesFormat) {
  const auto folder = testing_support::FreshFolder("recorder");
  EXPECT_FALSE(recorder_.Save(folder / "trace.json").ok());
  recorder_.Start();
  Step(weight_);
  recorder_.Stop();
  const absl::Status saved = recorder_.Save(folder / "trace.json");
  ASSERT_TRUE(saved.ok()) << saved;
  const auto trace =
      nlohmann::json::parse(*base::ReadFile(folder / "trace.json"));
  std::set<std::string> names;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_TRUE(event.at("ts").is_number());
    EXPECT_GE(event.at("dur").get<double>(), 0);
    names.insert(event.at("name"));
  }
  for (const char* name : {"mpsd::step", "mpsd::layer 1", "mpsd::attention",
                           "mpsd::backward", "aten::mm"}) {
    EXPECT_TRUE(names.contains(name)) << name;
  }
}

TEST_F(RecorderTest, APathThatCannotBeWrittenIsSaid) {
  recorder_.Start();
  Step(weight_);
  recorder_.Stop();
  const auto folder = testing_support::FreshFolder("recorder_file");
  std::ofstream(folder / "file") << "no folder";
  const std::filesystem::path path = folder / "file" / "trace.json";
  const absl::Status saved = recorder_.Save(path);
  EXPECT_EQ(saved.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(saved.message(), testing::HasSubstr(path.string()));
}

TEST(RecorderLifeTest, OneThatRecordsMayEnd) {
  {
    Recorder recorder;
    recorder.Start();
  }
  Recorder next;
  next.Start();
  Step(at::rand({4, 32}).new_ones({32, 32}).requires_grad_(true));
  Tally tally;
  tally.Add(next.Stop());
  EXPECT_EQ(tally.steps, 1);
}

}  // namespace
}  // namespace mpsd::profile
