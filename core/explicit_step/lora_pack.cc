// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/lora_pack.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace mpsd::explicit_step {
namespace {

OutputAdapters MakeOutputAdapters(
    const std::vector<const model::Linear*>& linears, int64_t rank_begin) {
  OutputAdapters part;
  part.rank_begin = rank_begin;
  for (const model::Linear* linear : linears) {
    const int64_t out = linear->out_features();
    if (const auto* lora =
            dynamic_cast<const lora::LoraLinear*>(linear->adapter.get())) {
      const int64_t rank = lora->a().size(0);
      part.targets.push_back({.lora = lora,
                              .rank_begin = part.rank,
                              .rank = rank,
                              .out_begin = part.out,
                              .out = out});
      part.rank += rank;
    }
    part.out += out;
  }
  return part;
}

}  // namespace

bool LoraGroup::draws() const {
  for (const OutputAdapters& part : parts) {
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
    OutputAdapters part = MakeOutputAdapters(linears, group.rank);
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

LoraPack::Matrices LoraPack::Cut(const at::Tensor& flat) const {
  Matrices matrices;
  int64_t at = 0;
  const auto take = [&](int64_t rows, int64_t columns) {
    const at::Tensor view =
        flat.narrow(0, at, rows * columns).view({rows, columns});
    at += rows * columns;
    return view;
  };
  for (const LoraGroup& g : groups_) matrices.a.push_back(take(g.rank, g.in));
  for (const LoraGroup& g : groups_) {
    for (const OutputAdapters& part : g.parts) {
      matrices.b.push_back(take(part.rank, part.out));
    }
  }
  base::CheckEqual(at, flat.numel(), "the matrices and their buffer");
  return matrices;
}

LoraPack::Blocks LoraPack::ByTarget(const Matrices& matrices) const {
  Blocks blocks;
  auto a = matrices.a.begin(), b = matrices.b.begin();
  for (const LoraGroup& g : groups_) {
    for (const OutputAdapters& part : g.parts) {
      for (const LoraTarget& t : part.targets) {
        blocks.a.push_back(
            a->narrow(0, part.rank_begin + t.rank_begin, t.rank));
        // B̃ contains Bᵀ, so the block's transpose has the shape of B.
        blocks.b.push_back(b->narrow(0, t.rank_begin, t.rank)
                               .narrow(1, t.out_begin, t.out)
                               .t());
      }
      ++b;
    }
    ++a;
  }
  return blocks;
}

void LoraPack::HandOut(const Matrices& packed, const Matrices& gradients) {
  size_t group = 0, part = 0;
  for (LoraGroup& g : groups_) {
    g.a = packed.a[group];
    g.a_t = g.a.t();
    g.grad_a = gradients.a[group++];
    for (OutputAdapters& p : g.parts) {
      p.b = packed.b[part];
      p.b_t = p.b.t();
      p.grad_b = gradients.b[part++];
    }
  }
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

// Lists the parameters, their gradients and the scales in ByTarget's order:
// Refresh and CollectGradients copy block by block.
void LoraPack::ListParameters() {
  int64_t at = 0;
  for (const LoraGroup& g : groups_) {
    for (const OutputAdapters& part : g.parts) {
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
  const Matrices gradients = Cut(gradients_);
  value_blocks_ = ByTarget(Cut(values_));
  gradient_blocks_ = ByTarget(gradients);
  HandOut(Cut(packed_), gradients);
  ListParameters();
  gradient_scales_ = GradientScales();
}

void LoraPack::Refresh() {
  base::Check(values_.defined(), "Allocate comes before Refresh");
  at::_foreach_copy_(value_blocks_.a, from_a_);
  at::_foreach_copy_(value_blocks_.b, from_b_);
  // B̃ contains scaling · Bᵀ, so that no forward or backward of this step
  // multiplies by `scaling` again.
  values_.narrow(0, a_size_, b_size_).mul_(b_scales_);
  if (!packed_.is_same(values_)) packed_.copy_(values_);
  gradients_.zero_();
}

void LoraPack::CollectGradients() {
  base::Check(values_.defined(), "Allocate comes before CollectGradients");
  // By the chain rule dB = scaling · dB̃ᵀ; dA lacks the norm's weight
  // (LoraGroup::norm_weight). One product does both.
  gradients_.mul_(gradient_scales_);
  at::_foreach_copy_(to_a_, gradient_blocks_.a);
  at::_foreach_copy_(to_b_, gradient_blocks_.b);
}

}  // namespace mpsd::explicit_step
