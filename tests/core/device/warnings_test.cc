// SPDX-License-Identifier: Apache-2.0
#include "core/device/warnings.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <thread>
#include <vector>

namespace mpsd::device {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

// As at::mps::mps_fallback words it, at one site for every operator.
void Fallback(const std::string& op) {
  TORCH_WARN_ONCE("The operator '", op,
                  "' is not currently supported on the MPS backend and will "
                  "fall back to run on the CPU. This may have performance "
                  "implications.");
}

TEST(CpuFallbackOp, IsTheNameBetweenTheQuotes) {
  EXPECT_EQ(CpuFallbackOp("The operator 'aten::linalg_svd.U' is not currently "
                          "supported on the MPS backend and will fall back to "
                          "run on the CPU. This may have performance "
                          "implications. (function operator())"),
            "aten::linalg_svd.U");
  for (const char* other :
       {"", "The operator 'aten::x' is deprecated",
        "it will fall back to run on the CPU",
        "The operator 'aten::x will fall back to run on the CPU"}) {
    EXPECT_EQ(CpuFallbackOp(other), "") << other;
  }
}

TEST(WarningCapture, CountsEveryFallbackByItsName) {
  std::vector<std::string> told;
  WarningCapture capture(
      [&](const std::string& text) { told.push_back(text); });
  for (int i = 0; i < 3; ++i) Fallback("aten::linalg_eig");
  Fallback("aten::col2im");
  EXPECT_THAT(
      capture.cpu_fallback_ops(),
      ElementsAre(Pair("aten::col2im", 1), Pair("aten::linalg_eig", 3)));
  EXPECT_THAT(told, IsEmpty());
}

TEST(WarningCapture, TellsOtherTextsOnce) {
  std::vector<std::string> told;
  {
    WarningCapture capture(
        [&](const std::string& text) { told.push_back(text); });
    for (int i = 0; i < 3; ++i) TORCH_WARN("a deprecated call");
    TORCH_WARN("another");
    EXPECT_THAT(capture.cpu_fallback_ops(), IsEmpty());
  }
  EXPECT_THAT(told, ElementsAre("a deprecated call", "another"));
  EXPECT_FALSE(c10::WarningUtils::get_warnAlways()) << "as it was before";
}

TEST(WarningCapture, IsThatOfItsThread) {
  std::vector<std::string> told;
  WarningCapture capture(
      [&](const std::string& text) { told.push_back(text); });
  testing::internal::CaptureStderr();
  std::thread([] { TORCH_WARN("from elsewhere"); }).join();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              testing::HasSubstr("from elsewhere"));
  EXPECT_THAT(told, IsEmpty());
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
