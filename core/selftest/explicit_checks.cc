// SPDX-License-Identifier: Apache-2.0
// Checks the parts of the explicit step one by one: an error that a step of two
// layers would blur is visible here.
#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/explicit_step/attention_block.h"
#include "core/explicit_step/head.h"
#include "core/explicit_step/norm.h"
#include "core/model/attention.h"
#include "core/model/attention_plan.h"
#include "core/model/losses.h"
#include "core/model/planned_attention.h"
#include "core/selftest/checks.h"
#include "core/selftest/networks.h"

namespace mpsd::selftest {
namespace {

using attention::HeadShape;
using device::Traits;

explicit_step::Options OptionsOf(const Traits& traits, const at::Tensor& x) {
  explicit_step::Options options;
  options.traits = traits;
  options.dtype = x.scalar_type();
  return options;
}

// The gradient of a result in WithGradients.
at::Tensor Weights(const at::Tensor& result) {
  return at::arange(result.numel(), at::kFloat)
      .cos()
      .view(result.sizes())
      .to(result.device(), result.scalar_type());
}

enum class Kind { kCausal, kPacked, kWindowed };

const char* NameOf(Kind kind) {
  switch (kind) {
    case Kind::kCausal:
      return "causal";
    case Kind::kPacked:
      return "packed";
    case Kind::kWindowed:
      return "windowed";
  }
  return "";
}

struct AttentionCase {
  Kind kind = Kind::kCausal;
  int64_t rows = 1, length = 1;
  HeadShape shape = {1, 1, 1};
  double common = 1;  // a part that all keys share, and all values
  int64_t window() const { return kind == Kind::kWindowed ? length / 3 : 0; }
  at::Tensor Segments() const {
    if (kind != Kind::kPacked) return {};
    return at::div(at::arange(length), length / 3 + 1, "floor")
        .expand({rows, length})
        .contiguous();
  }
};

// q, k and v [rows, heads, length, dim]. All keys have a common part, and so do
// all values, as in real models: an error of a backward in a sum over keys is
// then large compared with the rest of the sum.
Tensors AttentionInputs(const AttentionCase& c) {
  return {
      Normal({c.rows, c.shape.heads, c.length, c.shape.dim}, 81),
      Normal({c.rows, c.shape.kv_heads, c.length, c.shape.dim}, 82) + c.common,
      Normal({c.rows, c.shape.kv_heads, c.length, c.shape.dim}, 83) + c.common};
}

Tensors Attend(const Tensors& t, const AttentionCase& c, const Traits& traits) {
  const explicit_step::Options options = OptionsOf(traits, t[0]);
  attention::TokenLayout layout;
  layout.rows = c.rows;
  layout.length = c.length;
  layout.device = t[0].device();
  if (c.kind == Kind::kPacked) {
    layout.segment_lengths = attention::SegmentLengths(c.Segments());
    layout.segment_ids = c.Segments().to(t[0].device());
  }
  const bool by_position = c.kind == Kind::kCausal && c.rows > 1;
  const attention::AttentionPlan plan = attention::PlanAttention(
      layout, c.window(), by_position, c.shape, options);
  attention::AttentionTape tape;
  const auto by_row = [](const at::Tensor& x) {
    return x.transpose(1, 2).contiguous();
  };
  const at::Tensor tokens = attention::AttentionForward(
      {by_row(t[0]), by_row(t[1]), by_row(t[2])}, plan, c.shape, tape);
  const at::Tensor out =
      plan.ByRow(tokens, c.shape.dim).transpose(1, 2).contiguous();
  const attention::AttentionInputs grad = attention::AttentionBackward(
      plan.Tokens(by_row(Weights(out))), plan, c.shape, options, tape);
  return {out, grad.q.transpose(1, 2), grad.k.transpose(1, 2),
          grad.v.transpose(1, 2)};
}

Numeric Attention(const AttentionCase& c, const Traits& traits) {
  return {.kernel = absl::StrCat("explicit attention, ", NameOf(c.kind),
                                 c.common > 1 ? ", keys alike" : ""),
          .shape = absl::StrCat(c.rows, " × ", c.shape.heads, " × ", c.length,
                                " × ", c.shape.dim),
          .inputs = [c] { return AttentionInputs(c); },
          .function = [=](const Tensors& t) { return Attend(t, c, traits); },
          .reference = WithGradients([c](const Tensors& t) -> Tensors {
            attention::AttentionMask mask;
            mask.segments = c.Segments();
            mask.window = c.window();
            return {attention::CausalAttention(
                t[0], t[1], t[2], mask, attention::AttentionKernel::kFused)};
          })};
}

// A dropout that dropped nothing, or its last attempt.
std::pair<at::Tensor, at::Tensor> DropNothing(const at::Tensor& x) {
  at::Tensor kept, mask;
  for (int i = 0; i < kDropoutAttempts; ++i) {
    std::tie(kept, mask) = at::native_dropout(x, kDropsNothing, /*train=*/true);
    if (mask.all().item<bool>()) break;
  }
  return {kept, mask};
}

// Checks calls that no other check makes separately: an error in one place of a
// large tensor is small in a network's gradients.
Numeric Calls(const Sizes& s) {
  const int64_t rows = std::min<int64_t>(s.tokens(), 512), width = s.width;
  return {.kernel = "calls of the explicit step",
          .shape = absl::StrCat(rows, " × ", width),
          .inputs = [=]() -> Tensors {
            return {Normal({rows, width}, 90), Normal({rows, width}, 91),
                    Normal({width, width}, 92, 1 / std::sqrt(width)),
                    Integers({rows}, rows, 93)};
          },
          .function = [](const Tensors& t) -> Tensors {
            const at::Tensor &x = t[0], &y = t[1], &w = t[2], &ids = t[3];
            at::Tensor in_place = y.clone(), silu = x.clone();
            at::silu_backward_out(in_place, in_place, x);
            at::silu_(silu);
            const auto [kept, mask] = DropNothing(x);
            return {at::addmm(y, x, w),
                    y.clone().addmm_(x, w),
                    y.clone().add_(x),
                    x.clone().mul_(y),
                    x * 0.5,
                    x.neg(),
                    in_place,
                    silu,
                    at::index_select(x, 0, ids),
                    at::zeros_like(x).index_add_(0, ids, y),
                    at::embedding(x, ids),
                    kept,
                    at::native_dropout_backward(y, mask, 2.0),
                    at::ones_like(x),
                    at::cat({x, y}, 1),
                    at::addcmul(x, y, y, -1),
                    x.mean({1}, /*keepdim=*/true)};
          }};
}

// `weight` as one that is trained.
at::Tensor AsTrained(const at::Tensor& weight) {
  at::Tensor leaf = weight.detach();
  leaf.requires_grad_(true);
  leaf.mutable_grad() = at::zeros_like(weight, at::kFloat);
  return leaf;
}

// The gradient of a norm by x, alone and added to a residual, and by w.
Numeric Norm(const Sizes& s, const Traits& traits) {
  return {
      .kernel = "explicit norm, gradients",
      .shape = absl::StrCat(s.tokens(), " × ", s.width),
      .inputs = [s]() -> Tensors {
        return {Normal({s.tokens(), s.width}, 84),
                Normal({s.width}, 85, 0.2) + 1};
      },
      .function = [=](const Tensors& t) -> Tensors {
        const at::AutoDispatchBelowADInplaceOrView no_graph;
        const explicit_step::Options options = OptionsOf(traits, t[0]);
        const model::RmsNorm frozen{"", t[1], 1e-6};
        const model::RmsNorm norm{"", AsTrained(t[1]), 1e-6};
        const explicit_step::Normed y =
            explicit_step::NormForward(t[0], norm, options);
        const at::Tensor dy = Weights(y.y);
        return {
            y.y, explicit_step::NormApply(t[0], y.rstd, norm, options),
            explicit_step::NormBackward(dy, t[0], y.rstd, norm, {}, options),
            explicit_step::NormBackward(dy, t[0], y.rstd, frozen, dy.clone(),
                                        options),
            norm.weight.grad()};
      },
      .reference = [](const Tensors& t) -> Tensors {
        const Tensors r = WithGradients([&](const Tensors& leaves) -> Tensors {
          return {model::RmsNorm{"", leaves[1], 1e-6}.Forward(leaves[0])};
        })({t[0], t[1]});
        return {r[0], r[0], r[1], r[1] + Weights(r[0]), r[2]};
      }};
}

// Rotates forward and backward, with a table of one row's positions and with
// one of all rows' positions.
Numeric Rotation(const Sizes& s, const Traits& traits, bool packed) {
  const int64_t rows = packed ? s.rows : 1;
  Numeric n;
  n.kernel =
      absl::StrCat("explicit rotation", packed ? ", packed" : "", ", gradient");
  n.shape =
      absl::StrCat(s.rows, " × ", s.length, " × ", s.heads, " × ", s.head_dim);
  n.inputs = [=]() -> Tensors {
    return {Normal({s.rows, s.length, s.heads, s.head_dim}, 86),
            (at::arange(s.length) % (packed ? s.length / 2 + 1 : s.length))
                .expand({rows, s.length})
                .contiguous()};
  };
  const auto table = [s](const Tensors& t) {
    spec::ModelConfig config;
    config.head_dim = s.head_dim;
    return model::Rotary(config, t[0].device()).Table(t[1], t[0].scalar_type());
  };
  n.function = [=](const Tensors& t) -> Tensors {
    const auto rope = explicit_step::MakeRopeTable(table(t), s.heads,
                                                   OptionsOf(traits, t[0]));
    const at::Tensor y = explicit_step::RopeForward(t[0], rope);
    return {y, explicit_step::RopeBackward(Weights(y), rope)};
  };
  n.reference = WithGradients([=](const Tensors& t) -> Tensors {
    return {model::Rotary::Apply(t[0].transpose(1, 2), table(t))
                .transpose(1, 2)
                .contiguous()};
  });
  return n;
}

Numeric Head(const Sizes& s, const Traits& traits, bool trained) {
  const int64_t labels = std::min<int64_t>(s.tokens(), 512);
  return {
      .kernel = trained ? "explicit trained head and cross-entropy, gradients"
                        : "explicit head and cross-entropy, gradient",
      .shape = absl::StrCat(labels, " × ", s.width, " → ", s.vocabulary),
      .inputs = [=]() -> Tensors {
        return {
            Normal({labels, s.width}, 87),
            Normal({s.vocabulary, s.width}, 88, 0.05),
            Integers({labels}, s.vocabulary, 89)
                .masked_fill(at::arange(labels) % 5 == 4, base::kIgnoreIndex)};
      },
      .function = [=](const Tensors& t) -> Tensors {
        const at::AutoDispatchBelowADInplaceOrView no_graph;
        const explicit_step::Options options = OptionsOf(traits, t[0]);
        model::Linear head;
        head.weight = trained ? AsTrained(t[1]) : t[1];
        explicit_step::LoraPack pack;
        explicit_step::LossHead loss(head, options, pack);
        const explicit_step::LossHead::Result r =
            loss.Loss(t[0], t[2], /*scale=*/1);
        if (!trained) return {r.sum, r.grad};
        return {r.sum, r.grad, head.weight.grad()};
      },
      .reference = WithGradients([=](const Tensors& t) -> Tensors {
        model::Linear head;
        head.weight = trained ? t[1] : t[1].detach();
        return {model::SumCrossEntropy(t[0], head,
                                       {at::arange(labels), t[2], labels})};
      })};
}

}  // namespace

std::vector<Check> ExplicitChecks(const Sizes& sizes, const Traits& traits) {
  std::vector<Check> checks;
  const HeadShape shape{sizes.heads, sizes.kv_heads, sizes.head_dim};
  // The CPU would take minutes for a whole micro-batch of a large model.
  const int64_t length = std::min<int64_t>(sizes.length, 1024);
  for (const Kind kind : {Kind::kCausal, Kind::kPacked, Kind::kWindowed}) {
    AddBoth(Attention({kind, sizes.rows, length, shape}, traits), checks);
  }
  // Longer rows, of few heads: up to what the CPU holds at once.
  const int64_t longest = std::min<int64_t>(sizes.length, 4096);
  if (longest > length) {
    AddBoth(
        Attention({Kind::kCausal, 1, longest, {2, 1, sizes.head_dim}}, traits),
        checks);
  }
  // Enough queries for MPS to split them into several blocks.
  AddBoth(Attention({Kind::kCausal, 4, 1024, {8, 2, 16}}, traits), checks);
  if (!traits.exact_softmax_backward) {
    const AttentionCase alike{Kind::kCausal, 1, 512, {8, 8, 16}, 4};
    checks.push_back(MakeCheck(Attention(alike, traits), at::kBFloat16));
  }
  AddBoth(Calls(sizes), checks);
  AddBoth(Norm(sizes, traits), checks);
  AddBoth(Rotation(sizes, traits, false), checks);
  AddBoth(Rotation(sizes, traits, true), checks);
  AddBoth(Head(sizes, traits, false), checks);
  AddBoth(Head(sizes, traits, true), checks);
  return checks;
}

}  // namespace mpsd::selftest
