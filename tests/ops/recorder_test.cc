// SPDX-License-Identifier: Apache-2.0
#include "tests/ops/recorder.h"

#include <ATen/ATen.h>
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
  recorder.Close("second");
  const auto& parts = recorder.parts();
  ASSERT_EQ(parts.size(), 2);
  EXPECT_EQ(parts[0].name, "first");
  EXPECT_EQ(parts[0].kernels, 4);  // empty, add_, sum, _local_scalar_dense
  EXPECT_EQ(parts[0].bytes, 1024 + 4);
  EXPECT_EQ(parts[0].peak, 1024 + 4);
  EXPECT_EQ(parts[0].syncs, 1);
  EXPECT_THAT(parts[0].uploads, ElementsAre());
  EXPECT_THAT(parts[1].uploads, ElementsAre(std::vector<int64_t>{2}));
  EXPECT_EQ(parts[1].syncs, 0);
}

}  // namespace
}  // namespace mpsd::ops
