// SPDX-License-Identifier: Apache-2.0
#include "core/train/queue_limit.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/fakes/fake_clock.h"

namespace mpsd::train {
namespace {

// Computes while it is waited for, `micro_batch` for each that was queued.
class SlowDevice final : public device::Device {
 public:
  explicit SlowDevice(fakes::FakeClock& clock) : clock_(clock) {}

  void Synchronize() override {
    ++waits;
    clock_.Advance(queued * micro_batch);
    queued = 0;
  }

  at::Device torch_device() const override { return cpu_->torch_device(); }
  std::string name() const override { return "slow"; }
  std::string description() const override { return ""; }
  void Commit() override {}
  device::Memory GetMemory() const override { return {}; }
  void ResetPeak() override {}
  void EmptyCache() override {}
  void Seed(uint64_t) override {}
  at::Tensor RngState() const override { return {}; }
  void SetRngState(const at::Tensor&) override {}

  absl::Duration micro_batch;
  int64_t queued = 0;
  int waits = 0;

 private:
  fakes::FakeClock& clock_;
  const std::unique_ptr<device::Device> cpu_ = *device::OpenCpu();
};

class QueueLimitTest : public testing::Test {
 protected:
  // A step as Stepper runs it; the most that was queued at any time.
  int64_t Step(int micro_batches) {
    int64_t most = 0;
    limit_.Begin();
    for (int i = 0; i < micro_batches; ++i) {
      if (i > 0) limit_.Queued();
      most = std::max(most, ++device_.queued);
    }
    device_.Synchronize();  // its read-back
    limit_.Done();
    return most;
  }

  fakes::FakeClock clock_;
  SlowDevice device_{clock_};
  QueueLimit limit_{device_, clock_};
};

TEST_F(QueueLimitTest, SlowMicroBatchesAreDoneOneByOne) {
  device_.micro_batch = absl::Seconds(12);
  for (int step = 0; step < 3; ++step) EXPECT_EQ(Step(64), 1);
}

TEST_F(QueueLimitTest, OfShortOnesAsManyAsTwoSecondsTake) {
  device_.micro_batch = absl::Milliseconds(100);
  Step(64);
  device_.waits = 0;
  EXPECT_EQ(Step(64), 20);
  EXPECT_EQ(device_.waits, 3 + 1);
}

TEST_F(QueueLimitTest, AQuickStepIsNotWaitedFor) {
  device_.micro_batch = absl::Milliseconds(10);
  Step(8);
  EXPECT_EQ(device_.waits, 1 + 1) << "how long one takes must be learnt once";
  device_.waits = 0;
  EXPECT_EQ(Step(8), 8);
  EXPECT_EQ(device_.waits, 1) << "the read-back alone";
}

TEST_F(QueueLimitTest, FollowsADeviceThatBecomesSlower) {
  device_.micro_batch = absl::Milliseconds(10);
  Step(8);
  device_.micro_batch = absl::Seconds(10);
  Step(8);  // what was learnt no longer holds: all of it is queued
  EXPECT_EQ(Step(8), 1);
}

TEST_F(QueueLimitTest, TimeBetweenStepsIsNoMicroBatchs) {
  device_.micro_batch = absl::Milliseconds(10);
  Step(8);
  clock_.Advance(absl::Hours(1));  // an evaluation
  EXPECT_EQ(Step(8), 8);
}

}  // namespace
}  // namespace mpsd::train
