// SPDX-License-Identifier: Apache-2.0
#include "core/model/attention.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "core/host/traits.h"
#include "core/model/attention_plan.h"
#include "core/model/planned_attention.h"
#include "gtest/gtest.h"
#include "tests/core/relative_error.h"

namespace mpsd::attention {
namespace {

// By whose traits the CPU computes.
using backend::Choice;

using testing_support::RelativeError;

Options OptionsOf(Choice choice, at::ScalarType dtype = at::kFloat) {
  return {backend::TraitsOf(choice), dtype};
}

TokenLayout Rows(int64_t rows, int64_t length) {
  TokenLayout layout;
  layout.rows = rows;
  layout.length = length;
  return layout;
}

// Two segments and padding in each row.
TokenLayout PackedRows(int64_t rows, int64_t length) {
  TokenLayout layout = Rows(rows, length);
  layout.segment_ids = at::full({rows, length}, -1, at::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = length / 3 + row, second = length / 2;
    layout.segment_ids[row].narrow(0, 0, first).fill_(0);
    layout.segment_ids[row].narrow(0, first, second).fill_(1);
  }
  layout.segment_lengths = SegmentLengths(layout.segment_ids);
  return layout;
}

// One query at a time, by the definition.
at::Tensor ByDefinition(const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const AttentionMask& mask) {
  at::Tensor out = at::zeros_like(q);
  const int64_t group = q.size(1) / k.size(1);
  for (int64_t r = 0; r < q.size(0); ++r) {
    for (int64_t h = 0; h < q.size(1); ++h) {
      for (int64_t i = 0; i < q.size(2); ++i) {
        at::Tensor scores =
            at::full({q.size(2)}, -std::numeric_limits<float>::infinity());
        for (int64_t j = 0; j <= i; ++j) {
          if (mask.window > 0 && i - j >= mask.window) continue;
          if (mask.segments.defined() &&
              mask.segments[r][i].item<int64_t>() !=
                  mask.segments[r][j].item<int64_t>()) {
            continue;
          }
          scores[j] =
              at::dot(q[r][h][i], k[r][h / group][j]) / std::sqrt(q.size(3));
        }
        out[r][h][i] = at::matmul(scores.softmax(0), v[r][h / group]);
      }
    }
  }
  return out;
}

struct Case {
  const char* name;
  int64_t heads, kv_heads, length, window;
  bool segments;
};

class AttentionTest : public testing::TestWithParam<Case> {};

TEST_P(AttentionTest, EqualsTheDefinition) {
  const Case& c = GetParam();
  at::manual_seed(1);
  const at::Tensor q = at::randn({2, c.heads, c.length, 4});
  const at::Tensor k = at::randn({2, c.kv_heads, c.length, 4});
  const at::Tensor v = at::randn({2, c.kv_heads, c.length, 4});
  AttentionMask mask;
  mask.window = c.window;
  if (c.segments) {
    mask.segments = at::arange(c.length)
                        .div(3, "floor")
                        .to(at::kLong)
                        .unsqueeze(0)
                        .repeat({2, 1});
    mask.segments.narrow(1, c.length - 2, 2).fill_(-1);  // padding
  }
  const at::Tensor expected = ByDefinition(q, k, v, mask);
  EXPECT_TRUE(
      at::allclose(CausalAttention(q, k, v, mask, AttentionKernel::kFused),
                   expected, 1e-5, 1e-6));
}

INSTANTIATE_TEST_SUITE_P(All, AttentionTest,
                         testing::Values(Case{"plain", 2, 2, 9, 0, false},
                                         Case{"grouped", 6, 2, 9, 0, false},
                                         Case{"window", 2, 2, 11, 4, false},
                                         Case{"wide_window", 2, 1, 7, 7, false},
                                         Case{"segments", 4, 2, 11, 0, true},
                                         Case{"segments_and_window", 2, 1, 11,
                                              2, true}),
                         [](const auto& info) { return info.param.name; });

class BidirectionalTest : public testing::TestWithParam<AttentionKernel> {
 protected:
  void SetUp() override {
    at::manual_seed(9);
    q_ = at::randn({2, 3, 7, 4});
    k_ = at::randn({2, 3, 7, 4});
    v_ = at::randn({2, 3, 7, 4});
    lengths_ = at::tensor({7, 4}, at::kLong);
  }
  at::Tensor q_, k_, v_, lengths_;
};

TEST_P(BidirectionalTest, ARowsPaddingIsAsGoodAsAbsentAndOneQueryAsAmongAll) {
  const at::Tensor keys = PaddingMask(lengths_, 7, at::kFloat);
  const at::Tensor all =
      BidirectionalAttention(q_, k_, v_, keys, 0, GetParam());
  for (int64_t row = 0; row < 2; ++row) {
    const int64_t n = lengths_[row].item<int64_t>();
    const at::Tensor scores =
        at::matmul(q_[row], k_[row].narrow(1, 0, n).transpose(1, 2)) / 2;
    const at::Tensor expected =
        at::matmul(scores.softmax(-1), v_[row].narrow(1, 0, n));
    EXPECT_TRUE(at::allclose(all[row], expected, 1e-5, 1e-6)) << row;
  }
  const at::Tensor one =
      BidirectionalAttention(q_.narrow(2, 0, 1), k_, v_, keys, 0, GetParam());
  EXPECT_TRUE(at::allclose(one, all.narrow(2, 0, 1), 1e-5, 1e-6));
}

TEST_P(BidirectionalTest, DropoutDropsWholeProbabilitiesAndScalesTheRest) {
  const at::Tensor ones = at::ones({2, 3, 7, 4});
  const at::Tensor eye = at::eye(7).expand({2, 3, 7, 7});
  at::manual_seed(1);
  // With equal scores and v the identity, the output is the probabilities.
  const at::Tensor p =
      BidirectionalAttention(ones, ones, eye, at::Tensor(), 0.5, GetParam());
  const at::Tensor dropped = p == 0;
  EXPECT_GT(dropped.sum().item<int64_t>(), 50);
  EXPECT_LT(dropped.sum().item<int64_t>(), 244);
  EXPECT_TRUE(at::allclose(p.masked_select(dropped.logical_not()),
                           at::full({1}, 2.0 / 7)));
}

INSTANTIATE_TEST_SUITE_P(Kernels, BidirectionalTest,
                         testing::Values(AttentionKernel::kFused,
                                         AttentionKernel::kTiled),
                         [](const auto& info) {
                           return info.param == AttentionKernel::kFused
                                      ? "fused"
                                      : "tiled";
                         });

// Its flash attention has neither fp32 nor heads of any size; what the plan has
// blocks for runs without it.
TEST(AttentionPlanTest, WhatFlashAttentionOfCudaDoesNotTakeGoesByBlocks) {
  const auto blocks = [](at::ScalarType dtype, int64_t dim) {
    const Options options = OptionsOf(Choice::kCuda, dtype);
    const HeadShape shape{4, 2, dim};
    return PlanAttention(Rows(2, 12), 0, false, shape, options).blocks.size();
  };
  EXPECT_EQ(blocks(at::kBFloat16, 64), 0);
  EXPECT_EQ(blocks(at::kFloat, 64), 1);
  EXPECT_EQ(blocks(at::kBFloat16, 20), 1);
  EXPECT_EQ(blocks(at::kBFloat16, 320), 1);
}

using Names = std::pair<std::string, std::string>;

Names NamesOf(Choice choice, at::ScalarType dtype, const TokenLayout& layout,
              int64_t window, int64_t dim = 64) {
  const Options options = OptionsOf(choice, dtype);
  const AttentionPlan plan =
      PlanAttention(layout, window, false, {4, 2, dim}, options);
  return {NameOf(plan.forward), NameOf(plan.backward)};
}

// The table above PlanAttention, row by row.
TEST(AttentionPlanTest, BackendDtypeAndWindowDecideTheKernels) {
  const Names blocked = {"blocked", "blocked"}, flash = {"flash", "flash"};
  const TokenLayout rows = Rows(2, 12), packed = PackedRows(2, 12);
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    EXPECT_EQ(NamesOf(Choice::kMps, dtype, rows, 0), blocked);
    EXPECT_EQ(NamesOf(Choice::kMps, dtype, packed, 5), blocked);
    EXPECT_EQ(NamesOf(Choice::kCpu, dtype, rows, 5), blocked);
    EXPECT_EQ(NamesOf(Choice::kCpu, dtype, packed, 5), blocked);
    EXPECT_EQ(NamesOf(Choice::kCpu, dtype, packed, 0), flash);
  }
  EXPECT_EQ(NamesOf(Choice::kCpu, at::kFloat, rows, 0),
            Names("flash", "blocked"));
  EXPECT_EQ(NamesOf(Choice::kCpu, at::kFloat, rows, 12),
            Names("flash", "blocked"));  // a window that hides nothing
  EXPECT_EQ(NamesOf(Choice::kCpu, at::kBFloat16, rows, 0), flash);
  EXPECT_EQ(NamesOf(Choice::kCuda, at::kFloat, rows, 0), blocked);
  EXPECT_EQ(NamesOf(Choice::kCuda, at::kBFloat16, rows, 0), flash);
  EXPECT_EQ(NamesOf(Choice::kCuda, at::kBFloat16, packed, 5), flash);
}

TEST(AttentionPlanTest, CudnnTakesManyNumbersWithoutWindowOrSegments) {
  const auto names = [](const TokenLayout& layout, int64_t window,
                        int64_t dim) {
    return NamesOf(Choice::kCuda, at::kBFloat16, layout, window, dim);
  };
  const Names flash = {"flash", "flash"};
  EXPECT_EQ(names(Rows(64, 1024), 0, 64), Names("cudnn", "cudnn"));
  EXPECT_EQ(names(Rows(64, 1024), 8, 64), flash);
  EXPECT_EQ(names(PackedRows(64, 1024), 0, 64), flash);
  EXPECT_EQ(names(Rows(64, 1024), 0, 256), flash);
}

TEST(AttentionPlanTest, FlashAttentionOfCudaGetsTheStartsOfSegments) {
  const Options options = OptionsOf(Choice::kCuda, at::kBFloat16);
  const TokenLayout layout = PackedRows(2, 12);
  const AttentionPlan plan =
      PlanAttention(layout, 0, false, {4, 2, 64}, options);
  ASSERT_EQ(plan.segment_starts.scalar_type(), at::kInt);
  const at::Tensor lengths = at::tensor(layout.segment_lengths);
  EXPECT_TRUE(at::equal(plan.segment_starts.diff().to(at::kLong), lengths));
  EXPECT_EQ(plan.segment_starts[0].item<int>(), 0);
  EXPECT_EQ(plan.longest_segment, lengths.max().item<int64_t>());
}

constexpr HeadShape kShape{4, 2, 8};

enum class Order { kRows, kPackedRows, kPositions };

// Forward and backward against autograd over the model's own attention.
void ExpectTheModelsAttention(const TokenLayout& layout,
                              const AttentionPlan& plan, int64_t window,
                              const Options& options) {
  const auto random = [&](int64_t heads) {
    return at::randn({plan.rows, plan.length, heads, 8}).requires_grad_(true);
  };
  const at::Tensor q = random(4), k = random(2), v = random(2);
  const at::Tensor dout = at::randn({plan.rows * plan.length, 32});
  const at::Tensor expected = plan.Tokens(
      CausalAttention(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2),
                      {layout.segment_ids, window}, AttentionKernel::kFused)
          .transpose(1, 2));
  expected.backward(dout);

