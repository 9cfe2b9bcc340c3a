// SPDX-License-Identifier: Apache-2.0
// The self-test against kernels that are wrong on purpose, one of each group.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/device/device.h"
#include "core/selftest/checks.h"
#include "core/selftest/selftest.h"
#include "tests/core/selftest/passes.h"
#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

using selftest::Check;
using selftest::Sizes;
using testing::HasSubstr;

using Spoil = std::function<void(at::Tensor&)>;

// What kernels of real releases did: one place left unwritten, a last tile
// computed from what lay behind the matrix, work that was dropped, a result
// that drifts.
void LosesOnePlace(at::Tensor& t) {
  if (t.is_floating_point() && t.numel() > 0) t.flatten()[-1].zero_();
}
void Drifts(at::Tensor& t) {
  if (t.is_floating_point()) t.mul_(1.05);
}
void Drops(at::Tensor& t) {
  if (t.is_floating_point()) t.zero_();
}

std::vector<Check> TiledAttention(const Sizes& sizes) {
  return selftest::AttentionChecks(sizes, /*own=*/false);
}

struct Wrong {
  friend void PrintTo(const Wrong& w, std::ostream* out) { *out << w.name; }
  std::string name;
  std::vector<Check> (*checks)(const Sizes&);
  std::string op;  // the kernel that is wrong
  Spoil spoil;
  std::string caught;  // by a check of this name
};

class SpoiltKernels : public testing::TestWithParam<Wrong> {
 protected:
  SpoiltKernels() { InstallFakeMps(); }
  ~SpoiltKernels() override { SpoilKernel(GetParam().op, nullptr); }
  std::string Failures() {
    const auto device = *device::OpenMps();
    std::string failures;
    for (const auto& result :
         selftest::RunChecks(*device, GetParam().checks(selftest::Small()))
             .results) {
      if (!result.passed()) failures += selftest::TableRow(result);
    }
    return failures;
  }
};

TEST_P(SpoiltKernels, AreCaught) {
  EXPECT_EQ(Failures(), "");
  SpoilKernel(GetParam().op, GetParam().spoil);
  EXPECT_THAT(Failures(), HasSubstr(GetParam().caught));
}

INSTANTIATE_TEST_SUITE_P(
    Selftest, SpoiltKernels,
    testing::Values(
        Wrong{"linear", selftest::MatrixChecks, "aten::linear", LosesOnePlace,
              "linear, gradients"},
        Wrong{"linear_backward", selftest::MatrixChecks,
              "aten::linear_backward", LosesOnePlace, "linear, gradients"},
        Wrong{"mm", selftest::MatrixChecks, "aten::mm", Drifts,
              "matmul, longest sum"},
        Wrong{"bmm", selftest::MatrixChecks, "aten::bmm", LosesOnePlace,
              "bmm, right side transposed"},
        Wrong{"rms_norm", selftest::LayerChecks, "aten::rsqrt", Drifts,
              "RMS norm"},
        Wrong{"layer_norm", selftest::LayerChecks, "aten::native_layer_norm",
              Drifts, "layer norm"},
        Wrong{"layer_norm_backward", selftest::LayerChecks,
              "aten::native_layer_norm_backward", LosesOnePlace, "layer norm"},
        Wrong{"silu", selftest::LayerChecks, "aten::silu", Drifts, "silu"},
        Wrong{"gelu_backward", selftest::LayerChecks, "aten::gelu_backward",
              Drifts, "gelu"},
        Wrong{"rotary", selftest::LayerChecks, "aten::sin", Drops, "rotary"},
        Wrong{"embedding_backward", selftest::LayerChecks,
              "aten::embedding_dense_backward", Drifts, "embedding"},
        Wrong{"softmax", selftest::LayerChecks, "aten::_softmax", Drifts,
              "softmax"},
        Wrong{"tiled", TiledAttention, "aten::bmm", LosesOnePlace,
              "tiled attention"},
        Wrong{"head_loss", selftest::LossChecks, "aten::_log_softmax", Drifts,
              "head and cross-entropy"},
        Wrong{"head_loss_scatter", selftest::LossChecks, "aten::scatter_add_",
              Drops, "head and cross-entropy"},
        Wrong{"class_loss", selftest::LossChecks, "aten::nll_loss_forward",
              Drifts, "single_label"},
        Wrong{"copies", selftest::DeviceChecks, "aten::copy_", LosesOnePlace,
              "copies"},
        Wrong{"casts", selftest::DeviceChecks, "aten::copy_", Drifts, "casts"},
        Wrong{"gather", selftest::DeviceChecks, "aten::gather", LosesOnePlace,
              "gather, scatter"},
        Wrong{"normal", selftest::DeviceChecks, "aten::normal_", Drifts,
              "random numbers, moments"},
        Wrong{"dropout", selftest::DeviceChecks, "aten::native_dropout",
              LosesOnePlace, "dropout"},
        Wrong{"adamw", selftest::DeviceChecks, "aten::_fused_adamw_", Drifts,
              "AdamW"},
        Wrong{"lost_work", selftest::DeviceChecks, "aten::fill_", Drops,
              "no work is lost"}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mpsd::ops
