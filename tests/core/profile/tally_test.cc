// SPDX-License-Identifier: Apache-2.0
#include "core/profile/tally.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/core/profile/capture_builder.h"

namespace mpsd::profile {
namespace {

constexpr int64_t kMicro = 1000;

int64_t SumOfBlocks(const Tally& tally) {
  int64_t sum = 0;
  for (const auto& [name, cost] : tally.blocks) sum += cost.ns;
  return sum;
}

BlockCost Block(const Tally& tally, const std::string& name,
                Phase phase = Phase::kForward) {
  const auto found = tally.blocks.find({name, phase});
  return found == tally.blocks.end() ? BlockCost{} : found->second;
}

TEST(TallyTest, AnOperatorsOwnTimeIsWithoutTheCallsItMakes) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Call("linear", 10, 60);
  b.Call("t", 12, 15);
  b.Call("addmm", 20, 55);
  const Tally tally = b.tally();
  EXPECT_EQ(tally.steps, 1);
  EXPECT_EQ(tally.step_ns, 100 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::linear").self_ns, 12 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::addmm").self_ns, 35 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::t").calls, 1);
}

TEST(TallyTest, ABlocksTimeIsWithoutTheBlocksWithinItAndAllAddUp) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 0", 10, 90);
  b.Mark("attention", 20, 60);
  b.Mark("norm", 20, 30);
  b.Call("mul", 22, 28);
  b.Call("linear", 40, 50);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "norm").ns, 10 * kMicro);
  EXPECT_EQ(Block(tally, "attention").ns, 30 * kMicro);
  EXPECT_EQ(Block(tally, "layer").ns, 40 * kMicro);
  EXPECT_EQ(Block(tally, "step").ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "norm").operator_ns, 6 * kMicro);
  EXPECT_EQ(Block(tally, "attention").operator_ns, 10 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
  EXPECT_EQ(tally.layers.at(0).ns[0], 80 * kMicro);
}

TEST(TallyTest, ABlockWithinAnOperatorIsNotCountedTwice) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Call("outer", 0, 100);
  b.Mark("head", 20, 60);
  b.Call("inner", 30, 50);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "head").ns, 40 * kMicro);
  EXPECT_EQ(Block(tally, "head").operator_ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "step").operator_ns, 60 * kMicro);
  EXPECT_EQ(tally.operators.at("aten::outer").self_ns, 80 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
}

TEST(TallyTest, ThePhaseIsTheMarksOrThatOfTheBlockAroundIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 3 backward", 0, 50);
  b.Mark("attention again", 0, 10);
  b.Mark("norm", 2, 4);
  b.Mark("mlp backward", 10, 40);
  b.Mark("norm", 20, 30);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "attention", Phase::kAgain).ns, 8 * kMicro);
  EXPECT_EQ(Block(tally, "norm", Phase::kAgain).ns, 2 * kMicro);
  EXPECT_EQ(Block(tally, "mlp", Phase::kBackward).ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "norm", Phase::kBackward).ns, 10 * kMicro);
  EXPECT_EQ(tally.layers.at(3).ns[static_cast<size_t>(Phase::kBackward)],
            40 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
}