  AttentionTape tape;
  const at::Tensor out = AttentionForward({q.detach(), k.detach(), v.detach()},
                                          plan, kShape, tape);
  EXPECT_LE(RelativeError(out, expected), 2e-6);
  // Flash attention keeps its log-sum-exp, and blocked attention uses
  // them.
  EXPECT_STREQ(NameOf(plan.forward), tape.lse.empty() ? "blocked" : "flash");
  EXPECT_STREQ(NameOf(plan.backward),
               plan.blocks.empty() ? "flash" : "blocked");
  const AttentionInputs grad =
      AttentionBackward(dout, plan, kShape, options, tape);
  EXPECT_LE(RelativeError(grad.q, q.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.k, k.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.v, v.grad()), 2e-6);
}

class PlannedAttentionTest
    : public testing::TestWithParam<std::tuple<Choice, Order, int64_t>> {};

TEST_P(PlannedAttentionTest, IsTheModelsAttentionWithItsGradients) {
  const auto& [choice, order, window] = GetParam();
  at::manual_seed(3);
  const int64_t rows = 2, length = 24;
  const TokenLayout layout = order == Order::kPackedRows
                                 ? PackedRows(rows, length)
                                 : Rows(rows, length);
  const Options options = OptionsOf(choice);
  const AttentionPlan plan = PlanAttention(
      layout, window, order == Order::kPositions, kShape, options);
  ExpectTheModelsAttention(layout, plan, window, options);
}

