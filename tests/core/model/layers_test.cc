// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/device/device.h"
#include "core/host/traits.h"
#include "core/model/products.h"
#include "tests/core/calls.h"
#include "tests/core/relative_error.h"

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

// By ATen's layers alone.
at::Tensor Plain(const Linear& l, const at::Tensor& x) {
  const at::Tensor y = l.bias.defined() ? at::linear(x, l.weight, l.bias)
                                        : at::linear(x, l.weight);
  // nn.Dropout's masks lie in memory as its input does.
  return l.adapter == nullptr ? y : l.adapter->Apply(y, x.contiguous());
}

at::Tensor Node(const Linear& l, const at::Tensor& x) {
  return ForwardTogether({&l}, x, {device::TraitsOf(x.device())}).front();
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

TEST(LinearNodeTest, EqualsPlainAutograd) {
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
    const auto expected = Results(linear, x, c.into_grad, Plain);
    for (const auto forward : {Node, +[](const Linear&l, const at::Tensor&in) {
                                 return l.Forward(in.contiguous());
                               }}) {
      const auto ours = Results(linear, x, c.into_grad, forward);
      ASSERT_EQ(ours.size(), expected.size());
      for (size_t i = 0; i < ours.size(); ++i) {
        EXPECT_TRUE(at::allclose(ours[i], expected[i], 1e-5, 1e-4)) << i;
      }
    }
  }
}

TEST(LinearNodeTest, NeedsNoGraphAndLeavesTheRestToForward) {
  Linear linear;
  linear.weight = at::randn({6, 5});
  const at::Tensor x = at::randn({2, 5});
  const at::Tensor y = Node(linear, x);
  EXPECT_FALSE(y.requires_grad());
  EXPECT_EQ(y.sizes(), at::IntArrayRef({2, 6}));
  linear.adapter = std::make_unique<OtherAdapter>();
  EXPECT_TRUE(at::equal(Node(linear, x), at::linear(x, linear.weight)));
  linear.weight = linear.weight.to(at::kBFloat16);
  EXPECT_EQ(Node(linear, x.to(at::kBFloat16)).scalar_type(), at::kBFloat16);
}

// Trained leaves that are adjacent in memory, each with an fp32 .grad of ones
// that lies next to the next one's, as optim::ParameterSet makes them.
std::vector<at::Tensor> AdjacentLeaves(
    const std::vector<std::vector<int64_t>>& shapes, at::ScalarType dtype) {
  int64_t size = 0;
  for (const auto& shape : shapes) size += c10::multiply_integers(shape);
  const at::Tensor values = at::randn({size}).to(dtype);
  const at::Tensor gradients = at::ones({size});
  std::vector<at::Tensor> leaves;
  int64_t at = 0;
  for (const auto& shape : shapes) {
    const int64_t n = c10::multiply_integers(shape);
    leaves.push_back(values.narrow(0, at, n).view(shape).detach());
    leaves.back().requires_grad_(true).mutable_grad() =
        gradients.narrow(0, at, n).view(shape).detach();
    at += n;
  }
  return leaves;
}

struct NodeCase {
  backend::Choice traits;
  at::ScalarType dtype;
};

class NodesTest : public testing::TestWithParam<NodeCase> {
 protected:
  NodesTest() : traits_(backend::TraitsOf(GetParam().traits)) {
    at::manual_seed(7);
    traits_.wide_products = false;  // the CPU has none
  }
  // `ours` in the case's dtype against `expected` in fp32.
  void ExpectNear(const at::Tensor& ours, const at::Tensor& expected) const {
    EXPECT_LE(testing_support::RelativeError(ours, expected),
              GetParam().dtype == at::kFloat ? 1e-5 : 1e-2);
  }
  // The gradient that was added to ones, in fp32.
  void ExpectAdded(const at::Tensor& leaf, const at::Tensor& expected) const {
    EXPECT_EQ(leaf.grad().scalar_type(), at::kFloat);
    ExpectNear(leaf.grad() - 1, expected);
  }
  at::Tensor Input(at::IntArrayRef shape) const {
    return at::randn(shape).to(GetParam().dtype).requires_grad_(true);
  }
  static at::Tensor Wide(const at::Tensor& t) {
    return t.detach().to(at::kFloat).requires_grad_(true);
  }

  backend::Traits traits_;
};

TEST_P(NodesTest, LinearsOfOneInputAreOneProduct) {
  const auto dtype = GetParam().dtype;
  const auto weights = AdjacentLeaves({{6, 5}, {3, 5}, {6, 5}}, dtype);
  const auto biases = AdjacentLeaves({{6}, {3}, {6}}, dtype);
  std::vector<Linear> linears(3);
  std::vector<at::Tensor> wide;
  for (size_t i = 0; i < 3; ++i) {
    linears[i].weight = weights[i];
    linears[i].bias = biases[i];
    wide.push_back(Wide(weights[i]));
    wide.push_back(Wide(biases[i]));
  }
  const at::Tensor x = Input({3, 40, 5}), wide_x = Wide(x);
  std::vector<at::Tensor> y;
  auto calls = testing_support::CallsOf([&] {
    y = ForwardTogether({&linears[0], &linears[1], &linears[2]}, x, {traits_});
  });
  // By three on a device whose own linear costs less than a node.
  const bool together = traits_.transposed_left || dtype != at::kFloat;
  EXPECT_EQ(calls["aten::linear"] + calls["mkldnn::_linear_pointwise"],
            together ? 1 : 3);
  at::Tensor sum = at::zeros({}), expected = at::zeros({});
  for (size_t i = 0; i < 3; ++i) {
    const at::Tensor plain = at::linear(wide_x, wide[2 * i], wide[2 * i + 1]);
    ASSERT_EQ(y[i].sizes(), plain.sizes());
    ExpectNear(y[i], plain);
    sum = sum + y[i].to(at::kFloat).square().sum();
    expected = expected + plain.square().sum();
  }
  sum.backward();
  expected.backward();
  ExpectNear(x.grad(), wide_x.grad());
  for (size_t i = 0; i < 3; ++i) {
    ExpectAdded(weights[i], wide[2 * i].grad());
    ExpectAdded(biases[i], wide[2 * i + 1].grad());
  }
}

