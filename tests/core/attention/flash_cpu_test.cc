// SPDX-License-Identifier: Apache-2.0
#include "core/attention/flash_cpu.h"

#include "tests/core/attention/reference.h"

namespace mpsd::attention {
namespace {

AttentionPlan PlanOf(const TokenLayout& layout) {
  AttentionPlan plan;
  plan.forward = plan.backward = PlannedKernel::kFlashCpu;
  plan.rows = layout.rows;
  plan.length = layout.length;
  plan.segments = layout.segment_lengths;
  return plan;
}

void ExpectReferenceOf(const AttentionPlan& plan) {
  ExpectReference(
      plan, [&](AttentionTape& tape) { return FlashCpuForward(plan, tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return FlashCpuBackward(dout, plan, tape);
      });
}

TEST(FlashCpuTest, RowsAttendWithinThemselves) {
  at::manual_seed(1);
  ExpectReferenceOf(PlanOf(Rows(3, 20)));
}

TEST(FlashCpuTest, SegmentsOfPackedRowsAttendWithinThemselves) {
  at::manual_seed(2);
  ExpectReferenceOf(PlanOf(PackedRows(2, 24)));
}

TEST(FlashCpuTest, KeepsOneSumASegment) {
  const AttentionPlan plan = PlanOf(PackedRows(2, 24));
  const AttentionInputs x = RandomInputs(plan);
  AttentionTape tape;
  tape.q = x.q;
  tape.k = x.k;
  tape.v = x.v;
  FlashCpuForward(plan, tape);
  EXPECT_EQ(tape.lse.size(), plan.segments.size());
}

TEST(FlashCpuDeathTest, HasNoWindow) {
  AttentionPlan plan = PlanOf(Rows(1, 8));
  plan.window = 4;
  AttentionTape tape;
  EXPECT_DEATH(FlashCpuForward(plan, tape), "the window of a flash");
}

}  // namespace
}  // namespace mpsd::attention
