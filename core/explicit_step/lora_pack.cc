// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/lora_pack.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace mpsd::explicit_step {
namespace {

LoraPart MakePart(const std::vector<const model::Linear*>& linears,
                  int64_t rank_begin) {
  LoraPart part;
  part.rank_begin = rank_begin;
  for (const model::Linear* linear : linears) {
    const int64_t out = linear->out_features();
    if (const auto* lora =
            dynamic_cast<const lora::LoraLinear*>(linear->adapter.get())) {
      const int64_t rank = lora->a().size(0);
      part.targets.push_back({lora, part.rank, rank, part.out, out});
      part.rank += rank;
    }
    part.out += out;
  }
  return part;
}

}  // namespace

bool LoraGroup::draws() const {
  for (const LoraPart& part : parts) {
    if (!part.targets.empty()) return part.targets[0].lora->draws();
  }
  return false;
}

bool LoraPack::draws() const {
  return std::any_of(groups_.begin(), groups_.end(),
                     [](const LoraGroup& g) { return g.draws(); });
}

LoraGroup* LoraPack::Add(
    const std::vector<std::vector<const model::Linear*>>& parts,
    const at::Tensor& norm_weight) {
  base::Check(!values_.defined(), "every Add comes before Allocate");
  base::Check(!parts.empty() && !parts.front().empty(), "a group has linears");
  LoraGroup group;
  group.in = parts.front().front()->in_features();
  for (const auto& linears : parts) {
    LoraPart part = MakePart(linears, group.rank);
    group.rank += part.rank;
    b_size_ += part.rank * part.out;
    adapters_ += static_cast<int64_t>(part.targets.size());
    if (part.rank > 0) group.dropout = part.targets[0].lora->dropout();
    group.parts.push_back(std::move(part));
  }
  base::CheckLess(0, group.rank, "the rank of a group, which is adapted");
  a_size_ += group.rank * group.in;
  if (group.dropout == 0) group.norm_weight = norm_weight;
  groups_.push_back(std::move(group));
  return &groups_.back();
}

LoraPack::Slices LoraPack::Slice(const at::Tensor& flat,
                                 void (*set_a)(LoraGroup&, const at::Tensor& a),
                                 void (*set_b)(LoraPart&,
                                               const at::Tensor& b)) {
  Slices slices;
  int64_t at = 0;
  const auto take = [&](int64_t rows, int64_t columns) {
    const at::Tensor view =
        flat.narrow(0, at, rows * columns).view({rows, columns});
    at += rows * columns;
    return view;
  };
  for (LoraGroup& g : groups_) {
    const at::Tensor a = take(g.rank, g.in);
    for (const LoraPart& part : g.parts) {
      for (const LoraTarget& t : part.targets) {
        slices.a.push_back(a.narrow(0, part.rank_begin + t.rank_begin, t.rank));
      }
    }
    set_a(g, a);
  }
  for (LoraGroup& g : groups_) {
    for (LoraPart& part : g.parts) {
      const at::Tensor b = take(part.rank, part.out);
      for (const LoraTarget& t : part.targets) {
        slices.b.push_back(b.narrow(0, t.rank_begin, t.rank)
                               .narrow(1, t.out_begin, t.out)
                               .t());
      }
      set_b(part, b);
    }
  }
  base::CheckEqual(at, flat.numel(), "the slices and their buffer");
  return slices;
}

at::Tensor LoraPack::GradientScales() const {
  at::Tensor scales = at::ones_like(gradients_);
  int64_t at = 0;
  for (const LoraGroup& g : groups_) {
    if (g.norm_weight.defined()) {
      scales.narrow(0, at, g.rank * g.in)
          .view({g.rank, g.in})
          .copy_(g.norm_weight.expand({g.rank, g.in}));
    }
    at += g.rank * g.in;
  }
  base::CheckEqual(at, a_size_, "numbers of all A");
  scales.narrow(0, a_size_, b_size_).copy_(b_scales_);
  return scales;
}

// Lists the parameters, their gradients and the scales, target by target. The
// order is that of the slices, which Refresh and CollectGradients copy from and
// to.
void LoraPack::CollectViews() {
  int64_t at = 0;
  for (const LoraGroup& g : groups_) {
    for (const LoraPart& part : g.parts) {
      for (const LoraTarget& t : part.targets) {
        base::Check(t.lora->a().grad().defined(), "A has a gradient");
        base::Check(t.lora->b().grad().defined(), "B has a gradient");
        from_a_.push_back(t.lora->a().detach());
        from_b_.push_back(t.lora->b().detach());
        to_a_.push_back(t.lora->a().grad());
        to_b_.push_back(t.lora->b().grad());
        b_scales_.narrow(0, at, t.rank * part.out).fill_(t.lora->scaling());
        at += t.rank * part.out;
      }
    }
  }
  base::CheckEqual(at, b_size_, "numbers of all B");
}

void LoraPack::Allocate(at::Device device, at::ScalarType dtype) {
  base::Check(!values_.defined(), "Allocate is called once");
  const auto fp32 = at::TensorOptions().dtype(at::kFloat).device(device);
  values_ = at::zeros({a_size_ + b_size_}, fp32);
  gradients_ = at::zeros_like(values_);
  packed_ = dtype == at::kFloat ? values_ : values_.to(dtype);
  b_scales_ = at::empty({b_size_}, fp32);
  value_slices_ = Slice(
      values_, [](LoraGroup&, const at::Tensor&) {},
      [](LoraPart&, const at::Tensor&) {});
  gradient_slices_ = Slice(
      gradients_, [](LoraGroup& g, const at::Tensor& a) { g.grad_a = a; },
      [](LoraPart& p, const at::Tensor& b) { p.grad_b = b; });
  Slice(
      packed_,
      [](LoraGroup& g, const at::Tensor& a) {
        g.a = a;
        g.a_t = a.t();
      },
      [](LoraPart& p, const at::Tensor& b) {
        p.b = b;
        p.b_t = b.t();
      });
  CollectViews();
  gradient_scales_ = GradientScales();
}

void LoraPack::Refresh() {
  base::Check(values_.defined(), "Allocate comes before Refresh");
  at::_foreach_copy_(value_slices_.a, from_a_);
  at::_foreach_copy_(value_slices_.b, from_b_);
  values_.narrow(0, a_size_, b_size_).mul_(b_scales_);
  if (!packed_.is_same(values_)) packed_.copy_(values_);
  gradients_.zero_();
}

void LoraPack::CollectGradients() {
  base::Check(values_.defined(), "Allocate comes before CollectGradients");
  gradients_.mul_(gradient_scales_);
  at::_foreach_copy_(to_a_, gradient_slices_.a);
  at::_foreach_copy_(to_b_, gradient_slices_.b);
}

}  // namespace mpsd::explicit_step