INSTANTIATE_TEST_SUITE_P(
    All, PlannedAttentionTest,
    testing::Combine(testing::Values(Choice::kCpu, Choice::kMps, Choice::kCuda),
                     testing::Values(Order::kRows, Order::kPackedRows,
                                     Order::kPositions),
                     testing::Values(0, 5, 64)));

// Its backward goes by blocks of queries, as if each head had its own keys.
TEST(PlannedAttentionOnCpuTest, LongRowsAreSeveralBlocks) {
  at::manual_seed(8);
  for (const int64_t rows : {1, 3}) {
    const TokenLayout layout = Rows(rows, 200);
    const AttentionPlan plan = PlanAttention(layout, 0, false, kShape, {});
    ASSERT_EQ(plan.blocks.size(), 4u);
    ExpectTheModelsAttention(layout, plan, 0, {});
  }
}

constexpr HeadShape kMany{128, 64, 2};

TEST(BlockPlanTest, BlocksSkipKeysOfOtherSegments) {
  const int64_t length = 512;
  TokenLayout layout = Rows(1, length);
  layout.segment_ids = at::cat(
      {at::zeros({1, 256}, at::kLong), at::ones({1, 256}, at::kLong)}, 1);
  layout.segment_lengths = SegmentLengths(layout.segment_ids);
  const AttentionPlan plan =
      PlanAttention(layout, 0, false, kMany, OptionsOf(Choice::kMps));
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[1].first_key, 256);
  EXPECT_EQ(plan.blocks[1].keys, 256);
}

// [count, keys] of a block's scores, by the definition: 0 or −inf.
at::Tensor HiddenOf(const TokenLayout& layout, const QueryBlock& b,
                    int64_t window) {
  const at::Tensor at = at::arange(layout.length);
  const at::Tensor distance = at.narrow(0, b.begin, b.count).unsqueeze(1) -
                              at.narrow(0, b.first_key, b.keys).unsqueeze(0);
  at::Tensor hidden = (distance < 0).unsqueeze(0);
  if (window > 0) hidden = hidden.logical_or(distance >= window);
  const at::Tensor& ids = layout.segment_ids;
  if (ids.defined()) {
    hidden = hidden.logical_or(ids.narrow(1, b.begin, b.count).unsqueeze(2) !=
                               ids.narrow(1, b.first_key, b.keys).unsqueeze(1));
  }
  return at::zeros(hidden.sizes()).masked_fill_(hidden, -INFINITY);
}

