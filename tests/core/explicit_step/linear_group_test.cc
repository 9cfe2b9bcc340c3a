// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/linear_group.h"

#include <ATen/Parallel.h>

#include "tests/core/explicit_step/tiny.h"

namespace mpsd::explicit_step {
namespace {

class LinearGroupTest : public testing::TestWithParam<Choice> {
 protected:
  LinearGroupTest() { options_.traits = backend::TraitsOf(GetParam()); }
  Options options_;
};

TEST_P(LinearGroupTest, IsItsLinearsWithTheirGradients) {
  const Tiny tiny(R"(, "attention_bias": true)");
  const model::DecoderLayer& layer = tiny.layer();
  LoraPack pack;
  const LinearGroup group({{&layer.q, &layer.k}, {&layer.v}}, {}, options_,
                          pack);
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
  at::manual_seed(6);
  const at::Tensor x = at::randn({10, 16}).requires_grad_(true);
  const std::vector<at::Tensor> dy = {at::randn({10, 48}), at::randn({10, 16})};
  const at::Tensor qk = at::cat({layer.q.Forward(x), layer.k.Forward(x)}, 1);
  const at::Tensor v = layer.v.Forward(x);
  ((qk * dy[0]).sum() + (v * dy[1]).sum()).backward();
  const auto expected = tiny.TakeGradients();

  LoraTape tape;
  const auto y = group.Forward(x.detach(), {}, tape);
  EXPECT_LE(RelativeError(y[0], qk), 1e-6);
  EXPECT_LE(RelativeError(y[1], v), 1e-6);
  EXPECT_TRUE(at::equal(group.ForwardAgain(x.detach(), {}, tape)[0], y[0]));
  const at::Tensor dx = group.Backward(dy, {[&] { return x.detach(); }, {}},
                                       tape, /*wants_dx=*/true);
  EXPECT_LE(RelativeError(dx, x.grad()), 1e-6);
  pack.CollectGradients();
  const auto ours = tiny.TakeGradients();
  int compared = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    if (expected[i].abs().max().item<float>() == 0) continue;
    EXPECT_LE(RelativeError(ours[i], expected[i]), 1e-6) << i;
    ++compared;
  }
  EXPECT_EQ(compared, 6);
}

TEST_P(LinearGroupTest, AddsAResidual) {
  const Tiny tiny;
  LoraPack pack;
  const LinearGroup group({{&tiny.layer().o}}, {}, options_, pack);
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
  const at::Tensor x = at::randn({5, 32}), residual = at::randn({5, 16});
  LoraTape tape;
  const at::NoGradGuard no_grad;
  EXPECT_LE(RelativeError(group.Forward(x, residual, tape)[0],
                          tiny.layer().o.Forward(x) + residual),
            1e-6);
}

// As many rows as threads share, and one more, which they do not.
TEST(LinearGroupOnCpuTest, ThreadsShareRows) {
  const int threads = at::get_num_threads();
  at::set_num_threads(2);
  const Tiny tiny;
  LoraPack pack;
  const LinearGroup group({{&tiny.layer().o}}, {}, {}, pack);
  pack.Allocate(at::kCPU, at::kFloat);
  pack.Refresh();
  const at::NoGradGuard no_grad;
  for (const int64_t rows : {512, 513}) {
    const at::Tensor x = at::randn({rows, 32});
    const at::Tensor residual = at::randn({rows, 16});
    LoraTape tape;
    EXPECT_LE(RelativeError(group.Forward(x, residual, tape)[0],
                            tiny.layer().o.Forward(x) + residual),
              1e-6)
        << rows;
  }
  at::set_num_threads(threads);
}

INSTANTIATE_TEST_SUITE_P(Kernels, LinearGroupTest,
                         testing::Values(Choice::kCpu, Choice::kMps));

}  // namespace
}  // namespace mpsd::explicit_step
