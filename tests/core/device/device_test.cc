// SPDX-License-Identifier: Apache-2.0
#include "core/device/device.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <stdlib.h>
#include <torch/csrc/autograd/custom_function.h>

#include <thread>
#include <vector>

#include "core/device/backends.h"
#include "core/host/machine.h"
#include "tests/core/status_matchers.h"

namespace mpsd::device {
namespace {

TEST(DeviceTest, RestoringTheStateRepeatsTheDraws) {
  const at::Tensor state = CpuRngState();
  const at::Tensor first = at::randn({8});
  EXPECT_FALSE(at::equal(first, at::randn({8})));
  SetCpuRngState(state);
  EXPECT_TRUE(at::equal(first, at::randn({8})));
}

TEST(DeviceTest, OpensWhatAJobChoosesOrTheBest) {
  auto best = OpenBest().value();
  const bool accelerated = OpenMps().ok() || OpenCuda().ok();
  EXPECT_EQ(best->traits().is_reference, !accelerated);
  using backend::Choice;
  EXPECT_EQ((*Open(Choice::kCpu))->name(), "cpu");
  EXPECT_EQ((*Open(Choice::kAuto))->name(), (*OpenBest())->name());
  EXPECT_EQ(Open(Choice::kCuda).ok(), OpenCuda().ok());
  EXPECT_EQ(Open(Choice::kMps).ok(), OpenMps().ok());
}

TEST(Backends, AreWhatOpensOrWhy) {
  const std::vector<Backend> all = ListBackends();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].name, "mps");
  EXPECT_EQ(all[1].name, "cuda");
  EXPECT_EQ(all[0].available, OpenMps().ok());
  EXPECT_EQ(all[1].available, OpenCuda().ok());
  for (const Backend& backend : all) {
    EXPECT_EQ(backend.available, backend.problem.empty()) << backend.name;
    EXPECT_EQ(backend.available, !backend.device.empty()) << backend.name;
    // What is available was built.
    EXPECT_GE(backend.built, backend.available) << backend.name;
  }
#ifndef __APPLE__
  EXPECT_FALSE(all[0].built);
#else
  EXPECT_TRUE(all[0].built);
#endif
}

// On a Mac without a device for MPS the guess is wrong.
TEST(Backends, TheLikelyBestIsWhatOpens) {
  const auto best = OpenBest().value();
  if (OpenMps().ok() || !ListBackends()[0].built) {
    EXPECT_EQ(backend::NameOf(LikelyBest()), best->name());
  }
}

TEST(Card, IsTheOneThatOpens) {
  const std::optional<Card> card = FirstCard();
  const auto device = OpenCuda();
  if (!device.ok()) return;
  ASSERT_TRUE(card);
  EXPECT_EQ((*device)->chip(), card->name);
  EXPECT_EQ((*device)->GetMemory().recommended_max.value_or(0) >> 30,
            card->memory_bytes >> 30);
}

TEST(Card, WithoutADriverThereIsNoCard) {
  EXPECT_FALSE(FirstCard("libno-such-driver.so.1"));
  // A library that is no driver.
  EXPECT_FALSE(FirstCard("libc.so.6"));
}