// Rows of 600 tokens are blocks of 160, 320, 480 and 600 with the last one
// shorter, and with windows each block has other keys.
TEST(BlockPlanTest, FewMasksGoIntoProducts) {
  const TokenLayout layout = Rows(2, 600);
  for (const int64_t window : {0, 200}) {
    for (const int64_t group : {1, 2}) {
      const HeadShape shape{64, 64 / group, 4};
      const AttentionPlan plan =
          PlanAttention(layout, window, false, shape, OptionsOf(Choice::kMps));
      ASSERT_GT(plan.blocks.size(), 1u);
      ASSERT_NE(plan.blocks.back().count, plan.blocks.front().count);
      for (const QueryBlock& b : plan.blocks) {
        ASSERT_EQ(b.mask.dim(), 3);
        EXPECT_TRUE(b.mask.is_contiguous());
        EXPECT_TRUE(at::equal(
            b.mask, HiddenOf(layout, b, window).repeat_interleave(group, 1)));
      }
    }
  }
}

// A head of 16,384 tokens has more of them than are kept.
TEST(BlockPlanTest, ManyMasksAreViewsOfOneBand) {
  const AttentionPlan plan = PlanAttention(Rows(1, 16384), 0, false, {2, 1, 4},
                                           OptionsOf(Choice::kMps));
  ASSERT_GT(plan.blocks.size(), 1u);
  for (const QueryBlock& b : plan.blocks) {
    EXPECT_EQ(b.mask.dim(), 5);
    EXPECT_TRUE(b.mask.is_alias_of(plan.band));
  }
}

// Segments' masks are kept while they are few, and else made from the same.
TEST(BlockPlanTest, MasksOfManySegmentedTokensAreNotKept) {
  for (const auto& [rows, length] :
       {std::pair<int64_t, int64_t>{2, 600}, {3, 4000}}) {
    const TokenLayout layout = PackedRows(rows, length);
    const AttentionPlan plan =
        PlanAttention(layout, 0, false, kMany, OptionsOf(Choice::kMps));
    for (const QueryBlock& b : plan.blocks) {
      EXPECT_EQ(b.mask.defined(), length == 600);
      if (!b.mask.defined()) continue;
      EXPECT_TRUE(
          at::equal(b.mask.squeeze(3).squeeze(1), HiddenOf(layout, b, 0)));
    }
  }
}

using testing::ElementsAre;

TEST(SegmentLengthsTest, ASegmentEndsWithItsRow) {
  const at::Tensor ids = at::tensor({0, 0, 1, -1,   //
                                     -1, 0, 0, 0},  //
                                    at::kLong)
                             .view({2, 4});
  EXPECT_THAT(SegmentLengths(ids), ElementsAre(2, 1, 1, 1, 3));
}

// Causal attention of one row of tokens, written out without autograd: q
// [tokens, heads, dim], k and v [tokens, kv_heads, dim], `segments` int64
// [tokens]. A token sees `before` tokens before itself at most.
class Reference {
 public:
  Reference(const AttentionInputs& x, const at::Tensor& segments,
            int64_t before)
      : x_(x),
        group_(x.q.size(1) / x.k.size(1)),
        scale_(1 / std::sqrt(static_cast<double>(x.q.size(2)))) {
    const at::Tensor index = at::arange(x.q.size(0));
    const at::Tensor distance = index.unsqueeze(1) - index.unsqueeze(0);
    const at::Tensor hidden =
        (distance < 0)
            .logical_or(distance > before)
            .logical_or(segments.unsqueeze(1) != segments.unsqueeze(0));
    p_ = at::softmax(
        (Heads(x.q).matmul(Keys(x.k).transpose(1, 2)) * scale_)
            .masked_fill(hidden, -std::numeric_limits<double>::infinity()),
        -1);
    out_ = p_.matmul(Keys(x.v)).transpose(0, 1).contiguous();
  }

  const at::Tensor& out() const { return out_; }  // [tokens, heads, dim]

  AttentionInputs Backward(const at::Tensor& dout) const {
    const at::Tensor d = Heads(dout);
    const at::Tensor delta = (d * Heads(out_)).sum(-1, true);
    const at::Tensor ds =
        p_ * (d.matmul(Keys(x_.v).transpose(1, 2)) - delta) * scale_;
    return {.q = ds.matmul(Keys(x_.k)).transpose(0, 1).contiguous(),
            .k = OfKeys(ds.transpose(1, 2).matmul(Heads(x_.q))),
            .v = OfKeys(p_.transpose(1, 2).matmul(d))};
  }

