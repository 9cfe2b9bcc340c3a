// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/host/traits.h"
#include "core/model/products.h"
#include "tests/core/calls.h"

// That MPS gets the pieces, and is within its limits then, is tested in
// tests/ops.

namespace mpsd::products {
namespace {

using Two = std::function<at::Tensor(const at::Tensor&, const at::Tensor&)>;

std::vector<at::Tensor> Run(const Two& product, at::IntArrayRef b_shape) {
  at::manual_seed(1);
  const at::Tensor a = at::randn({2, 3, 5, 4}).requires_grad_(true);
  const at::Tensor b = at::randn(b_shape).requires_grad_(true);
  const at::Tensor y = product(a, b);
  y.mul(at::arange(y.numel()).view(y.sizes()).cos()).sum().backward();
  return {y.detach(), a.grad(), b.grad()};
}

void ExpectSame(const Two& ours, const Two& plain, at::IntArrayRef b_shape) {
  const auto actual = Run(ours, b_shape), expected = Run(plain, b_shape);
  for (size_t i = 0; i < actual.size(); ++i) {
    EXPECT_TRUE(at::allclose(actual[i], expected[i], 1e-5, 1e-6)) << i;
  }
  EXPECT_TRUE(actual[2].is_contiguous());
}

TEST(ProductsTest, AreThoseOfMatmul) {
  ExpectSame(
      Product,
      [](const at::Tensor& a, const at::Tensor& b) { return at::matmul(a, b); },
      {2, 3, 4, 6});
  ExpectSame(ProductOfTransposed,
             [](const at::Tensor& a, const at::Tensor& b) {
               return at::matmul(a, b.transpose(-1, -2));
             },
             {2, 3, 6, 4});
}

void ExpectProduct(const at::Tensor& x, const at::Tensor& w,
                   const std::optional<at::Tensor>& bias) {
  at::Tensor expected = at::matmul(x.to(at::kDouble), w.to(at::kDouble).t());
  if (bias) expected = expected + bias->to(at::kDouble);
  const at::Tensor y = InnerProduct(x, w, bias);
  EXPECT_TRUE(y.is_contiguous());
  EXPECT_EQ(y.scalar_type(), at::kFloat);
  EXPECT_LE(
      ((y.to(at::kDouble) - expected).norm() / expected.norm()).item<double>(),
      1e-6);
}

TEST(InnerProductTest, OfAnyStridesAndSizes) {
  for (const int64_t rows : {1, 63, 64, 200}) {
    const at::Tensor x = at::randn({rows, 96}), w = at::randn({40, 96});
    ExpectProduct(x, w, std::nullopt);
    ExpectProduct(x, w, at::randn({40}));
    ExpectProduct(x, at::randn({96, 40}).t(), std::nullopt);
    ExpectProduct(x.narrow(1, 10, 32), w.narrow(1, 64, 32), std::nullopt);
    ExpectProduct(at::randn({96, rows}).t(), w, std::nullopt);
    ExpectProduct(x.slice(1, 0, 96, 2), w.slice(1, 1, 96, 2), std::nullopt);
  }
}

TEST(WideLinearTest, PiecesGiveTheWhole) {
  at::manual_seed(1);
  const at::Tensor weight = at::randn({23, 6}).requires_grad_(true);
  const at::Tensor bias = at::randn({23});
  const auto run = [&](bool pieces) -> std::vector<at::Tensor> {
    at::manual_seed(2);
    const at::Tensor x = at::randn({2, 5, 6}).requires_grad_(true);
    weight.mutable_grad() = at::Tensor();
    const at::Tensor y = pieces ? LinearInPieces(x, weight, bias, 7)
                                : at::linear(x, weight, bias);
    y.square().sum().backward();
    return {y.detach(), x.grad(), weight.grad().clone()};
  };
  const auto whole = run(false), pieces = run(true);
  for (size_t i = 0; i < whole.size(); ++i) {
    EXPECT_TRUE(at::allclose(pieces[i], whole[i], 1e-5, 1e-6)) << i;
  }
}

TEST(WideLinearTest, ProductsAddUpInFp32) {
  at::manual_seed(3);
  const at::Tensor d = at::randn({5, 41}), weight = at::randn({41, 8});
  const at::Tensor expected = at::matmul(d, weight);
  EXPECT_TRUE(at::allclose(TimesInPieces(d, weight, 16), expected, 1e-5, 1e-5));
  EXPECT_TRUE(at::equal(TimesWide(d, weight), expected));
  const at::Tensor narrow =
      TimesInPieces(d.to(at::kBFloat16), weight.to(at::kBFloat16), 16);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::allclose(narrow.to(at::kFloat), expected, 0.05, 0.1));
}

// A device that is neither the CPU nor MPS, as CUDA is, has no limit.
TEST(WideLinearTest, OtherDevicesTakeOneProduct) {
  const auto options = at::device(at::kMeta);
  const int64_t most = *backend::TraitsOf(backend::Choice::kMps).max_sum;
  const at::Tensor weight = at::empty({most + 1, 4}, options);
  const at::Tensor x = at::empty({2, 4}, options);
  const at::Tensor d = at::empty({2, most + 1}, options);
  EXPECT_EQ(testing_support::CallsOf([&] { WideLinear(x, weight); }),
            testing_support::CallsOf([&] { at::linear(x, weight); }));
  EXPECT_EQ(testing_support::CallsOf([&] { TimesWide(d, weight); }),
            testing_support::CallsOf([&] { at::matmul(d, weight); }));
}

}  // namespace
}  // namespace mpsd::products

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