// Attention's heads there and back, and an activation.
TEST_P(NodesTest, HeadsAndGeluAreWithinTheNode) {
  const auto dtype = GetParam().dtype;
  const auto leaves = AdjacentLeaves({{6, 5}, {6, 5}, {4, 6}}, dtype);
  std::vector<Linear> linears(3);
  std::vector<at::Tensor> wide;
  for (size_t i = 0; i < 3; ++i) {
    linears[i].weight = leaves[i];
    wide.push_back(Wide(leaves[i]));
  }
  const at::Tensor x = Input({3 * 40, 5}), wide_x = Wide(x);
  LinearCall call{traits_};
  call.rows = 3;
  call.head_dim = 2;
  const auto heads = ForwardTogether({&linears[0], &linears[1]}, x, call);
  call.gelu = "none";
  call.head_dim = 0;
  const at::Tensor y =
      ForwardTogether({&linears[2]}, heads[0] * heads[1], call).front();
  const at::Tensor plain = at::gelu(at::linear(
      at::linear(wide_x, wide[0]) * at::linear(wide_x, wide[1]), wide[2]));
  EXPECT_EQ(heads[0].sizes(), at::IntArrayRef({3, 3, 40, 2}));
  ExpectNear(y, plain);
  y.to(at::kFloat).square().sum().backward();
  plain.square().sum().backward();
  ExpectNear(x.grad(), wide_x.grad());
  for (size_t i = 0; i < 3; ++i) ExpectAdded(leaves[i], wide[i].grad());
}

TEST_P(NodesTest, ANormOfASumIsOneNode) {
  const auto leaves = AdjacentLeaves({{5}, {5}}, GetParam().dtype);
  const LayerNorm norm{"", leaves[0], leaves[1]};
  const at::Tensor w = Wide(leaves[0]), b = Wide(leaves[1]);
  const at::Tensor x = Input({12, 5}), wide_x = Wide(x);
  const at::Tensor residual = Input({12, 5}), wide_residual = Wide(residual);
  for (const double probability : {0.0, 0.4}) {
    for (const at::Tensor& t : {x, wide_x, residual, wide_residual, w, b}) {
      t.mutable_grad() = at::Tensor();
    }
    for (const at::Tensor& leaf : leaves) leaf.grad().fill_(1);
    at::manual_seed(3);
    const Normed ours = norm.OfSum(x, residual, {probability, 3, 4});
    at::manual_seed(3);
    const at::Tensor sum =
        at::dropout(wide_x, probability, true) + wide_residual;
    const at::Tensor y = at::layer_norm(sum, {5}, w, b, norm.eps);
    ExpectNear(ours.y, y);
    ExpectNear(ours.sum, sum);
    (ours.y.to(at::kFloat).square().sum() + ours.sum.to(at::kFloat).sum())
        .backward();
    (y.square().sum() + sum.sum()).backward();
    ExpectNear(x.grad(), wide_x.grad());
    ExpectNear(residual.grad(), wide_residual.grad());
    ExpectAdded(leaves[0], w.grad());
    ExpectAdded(leaves[1], b.grad());
  }
}

TEST_P(NodesTest, NormsAndTablesAddToTheirGradients) {
  const auto leaves = AdjacentLeaves({{5}, {5}}, GetParam().dtype);
  const LayerNorm norm{"", leaves[0], leaves[1]};
  const at::Tensor w = Wide(leaves[0]), b = Wide(leaves[1]);
  const at::Tensor x = Input({4, 7, 5}), wide_x = Wide(x);
  norm.Forward(x).to(at::kFloat).square().sum().backward();
  at::layer_norm(wide_x, {5}, w, b, norm.eps).square().sum().backward();
  ExpectNear(x.grad(), wide_x.grad());
  ExpectAdded(leaves[0], w.grad());
  ExpectAdded(leaves[1], b.grad());

  const at::Tensor ids = at::tensor({1, 3, 0, 3, 2, 0}).view({2, 3});
  for (const int64_t padding : {-1, 0}) {
    Embedding table{"", AdjacentLeaves({{5, 4}}, at::kFloat)[0], padding};
    const at::Tensor wide = Wide(table.weight);
    table.Forward(ids, GetParam().dtype)
        .to(at::kFloat)
        .square()
        .sum()
        .backward();
    at::embedding(wide, ids, padding).square().sum().backward();
    ExpectAdded(table.weight, wide.grad());
    EXPECT_EQ(at::equal(table.weight.grad()[0], at::ones({4})), padding == 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, NodesTest,
    testing::Values(NodeCase{backend::Choice::kCpu, at::kFloat},
                    NodeCase{backend::Choice::kCpu, at::kBFloat16},
                    NodeCase{backend::Choice::kCuda, at::kFloat},
                    NodeCase{backend::Choice::kCuda, at::kBFloat16},
                    NodeCase{backend::Choice::kMps, at::kFloat},
                    NodeCase{backend::Choice::kMps, at::kBFloat16}),
    [](const auto& info) {
      return std::string(backend::NameOf(info.param.traits)) +
             c10::toString(info.param.dtype);
    });

}  // namespace
}  // namespace mpsd::model