 private:
  static at::Tensor Heads(const at::Tensor& x) { return x.transpose(0, 1); }
  at::Tensor Keys(const at::Tensor& x) const {
    return Heads(x).repeat_interleave(group_, 0);
  }
  at::Tensor OfKeys(const at::Tensor& grad) const {
    return grad.unflatten(0, {-1, group_}).sum(1).transpose(0, 1).contiguous();
  }

  const AttentionInputs x_;
  const int64_t group_;
  const double scale_;
  at::Tensor p_, out_;
};

// The number of each token's segment, [tokens]; without segments each row is
// one.
at::Tensor SegmentsOf(const AttentionPlan& plan) {
  std::vector<int64_t> sizes = plan.segments;
  if (sizes.empty()) sizes.assign(plan.rows, plan.length);
  std::vector<at::Tensor> ids;
  for (size_t i = 0; i < sizes.size(); ++i) {
    ids.push_back(at::full({sizes[i]}, static_cast<int64_t>(i)));
  }
  return at::cat(ids);
}

// 4 heads that share 2 kv heads, of 8 numbers.
AttentionInputs RandomInputs(const AttentionPlan& plan) {
  const auto random = [&](int64_t heads) {
    return at::randn({plan.rows, plan.length, heads, 8});
  };
  return {.q = random(4), .k = random(2), .v = random(2)};
}

// Runs `forward` (tape → o) and `backward` (dout, tape → gradients) on random
// numbers and compares them with Reference.
template <typename Forward, typename Backward>
void ExpectReference(const AttentionPlan& plan, const Forward& forward,
                     const Backward& backward) {
  const AttentionInputs x = RandomInputs(plan);
  AttentionTape tape;
  tape.q = x.q;
  tape.k = x.k;
  tape.v = x.v;
  tape.out = plan.Tokens(forward(tape));
  const auto flat = [](const at::Tensor& t) { return t.flatten(0, 1); };
  const Reference reference({.q = flat(x.q), .k = flat(x.k), .v = flat(x.v)},
                            SegmentsOf(plan),
                            plan.window > 0 ? plan.window - 1 : plan.length);
  EXPECT_LE(RelativeError(tape.out, reference.out().flatten(1)), 2e-6);
  const at::Tensor dout = at::randn(tape.out.sizes());
  const AttentionInputs grad = backward(dout, tape);
  const AttentionInputs expected =
      reference.Backward(dout.view(reference.out().sizes()));
  EXPECT_LE(RelativeError(flat(grad.q), expected.q), 2e-6);
  EXPECT_LE(RelativeError(flat(grad.k), expected.k), 2e-6);
  EXPECT_LE(RelativeError(flat(grad.v), expected.v), 2e-6);
}

TEST(BlockedAttentionTest, ManyScoresAreSeveralBlocks) {
  at::manual_seed(4);
  const int64_t length = 512;
  const AttentionPlan plan =
      PlanAttention(Rows(1, length), 0, false, kMany, OptionsOf(Choice::kMps));
  ASSERT_EQ(plan.blocks.size(), 2u);
  EXPECT_EQ(plan.blocks[0].keys, 256);
  EXPECT_EQ(plan.blocks[1].keys, length);

  const auto random = [&](int64_t heads) {
    return at::randn({1, heads, length, 2}).requires_grad_(true);
  };
  const at::Tensor q = random(128), k = random(64), v = random(64);
  const at::Tensor expected =
      CausalAttention(q, k, v, {}, AttentionKernel::kFused);
  const at::Tensor dout = at::randn(expected.sizes());
  expected.backward(dout);
  AttentionTape tape;
  tape.q = q.detach().view({1, 64, 2, length, 2}).transpose(2, 3).contiguous();
  tape.k = k.detach();
  tape.v = v.detach();
  const auto grouped = [&](const at::Tensor& x) {
    return x.view({1, 64, 2, length, 2}).transpose(2, 3).contiguous();
  };
  EXPECT_LE(RelativeError(BlockedForward(plan, kMany, tape),
                          grouped(expected.detach())),
            2e-6);
  const BlockedGradients grad = BlockedBackward(grouped(dout), plan, kMany,
                                                OptionsOf(Choice::kMps), tape);
  EXPECT_LE(RelativeError(grad.q, grouped(q.grad())), 2e-6);
  EXPECT_LE(RelativeError(grad.k, k.grad()), 2e-6);
  EXPECT_LE(RelativeError(grad.v, v.grad()), 2e-6);
}

// Both ways give the model's attention.
TEST(BlockedAttentionTest, SegmentsMasksMadeAnewAreThoseThatWereKept) {
  at::manual_seed(5);
  const HeadShape shape{4, 2, 8};
  AttentionPlan plan = PlanAttention(PackedRows(2, 96), 20, false, shape,
                                     OptionsOf(Choice::kMps));
  ASSERT_TRUE(plan.blocks[0].mask.defined());
  AttentionTape tape;
  tape.q = at::randn({2, 2, 96, 2, 8});
  tape.k = at::randn({2, 2, 96, 1, 8});
  tape.v = at::randn({2, 2, 96, 1, 8});
  const at::Tensor kept = BlockedForward(plan, shape, tape);
  for (QueryBlock& b : plan.blocks) b.mask.reset();
  EXPECT_TRUE(at::equal(BlockedForward(plan, shape, tape), kept));
}

