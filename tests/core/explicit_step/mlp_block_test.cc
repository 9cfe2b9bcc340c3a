// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/mlp_block.h"

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

// Whether the adapters' part alone is kept.
class MlpBlockTest : public testing::TestWithParam<bool> {};

TEST_P(MlpBlockTest, IsTheModelsMlpWithItsGradients) {
  const Tiny tiny;
  const model::DecoderLayer& layer = tiny.layer();
  const Options options;
  LoraPack pack;
  const MlpBlock block(layer, options, pack);
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
  at::manual_seed(8);
  const at::Tensor h = at::randn({9, 16}).requires_grad_(true);
  const at::Tensor dy = at::randn({9, 16});
  const at::Tensor n = layer.post_attention_norm.Forward(h);
  const at::Tensor y = h + layer.down.Forward(at::silu(layer.gate.Forward(n)) *
                                              layer.up.Forward(n));
  y.backward(dy);
  const auto expected = tiny.TakeGradients();

  MlpTape tape;
  EXPECT_LE(RelativeError(block.Forward(h.detach(), tape), y), 1e-6);
  if (GetParam()) {
    tape.KeepAdaptersOnly();
    EXPECT_FALSE(tape.gate.defined());
    block.ForwardAgain(h.detach(), tape);
  }
  const at::Tensor dh =
      block.Backward(dy.clone(), h.detach(), tape, /*wants_dh=*/true);
  EXPECT_LE(RelativeError(dh, h.grad()), 2e-6);
  pack.CollectGradients();
  const auto ours = tiny.TakeGradients();
  for (size_t i = 0; i < ours.size(); ++i) {
    if (expected[i].abs().max().item<float>() == 0) continue;
    EXPECT_LE(RelativeError(ours[i], expected[i]), 2e-6) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Keep, MlpBlockTest, testing::Bool());

}  // namespace
}  // namespace mpsd::explicit_step
