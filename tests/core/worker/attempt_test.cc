// SPDX-License-Identifier: Apache-2.0
#include "core/worker/attempt.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>

namespace mpsd::worker {
namespace {

TEST(AttemptTest, WhatRunsThroughIsOk) {
  bool ran = false;
  EXPECT_TRUE(Attempt([&ran] { ran = true; }).ok());
  EXPECT_TRUE(ran);
}

// MPS' allocator throws plain errors, CUDA's a type of its own, the CPU's a
// plain one again, and the host's standard library another.
TEST(AttemptTest, EveryWayOfRunningOutOfMemoryIsAStatus) {
  const std::function<void()> ways[] = {
      [] {
        TORCH_CHECK(false,
                    "MPS backend out of memory (MPS allocated: 4.00 GB, other "
                    "allocations: 1.00 GB, max allowed: 5.00 GB). Tried to "
                    "allocate 1.00 GB on private pool.");
      },
      [] { TORCH_CHECK(false, "Invalid buffer size: 90.00 GB"); },
      [] {
        TORCH_CHECK_WITH(OutOfMemoryError, false,
                         "CUDA out of memory. Tried to allocate 2.00 GiB.");
      },
      [] { at::empty({int64_t{1} << 60}, at::kByte); },
      [] { throw std::bad_alloc(); },
      [] { throw std::runtime_error("CUDA error: out of memory"); },
  };
  for (const auto& way : ways) {
    const absl::Status status = Attempt(way);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_FALSE(status.message().empty());
  }
}

TEST(AttemptTest, OtherExceptionsPassThrough) {
  EXPECT_THROW(Attempt([] { at::zeros({2}).view({3}); }).IgnoreError(),
               c10::Error);
  EXPECT_THROW(Attempt([] { throw std::logic_error("x"); }).IgnoreError(),
               std::logic_error);
}

}  // namespace
}  // namespace mpsd::worker