// All keys' dp are nearly the same, and the keys too: what bf16 loses of their
// sum comes on every query's gradient. By the calls of MPS, which take what the
// values have in common out of them, less is lost than by the CPU's, which sum
// in fp32.
TEST(BlockedAttentionTest, CentredValuesSurviveBf16) {
  at::manual_seed(6);
  const int64_t length = 512, dim = 16;
  const HeadShape shape{2, 2, dim};
  const auto random = [&](double mean) {
    return (at::randn({1, 2, length, 1, dim}) + mean).to(at::kBFloat16);
  };
  AttentionTape tape;
  tape.q = random(0).mul(0.1);
  tape.k = random(4);
  tape.v = random(8);
  const at::Tensor dout = random(1);
  const auto dq = [&](Choice choice, at::ScalarType dtype) {
    const Options options = OptionsOf(choice, dtype);
    AttentionPlan plan;
    plan.rows = 1;
    plan.length = length;
    plan.scale = 1 / std::sqrt(shape.dim);
    PlanBlocks(Rows(1, length), shape, options, plan);
    AttentionTape cast;
    cast.q = tape.q.to(dtype);
    cast.k = tape.k.to(dtype);
    cast.v = tape.v.to(dtype);
    return BlockedBackward(dout.to(dtype), plan, shape, options, cast)
        .q.to(at::kFloat);
  };
  const at::Tensor exact = dq(Choice::kCpu, at::kFloat);
  EXPECT_LE(RelativeError(dq(Choice::kMps, at::kBFloat16), exact),
            0.5 * RelativeError(dq(Choice::kCpu, at::kBFloat16), exact));
}

// The tiled attention against ATen's own, values and gradients, over lengths
// around the tile's edges.
struct HeadCase {
  int64_t heads, kv_heads, length, window;
  bool segments;
};

constexpr int64_t kTile = 4;

TEST(TiledAttentionTest, ValuesAndGradientsEqualTheFusedOnes) {
  for (const HeadCase& c : std::vector<HeadCase>{{2, 2, 1, 0, false},
                                                 {2, 2, 4, 0, false},
                                                 {2, 1, 5, 0, false},
                                                 {6, 2, 13, 0, false},
                                                 {4, 2, 16, 0, true},
                                                 {2, 2, 17, 3, false},
                                                 {2, 1, 19, 4, false},
                                                 {2, 1, 19, 5, true},
                                                 {2, 2, 9, 1, false},
                                                 {2, 2, 9, 100, false}}) {
    SCOPED_TRACE(c.length);
    at::manual_seed(2);
    AttentionMask mask;
    mask.window = c.window;
    if (c.segments) {
      mask.segments = at::arange(c.length)
                          .div(5, "floor")
                          .to(at::kLong)
                          .unsqueeze(0)
                          .repeat({2, 1});
    }
    const at::Tensor weight = at::randn({2, c.heads, c.length, 8});
    auto run = [&](bool tiled) {
      at::manual_seed(3);
      std::vector<at::Tensor> inputs = {
          at::randn({2, c.heads, c.length, 8}).requires_grad_(),
          at::randn({2, c.kv_heads, c.length, 8}).requires_grad_(),
          at::randn({2, c.kv_heads, c.length, 8}).requires_grad_()};
      const at::Tensor out =
          tiled ? TiledAttention(inputs[0], inputs[1], inputs[2], mask, kTile)
                : CausalAttention(inputs[0], inputs[1], inputs[2], mask,
                                  AttentionKernel::kFused);
      (out * weight).sum().backward();
      return std::vector<at::Tensor>{out.detach(), inputs[0].grad(),
                                     inputs[1].grad(), inputs[2].grad()};
    };
    const auto tiled = run(true), fused = run(false);
    for (size_t i = 0; i < tiled.size(); ++i) {
      // A window of one token has a gradient of zero: hence the 1e-5.
      EXPECT_LE((tiled[i] - fused[i]).norm().item<double>(),
                1e-5 * fused[i].norm().item<double>() + 1e-5)
          << "tensor " << i << " of out, dq, dk, dv";
    }
  }
}

TEST(BidirectionalTilesTest, ValuesAndGradientsEqualTheFusedOnes) {
  for (const int64_t length : {1, 3, 4, 5, 8, 13}) {
    SCOPED_TRACE(length);
    at::manual_seed(2);
    const at::Tensor weight = at::randn({2, 2, length, 8});
    const at::Tensor keys = PaddingMask(
        at::tensor({length, int64_t{1}}, at::kLong), length, at::kFloat);
    auto run = [&](bool tiled) {
      at::manual_seed(3);
      std::vector<at::Tensor> in;
      for (int i = 0; i < 3; ++i) {
        in.push_back(at::randn({2, 2, length, 8}).requires_grad_());
      }
      AttentionMask mask;
      mask.causal = false;
      mask.keys = keys;
      const at::Tensor out =
          tiled ? TiledAttention(in[0], in[1], in[2], mask, kTile)
                : BidirectionalAttention(in[0], in[1], in[2], keys, 0,
                                         AttentionKernel::kFused);
      (out * weight).sum().backward();
      return std::vector<at::Tensor>{out.detach(), in[0].grad(), in[1].grad(),
                                     in[2].grad()};
    };
    const auto tiled = run(true), fused = run(false);
    for (size_t i = 0; i < tiled.size(); ++i) {
      EXPECT_LE((tiled[i] - fused[i]).norm().item<double>(),
                1e-5 * fused[i].norm().item<double>() + 1e-5)
          << "tensor " << i << " of out, dq, dk, dv";
    }
  }
}