// A node's number is that of the call which made it: the last one that began
// with this number.
TEST(TallyTest, ANodeBelongsToTheBlockThatMadeIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 1", 0, 20).sequence = 5;
  b.Mark("attention", 0, 10).sequence = 5;
  b.Call("softmax", 1, 9).sequence = 5;
  b.Mark("mlp", 10, 20).sequence = 6;
  b.Call("silu", 11, 15).sequence = 6;
  b.Mark("backward", 50, 90);
  b.Add(EventKind::kNode, "SiluBackward0", 50, 60).sequence = 6;
  b.Call("silu_backward", 51, 59);
  b.Add(EventKind::kNode, "SoftmaxBackward0", 60, 80).sequence = 5;
  b.Add(EventKind::kNode, "AccumulateGrad", 80, 82);
  const Tally tally = b.tally();
  EXPECT_EQ(Block(tally, "mlp", Phase::kBackward).ns, 10 * kMicro);
  EXPECT_EQ(Block(tally, "attention", Phase::kBackward).ns, 20 * kMicro);
  EXPECT_EQ(Block(tally, "backward", Phase::kBackward).ns, 10 * kMicro);
  EXPECT_EQ(tally.layers.at(1).ns[static_cast<size_t>(Phase::kBackward)],
            30 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
}

TEST(TallyTest, GapsAreTimesWithoutAnOperatorNorAWaitForData) {
  CaptureBuilder b;
  b.Mark("step", 0, 1000);
  b.Mark("data", 0, 300);
  b.Call("a", 320, 400);  // after 20
  b.Call("b", 405, 500);  // after 5: too short to be counted
  b.Mark("head", 500, 800);
  b.Call("c", 600, 900);  // after 100, and the mark ends within it
  const Tally tally = b.tally();
  EXPECT_EQ(tally.gaps.ns, (20 + 5 + 100 + 200) * kMicro);
  EXPECT_EQ(tally.gaps.count, 3);
  EXPECT_EQ(tally.gaps.longest_ns, 200 * kMicro);
  EXPECT_EQ(tally.gaps.longest_before, "");
  EXPECT_EQ(tally.gaps.longest_block, "step");
}

TEST(TallyTest, APauseIsNoPartOfAStep) {
  CaptureBuilder b;
  b.Mark("step", 0, 1000);
  b.Mark("held", 100, 900);
  const Tally tally = b.tally();
  EXPECT_EQ(tally.step_ns, 200 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
  EXPECT_EQ(tally.gaps.ns, 200 * kMicro);
}

TEST(TallyTest, CallsThatWaitAreCountedButForTheStepsOwn) {
  CaptureBuilder b;
  b.Mark("step", 0, 1000);
  b.Mark("mlp", 0, 100);
  b.Call("item", 0, 50);
  b.Call("_local_scalar_dense", 10, 40);
  b.Add(EventKind::kRuntime, "cudaStreamSynchronize", 12, 38);
  b.Mark("read back", 900, 1000);
  b.Call("_to_copy", 900, 1000);
  b.Add(EventKind::kRuntime, "cudaStreamSynchronize", 910, 990);
  const Tally tally = b.tally();
  ASSERT_EQ(tally.waits.size(), 1u);
  const WaitCost& wait = tally.waits.at("aten::_local_scalar_dense");
  EXPECT_EQ(wait.calls, 1);
  EXPECT_EQ(wait.ns, 30 * kMicro);
  EXPECT_EQ(wait.blocks.at("mlp"), 1);
}

TEST(TallyTest, TheCpusAdamwReadsItsStepBesideIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Call("_fused_adamw_", 0, 50);
  b.Call("_local_scalar_dense", 10, 20);
  EXPECT_TRUE(b.tally().waits.empty());
}

TEST(TallyTest, TheDevicesTimeIsThatOfTheCallThatQueuedIt) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("layer 0", 0, 50);
  b.Call("mm", 0, 10).call = 7;
  b.Add(EventKind::kDevice, "gemm", 20, 60).call = 7;
  b.Add(EventKind::kDevice, "gemm", 40, 70).call = 7;
  b.Add(EventKind::kDevice, "unknown", 90, 95).call = 8;
  const Tally tally = b.tally();
  EXPECT_TRUE(tally.device_told);
  EXPECT_EQ(tally.operators.at("aten::mm").device_ns, 70 * kMicro);
  EXPECT_EQ(Block(tally, "layer").device_ns, 70 * kMicro);
  EXPECT_EQ(tally.layers.at(0).device_ns[0], 70 * kMicro);
  EXPECT_EQ(tally.device_busy_ns, (50 + 5) * kMicro);
  EXPECT_EQ(tally.device_window_ns, 100 * kMicro);
}

TEST(TallyTest, CapturesAddUpAndWhatIsOutsideOfAStepIsLeftOut) {
  CaptureBuilder b;
  b.Call("between", 0, 50);
  b.Mark("step", 100, 200);
  b.Mark("held", 210, 220);
  b.Mark("step", 300, 400);
  Tally tally;
  tally.Add(b.capture());
  tally.Add(b.capture());
  EXPECT_EQ(tally.steps, 4);
  EXPECT_EQ(tally.step_ns, 400 * kMicro);
  EXPECT_TRUE(tally.operators.empty());
  EXPECT_EQ(tally.events, 8);
  EXPECT_FALSE(tally.device_told);
}

// Clocks of two threads may disagree by a little.
TEST(TallyTest, WhatEndsAfterItsBlockIsCut) {
  CaptureBuilder b;
  b.Mark("step", 0, 100);
  b.Mark("backward", 10, 90);
  b.Call("late", 50, 95);
  const Tally tally = b.tally();
  EXPECT_EQ(tally.operators.at("aten::late").self_ns, 40 * kMicro);
  EXPECT_EQ(SumOfBlocks(tally), tally.step_ns);
}

TEST(TallyTest, AnEmptyCaptureAddsNothing) {
  Tally tally;
  tally.Add({});
  EXPECT_EQ(tally.steps, 0);
}

}  // namespace
}  // namespace mpsd::profile
