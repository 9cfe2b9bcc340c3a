// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/recorder.h"

#include <ATen/ATen.h>
#include <ATen/detail/MPSHooksInterface.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::ops {
namespace {

using testing::ElementsAre;

TEST(RecorderTest, CountsAPart) {
  InstallFakeMps();
  const at::Tensor kept = at::zeros({256}, at::device(at::kMPS));
  Recorder recorder;
  {
    const at::Tensor a = at::empty({256}, at::device(at::kMPS));
    kept.add_(a);
    kept.sum().item<float>();
  }
  recorder.Close("first");
  at::tensor({int64_t{1}, int64_t{2}}).to(at::kMPS);
  at::zeros({8}).index_select(0, at::zeros({3}, at::kLong));
  const auto longs = at::device(at::kMPS).dtype(at::kLong);
  kept.view({16, 16}).index_select(0, at::zeros({5}, longs));
  kept.index_select(0, at::zeros({7}, longs));  // numbers, no rows
  recorder.Close("second");
  at::detail::getMPSHooks().deviceSynchronize();
  recorder.Close("third");
  const auto& parts = recorder.parts();
  ASSERT_EQ(parts.size(), 3);
  EXPECT_EQ(parts[0].name, "first");
  EXPECT_EQ(parts[0].kernels, 4);  // empty, add_, sum, _local_scalar_dense
  EXPECT_EQ(parts[0].bytes, 1024 + 4);
  EXPECT_EQ(parts[0].peak, 1024 + 4);
  EXPECT_EQ(parts[0].syncs, 1);
  EXPECT_EQ(parts[0].uploads, 0);
  EXPECT_EQ(parts[1].uploads, 1);
  EXPECT_EQ(parts[1].syncs, 1);  // that copy is waited for
  EXPECT_THAT(parts[1].picked, ElementsAre(5));
  EXPECT_EQ(parts[2].syncs, 1);
}

}  // namespace
}  // namespace mpsd::ops