TEST(TiledAttentionDtypeTest, Bf16StaysNearFp32) {
  at::manual_seed(4);
  const at::Tensor x = at::randn({1, 2, 33, 8});
  const at::Tensor wide = TiledAttention(x, x, x, {}, 8);
  const at::Tensor narrow = TiledAttention(
      x.to(at::kBFloat16), x.to(at::kBFloat16), x.to(at::kBFloat16), {}, 8);
  EXPECT_EQ(narrow.scalar_type(), at::kBFloat16);
  EXPECT_LE((narrow.to(at::kFloat) - wide).norm().item<double>(),
            2e-2 * wide.norm().item<double>());
}

using torch::jit::Stack;

// CUDA's kernels need CUDA. Here the CPU has some of the same names that do
// what their arguments say, so that a wrong argument is a wrong result.

// The arguments of a call, by their names in the operator's schema.
class Arguments {
 public:
  Arguments(const c10::OperatorHandle& op, const Stack& stack)
      : schema_(op.schema()),
        values_(torch::jit::last(stack, schema_.arguments().size())) {}
  const c10::IValue& operator[](const char* name) const {
    return values_[*schema_.argumentIndexWithName(name)];
  }

 private:
  const c10::FunctionSchema& schema_;
  const c10::ArrayRef<c10::IValue> values_;
};

Reference ReferenceOf(const Arguments& a) {
  AttentionInputs x{.q = a["query"].toTensor(),
                    .k = a["key"].toTensor(),
                    .v = a["value"].toTensor()};
  at::Tensor segments;
  if (x.q.dim() == 4) {  // [rows, length, heads, dim]
    EXPECT_EQ(a["max_q"].toInt(), x.q.size(1));
    segments = at::arange(x.q.size(0)).repeat_interleave(x.q.size(1));
    x = {
        .q = x.q.flatten(0, 1), .k = x.k.flatten(0, 1), .v = x.v.flatten(0, 1)};
  } else {  // [tokens, heads, dim]
    const at::Tensor sizes = a["cum_seq_k"].toTensor().diff().to(at::kLong);
    EXPECT_EQ(a["max_q"].toInt(), sizes.max().item<int64_t>());
    segments = at::arange(sizes.numel()).repeat_interleave(sizes);
  }
  EXPECT_EQ(a["max_k"].toInt(), a["max_q"].toInt());
  EXPECT_EQ(a["dropout_p"].toDouble(), 0);
  EXPECT_TRUE(a["is_causal"].toBool());
  int64_t before = x.q.size(0);
  if (!a["window_size_left"].isNone()) {
    before = a["window_size_left"].toInt();
    EXPECT_EQ(a["window_size_right"].toInt(), 0);
  }
  return Reference(x, segments, before);
}

void Return(const c10::OperatorHandle& op, Stack& stack,
            std::vector<c10::IValue> results) {
  torch::jit::drop(stack, op.schema().arguments().size());
  for (c10::IValue& result : results) stack.push_back(std::move(result));
}

void FakeForward(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments a(op, *stack);
  const at::Tensor q = a["query"].toTensor();
  const at::Tensor out = ReferenceOf(a).out().view(q.sizes());
  const auto marked = [](double value) { return at::full({1}, value); };
  Return(op, *stack, {out, marked(1), marked(2), marked(3), marked(4)});
}

void FakeBackward(const c10::OperatorHandle& op, Stack* stack) {
  const Arguments a(op, *stack);
  EXPECT_EQ(a["logsumexp"].toTensor().item<double>(), 1);
  EXPECT_EQ(a["rng_state"].toTensor().item<double>(), 2);
  EXPECT_EQ(a["unused"].toTensor().item<double>(), 3);
  const Reference reference = ReferenceOf(a);
  const auto like = [](const at::Tensor& x, const c10::IValue& y) {
    return x.view(y.toTensor().sizes());
  };
  EXPECT_LE(RelativeError(like(a["out"].toTensor(), a["query"]),
                          like(reference.out(), a["query"])),
            2e-6);
  const AttentionInputs grad = reference.Backward(
      a["grad_out"].toTensor().reshape(reference.out().sizes()));
  Return(op, *stack,
         {like(grad.q, a["query"]), like(grad.k, a["key"]),
          like(grad.v, a["value"])});
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_flash_attention_forward",
         torch::CppFunction::makeFromBoxedFunction<&FakeForward>());
  m.impl("_flash_attention_backward",
         torch::CppFunction::makeFromBoxedFunction<&FakeBackward>());
}