#ifndef __APPLE__
TEST(Card, HasTheNameAndMemoryThatTheDriverReports) {
  constexpr char kDriver[] = MPSD_TEST_BINARY_DIR "/fake_cuda/libcuda.so.1";
  unsetenv("FAKE_CARD");
  EXPECT_FALSE(FirstCard(kDriver)) << "a driver without a card";
  setenv("FAKE_CARD", "NVIDIA H100 80GB HBM3", 1);
  const std::optional<Card> card = FirstCard(kDriver);
  ASSERT_TRUE(card);
  EXPECT_EQ(card->name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(card->memory_bytes, int64_t{141} << 30);
  // A name that fills the driver's field.
  setenv("FAKE_CARD", std::string(1000, 'x').c_str(), 1);
  EXPECT_EQ(FirstCard(kDriver)->name, std::string(255, 'x'));
  unsetenv("FAKE_CARD");
}
#endif

TEST(CpuDeviceTest, SaysWhatItIsAndDrawsBySeed) {
  auto device = *OpenCpu();
  EXPECT_TRUE(device->traits().is_reference);
  EXPECT_EQ(device->name(), "cpu");
  EXPECT_TRUE(device->torch_device().is_cpu());
  EXPECT_EQ(device->chip(), host::ProcessorName());
  EXPECT_THAT(device->description(), testing::HasSubstr("threads"));
  const Memory memory = (*OpenCpu())->GetMemory();
  EXPECT_FALSE(memory.current_allocated.has_value());
  EXPECT_FALSE((*OpenCpu())->utilization_ratio().has_value());
  EXPECT_GT(memory.recommended_max.value_or(0), int64_t{1} << 28);
  device->Seed(7);
  const at::Tensor first = at::randn({8});
  device->Seed(7);
  EXPECT_TRUE(at::equal(first, at::randn({8})));
  device->Seed(8);
  EXPECT_FALSE(at::equal(first, at::randn({8})));
}

// Blocks of loading go back, those of a step stay.
TEST(CpuDeviceTest, FreedBlocksStayOnceStepsBegin) {
#if !defined(__GLIBC__) || defined(__SANITIZE_ADDRESS__) || \
    defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "another allocator";
#endif
  constexpr int64_t kBytes = int64_t{24} << 20;
  const auto touch = [] { at::ones({kBytes / 4}); };
  auto device = *OpenCpu();
  const int64_t before = host::ProcessFootprintBytes();
  touch();
  EXPECT_LT(host::ProcessFootprintBytes(), before + kBytes / 2);
  device->BeginSteps();
  touch();
  EXPECT_GT(host::ProcessFootprintBytes(), before + kBytes / 2);
  device->EmptyCache();
  EXPECT_LT(host::ProcessFootprintBytes(), before + kBytes / 2);
}

TEST(CudaDeviceTest, OpensOrSaysWhatIsMissing) {
  auto device = OpenCuda();
  if (!device.ok()) {
    EXPECT_THAT(device,
                Fails(absl::StatusCode::kFailedPrecondition, "no CUDA device"));
    return;
  }
  const int64_t before = *(*device)->GetMemory().current_allocated;
  const at::Tensor tensor =
      at::zeros({1 << 20}, at::device((*device)->torch_device()));
  EXPECT_GE(*(*device)->GetMemory().current_allocated - before, 4 << 20);
  (*device)->Seed(3);
  const at::Tensor state = (*device)->RngState();
  const at::Tensor first = at::randn_like(tensor).cpu();
  (*device)->SetRngState(state);
  EXPECT_TRUE(at::equal(first, at::randn_like(tensor).cpu()));
}

TEST(MpsDeviceTest, OpensOnAMacAndElsewhereSaysWhatItNeeds) {
  auto device = OpenMps();
  ASSERT_EQ(device.ok(), at::globalContext().hasMPS());
  if (!device.ok()) {
    EXPECT_THAT(device,
                Fails(absl::StatusCode::kFailedPrecondition, "Apple-silicon"));
    return;
  }
  EXPECT_EQ((*device)->name(), "mps");
  EXPECT_FALSE((*device)->traits().attends_fused());
  EXPECT_GT(*(*device)->GetMemory().recommended_max, 0);
}

constexpr int64_t kMiB = 1 << 20;

class MemoryWatchTest : public testing::Test {
 protected:
  std::optional<std::string> Step(int64_t allocated, int64_t driver) {
    Memory memory;
    memory.current_allocated = allocated * kMiB;
    memory.peak_allocated = (allocated + 5) * kMiB;
    memory.driver_allocated = driver * kMiB;
    memory.recommended_max = 1000 * kMiB;
    return watch_.Observe(memory);
  }
  void WarmUp() {
    for (int i = 0; i < 20; ++i) EXPECT_FALSE(Step(100, 150).has_value());
  }

  MemoryWatch watch_;
};

TEST_F(MemoryWatchTest, KeepsThePeaksOfADeviceWithCounters) {
  EXPECT_FALSE(watch_.Observe(Memory()));
  EXPECT_FALSE(watch_.summary().peak_allocated);
  EXPECT_FALSE(watch_.summary().peak_driver);
  EXPECT_FALSE(watch_.summary().overhead_growth);
  Step(100, 150);
  Step(300, 400);
  Step(200, 350);
  EXPECT_EQ(watch_.summary().peak_allocated, 305 * kMiB);
  EXPECT_EQ(watch_.summary().peak_driver, 400 * kMiB);
}

TEST_F(MemoryWatchTest, GraphsOfTheFirstStepsAreNoGrowth) {
  for (int i = 0; i < 10; ++i) Step(100, 120 + 10 * i);
  EXPECT_FALSE(watch_.summary().overhead_growth.has_value());
  for (int i = 0; i < 10; ++i) Step(100, 220);
  EXPECT_EQ(watch_.summary().overhead_growth, 0);
}

TEST_F(MemoryWatchTest, ReportsOnceThatTheDriverGrows) {
  WarmUp();
  EXPECT_FALSE(Step(200, 300).has_value()) << "tensors grew with it";
  EXPECT_FALSE(Step(100, 250).has_value());
  EXPECT_THAT(Step(100, 251).value(), HasSubstr("grown by 101 MiB to 151 MiB"));
  EXPECT_FALSE(Step(100, 300).has_value());
  EXPECT_EQ(watch_.summary().overhead_growth, 150 * kMiB);
}

TEST_F(MemoryWatchTest, ReportsOnceThatTheDeviceIsNearlyFull) {
  EXPECT_FALSE(Step(900, 950).has_value());
  EXPECT_THAT(Step(900, 951).value(), HasSubstr("951 MiB of the 1000 MiB"));
  EXPECT_FALSE(Step(900, 980).has_value());
}

using backend::Choice;

// As at::mps::mps_fallback words it, at one site for every operator.
void Fallback(const std::string& op) {
  TORCH_WARN_ONCE("The operator '", op,
                  "' is not currently supported on the MPS backend and will "
                  "fall back to run on the CPU. This may have performance "
                  "implications.");
}

TEST(WarningCapture, IsThatOfItsThread) {
  std::vector<std::string> reported;
  WarningCapture capture([&](const auto& text) { reported.push_back(text); });
  testing::internal::CaptureStderr();
  std::thread([] { TORCH_WARN("from elsewhere"); }).join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("from elsewhere"));
  EXPECT_THAT(reported, IsEmpty());
}

struct WarnsInBackward : torch::autograd::Function<WarnsInBackward> {
  static at::Tensor forward(torch::autograd::AutogradContext*,
                            const at::Tensor& x) {
    return x.clone();
  }
  static torch::autograd::variable_list backward(
      torch::autograd::AutogradContext*,
      const torch::autograd::variable_list& gradient) {
    Fallback("aten::only_in_backward");
    return gradient;
  }
};

TEST(WarningCapture, HearsBackward) {
  WarningCapture capture([](const std::string&) {});
  const at::Tensor x = at::ones({2}).requires_grad_();
  WarnsInBackward::apply(x).sum().backward();
  EXPECT_THAT(capture.cpu_fallback_ops(),
              ElementsAre(Pair("aten::only_in_backward", 1)));
}

}  // namespace
}  // namespace mpsd::device
