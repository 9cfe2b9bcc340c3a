// SPDX-License-Identifier: Apache-2.0
#include "core/model/cpu_nodes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace mpsd::model {
namespace {

// A low-rank adapter as core/lora computes it.
class LowRankAdapter : public LinearAdapter {
 public:
  explicit LowRankAdapter(LowRank term) : term_(std::move(term)) {}
  at::Tensor Apply(const at::Tensor& base, const at::Tensor& x) override {
    const at::Tensor in =
        term_.dropout > 0 ? at::dropout(x, term_.dropout, true) : x;
    return base + at::linear(at::linear(in, term_.a), term_.b) * term_.scaling;
  }
  std::optional<LowRank> low_rank() const override { return term_; }

 private:
  const LowRank term_;
};

class OtherAdapter : public LinearAdapter {
 public:
  at::Tensor Apply(const at::Tensor& base, const at::Tensor&) override {
    return base;
  }
};

at::Tensor Leaf(at::IntArrayRef shape) {
  return at::randn(shape).requires_grad_(true);
}

struct Case {
  const char* name;
  bool trained;  // the weight and the bias
  bool bias;
  double rank_dropout;  // negative: no adapter
  bool into_grad;       // parameters have a .grad already
};

std::vector<at::Tensor> Parameters(const Linear& linear) {
  std::vector<at::Tensor> all = {linear.weight};
  if (linear.bias.defined()) all.push_back(linear.bias);
  if (linear.adapter != nullptr) {
    const LowRank term = *linear.adapter->low_rank();
    all.insert(all.end(), {term.a, term.b});
  }
  return all;
}

Linear MakeLinear(const Case& c) {
  Linear linear;
  linear.weight = Leaf({6, 5}).set_requires_grad(c.trained);
  if (c.bias) linear.bias = Leaf({6}).set_requires_grad(c.trained);
  if (c.rank_dropout >= 0) {
    linear.adapter = std::make_unique<LowRankAdapter>(
        LowRank{Leaf({2, 5}), Leaf({6, 2}), 1.5, c.rank_dropout});
  }
  return linear;
}

// y and all gradients of sum(y²), the input's first.
std::vector<at::Tensor> Results(const Linear& linear, const at::Tensor& x,
                                bool into_grad,
                                at::Tensor (*forward)(const Linear&,
                                                      const at::Tensor&)) {
  const std::vector<at::Tensor> parameters = Parameters(linear);
  for (at::Tensor p : parameters) {
    p.mutable_grad() = into_grad ? at::ones_like(p) : at::Tensor();
  }
  const at::Tensor leaf = x.detach().requires_grad_(true);
  at::manual_seed(11);
  // Neither contiguous nor a matrix.
  const at::Tensor y = forward(linear, leaf.transpose(0, 1));
  y.square().sum().backward();
  std::vector<at::Tensor> results = {y.detach(), leaf.grad()};
  for (const at::Tensor& p : parameters) {
    if (p.requires_grad()) results.push_back(p.grad().clone());
  }
  return results;
}

TEST(CpuLinearTest, EqualsForward) {
  const Case cases[] = {{"trained", true, true, -1, true},
                        {"trained_without_grad", true, true, -1, false},
                        {"frozen", false, true, -1, false},
                        {"frozen_adapted", false, true, 0, true},
                        {"adapted_without_grad", false, false, 0, false},
                        {"adapted_dropout", false, true, 0.4, true},
                        {"all", true, true, 0.4, true}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    at::manual_seed(7);
    const Linear linear = MakeLinear(c);
    // Enough rows for oneDNN.
    const at::Tensor x = at::randn({3, 40, 5});
    ASSERT_TRUE(CpuLinearTakes(linear, x));
    const auto ours = Results(linear, x, c.into_grad, CpuLinear);
    const auto expected = Results(linear, x, c.into_grad,
                                  [](const Linear& l, const at::Tensor& in) {
                                    // nn.Dropout's masks lie in memory as its
                                    // input does.
                                    return l.Forward(in.contiguous());
                                  });
    ASSERT_EQ(ours.size(), expected.size());
    for (size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(at::allclose(ours[i], expected[i], 1e-5, 1e-4)) << i;
    }
  }
}

TEST(CpuLinearTest, NeedsNoGraphAndLeavesTheRestToForward) {
  Linear linear;
  linear.weight = at::randn({6, 5});
  const at::Tensor y = CpuLinear(linear, at::randn({2, 5}));
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 6}));
  const at::Tensor x = at::randn({2, 5});
  EXPECT_TRUE(CpuLinearTakes(linear, x));
  EXPECT_FALSE(CpuLinearTakes(linear, x.to(at::kBFloat16)));
  linear.adapter = std::make_unique<OtherAdapter>();
  EXPECT_FALSE(CpuLinearTakes(linear, x));
  linear.adapter.reset();
  linear.weight = linear.weight.to(at::kBFloat16);
  EXPECT_FALSE(CpuLinearTakes(linear, x));
}

at::Tensor TableGradient(Embedding& table, bool into_grad, bool node) {
  table.weight.mutable_grad() =
      into_grad ? at::ones_like(table.weight) : at::Tensor();
  const at::Tensor ids = at::tensor({1, 3, 0, 3, 2, 0}).view({2, 3});
  const at::Tensor y =
      node ? CpuEmbedding(table, ids) : table.Forward(ids, at::kFloat);
  (y * at::arange(24).view({2, 3, 4})).sum().backward();
  return table.weight.grad().clone();
}

TEST(CpuEmbeddingTest, EqualsForward) {
  for (const int64_t padding : {-1, 0}) {
    for (const bool into_grad : {false, true}) {
      Embedding table;
      table.weight = Leaf({5, 4});
      table.padding_row = padding;
      const at::Tensor expected = TableGradient(table, into_grad, false);
      const at::Tensor ours = TableGradient(table, into_grad, true);
      EXPECT_TRUE(at::equal(ours, expected)) << padding << into_grad;
      EXPECT_EQ(at::equal(ours[0], at::full({4}, into_grad ? 1.0f : 0.0f)),
                padding == 0);
    }
  }
}

}  // namespace
}  // namespace mpsd::model
