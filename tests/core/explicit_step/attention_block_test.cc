// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/attention_block.h"

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

class AttentionBlockTest : public testing::TestWithParam<Choice> {};

at::Tensor Reference(const model::DecoderLayer& layer, const at::Tensor& x,
                     const model::RotaryTable& table, int64_t rows,
                     int64_t length) {
  const at::Tensor n = layer.input_norm.Forward(x);
  const auto heads = [&](const at::Tensor& y) {
    return y.view({rows, length, -1, 8});
  };
  at::Tensor q = heads(layer.q.Forward(n)), k = heads(layer.k.Forward(n));
  const at::Tensor v = heads(layer.v.Forward(n));
  if (layer.q_norm) {
    q = layer.q_norm->Forward(q);
    k = layer.k_norm->Forward(k);
  }
  const at::Tensor out = attention::CausalAttention(
      model::Rotary::Apply(q.transpose(1, 2), table),
      model::Rotary::Apply(k.transpose(1, 2), table), v.transpose(1, 2), {},
      attention::AttentionKernel::kFused);
  return x + layer.o.Forward(out.transpose(1, 2).reshape({rows * length, -1}));
}

void ExpectSame(const Tiny& tiny, Choice choice) {
  const model::DecoderLayer& layer = tiny.layer();
  const attention::HeadShape shape{4, 2, 8};
  Options options;
  options.traits = backend::TraitsOf(choice);
  LoraPack pack;
  const AttentionBlock block(layer, shape, options, pack);
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
  at::manual_seed(9);
  const model::DecoderInputs inputs = Inputs(2, 10);
  const model::RotaryTable table =
      tiny.decoder->rotary().Table(inputs.position_ids, at::kFloat);
  const at::Tensor x = at::randn({20, 16}).requires_grad_(true);
  const at::Tensor dh = at::randn({20, 16});
  const at::Tensor h = Reference(layer, x, table, 2, 10);
  h.backward(dh);
  const auto expected = tiny.TakeGradients();

  const attention::AttentionPlan plan = attention::PlanAttention(
      inputs.layout(), 0, /*by_position=*/false, shape, options);
  const RopeTable rope = MakeRopeTable(table, 6, options);
  AttentionBlockTape tape;
  const at::Tensor ours = block.Forward(x.detach(), plan, rope, tape);
  EXPECT_LE(RelativeError(ours, h), 1e-6);
  tape.KeepAdaptersOnly();
  EXPECT_TRUE(
      at::equal(block.ForwardAgain(x.detach(), plan, rope, tape), ours));
  const at::Tensor dx = block.Backward(dh.clone(), x.detach(), plan, rope, tape,
                                       /*wants_dx=*/true);
  EXPECT_LE(RelativeError(dx, x.grad()), 2e-6);
  pack.CollectGradients();
  const auto grads = tiny.TakeGradients();
  for (size_t i = 0; i < grads.size(); ++i) {
    if (expected[i].abs().max().item<float>() == 0) continue;
    EXPECT_LE(RelativeError(grads[i], expected[i]), 2e-6) << i;
  }
}

TEST_P(AttentionBlockTest, IsTheModelsAttentionWithItsGradients) {
  ExpectSame(Tiny(), GetParam());
}

TEST_P(AttentionBlockTest, NormsOfQueriesAndKeys) {
  ExpectSame(Tiny("", Tiny::AllLinear(), "qwen3"), GetParam());
}

INSTANTIATE_TEST_SUITE_P(Kernels, AttentionBlockTest,
                         testing::Values(Choice::kCpu, Choice::kMps));

}  // namespace
}  // namespace mpsd::explicit_step