// The plan that PlanAttention makes for CUDA, on the CPU.
AttentionPlan FlashCudaPlanOf(const TokenLayout& layout, int64_t window) {
  const Options options = OptionsOf(Choice::kCuda, at::kBFloat16);
  const AttentionPlan plan =
      PlanAttention(layout, window, false, {4, 2, 8}, options);
  EXPECT_EQ(plan.forward, PlannedKernel::kFlashCuda);
  return plan;
}

void ExpectReferenceOfFlashCuda(const AttentionPlan& plan) {
  ExpectReference(
      plan, [&](AttentionTape& tape) { return FlashCudaForward(plan, tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return FlashCudaBackward(dout, plan, tape);
      });
}

TEST(FlashCudaTest, RowsAndSegmentsAttendWithinThemselvesAndTheirWindows) {
  at::manual_seed(1);
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(Rows(3, 20), 0));
  at::manual_seed(2);
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(Rows(2, 20), 5));
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(Rows(2, 20), 1));
  at::manual_seed(3);
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(PackedRows(2, 24), 0));
  ExpectReferenceOfFlashCuda(FlashCudaPlanOf(PackedRows(2, 24), 5));
}

using Forwarded =
    std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, c10::SymInt,
               c10::SymInt, at::Tensor, at::Tensor, at::Tensor>;
using Gradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

// The kernel takes [rows, heads, length, dim].
Reference CudnnReferenceOf(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v) {
  const auto flat = [](const at::Tensor& x) {
    return SwapTokensAndHeads(x).flatten(0, 1);
  };
  return Reference({.q = flat(q), .k = flat(k), .v = flat(v)},
                   at::arange(q.size(0)).repeat_interleave(q.size(2)),
                   q.size(2));
}

at::Tensor Like(const at::Tensor& x, const at::Tensor& by_head) {
  return SwapTokensAndHeads(x.view(SwapTokensAndHeads(by_head).sizes()));
}

Forwarded CudnnFakeForward(const at::Tensor& q, const at::Tensor& k,
                           const at::Tensor& v,
                           const std::optional<at::Tensor>& bias, bool sums,
                           double dropout, bool causal, bool,
                           std::optional<double> scale) {
  EXPECT_FALSE(bias.has_value());
  EXPECT_TRUE(sums && causal);
  EXPECT_EQ(dropout, 0);
  EXPECT_EQ(scale, 1 / std::sqrt(q.size(3)));
  const auto marked = [](double value) { return at::full({1}, value); };
  return {Like(CudnnReferenceOf(q, k, v).out(), q),
          marked(1),
          at::Tensor(),
          at::Tensor(),
          q.sym_size(2),
          k.sym_size(2),
          marked(2),
          marked(3),
          at::Tensor()};
}

Gradients CudnnFakeBackward(const at::Tensor& dout, const at::Tensor& q,
                            const at::Tensor& k, const at::Tensor& v,
                            const at::Tensor& out, const at::Tensor& lse,
                            const at::Tensor& seed, const at::Tensor& offset,
                            const at::Tensor& bias, const at::Tensor&,
                            const at::Tensor&, c10::SymInt longest_q,
                            c10::SymInt longest_k, double dropout, bool causal,
                            std::optional<double> scale) {
  EXPECT_EQ(scale, 1 / std::sqrt(q.size(3)));
  EXPECT_EQ(lse.item<double>(), 1);
  EXPECT_EQ(seed.item<double>(), 2);
  EXPECT_EQ(offset.item<double>(), 3);
  EXPECT_FALSE(bias.defined());
  EXPECT_EQ(longest_q, q.size(2));
  EXPECT_EQ(longest_k, k.size(2));
  EXPECT_EQ(dropout, 0);
  EXPECT_TRUE(causal);
  const Reference reference = CudnnReferenceOf(q, k, v);
  EXPECT_LE(RelativeError(out, Like(reference.out(), q)), 2e-6);
  const AttentionInputs grad = reference.Backward(
      SwapTokensAndHeads(dout).reshape(reference.out().sizes()));
  return {Like(grad.q, q), Like(grad.k, k), Like(grad.v, v)};
}

TORCH_LIBRARY_IMPL(aten, CPU, m) {
  m.impl("_scaled_dot_product_cudnn_attention", &CudnnFakeForward);
  m.impl("_scaled_dot_product_cudnn_attention_backward", &CudnnFakeBackward);
}

TEST(CudnnTest, RowsAttendWithinThemselves) {
  at::manual_seed(1);
  AttentionPlan plan;
  plan.rows = 3;
  plan.length = 20;
  plan.scale = 1 / std::sqrt(kShape.dim);
  ExpectReference(
      plan, [&](AttentionTape& tape) { return CudnnForward(plan, tape); },
      [&](const at::Tensor& dout, const AttentionTape& tape) {
        return CudnnBackward(dout, plan, tape);
      });
}

}  // namespace
}  // namespace mpsd::attention
