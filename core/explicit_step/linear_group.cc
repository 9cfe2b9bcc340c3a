// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/linear_group.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/explicit_step/norm.h"
#include "core/model/products.h"

namespace mpsd::explicit_step {
namespace {

// Both as one tensor.
at::Tensor Joined(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor both = products::AdjacentRows({a, b});
  return both.defined() ? both : at::cat({a, b});
}

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

namespace {

bool AnyAdapted(const std::vector<std::vector<const model::Linear*>>& parts) {
  for (const auto& part : parts) {
    for (const model::Linear* l : part) {
      if (l->adapter != nullptr) return true;
    }
  }
  return false;
}

// Below this many rows per thread, MKL's packing of the weight, once per call
// and thread, outweighs the better balance.
constexpr int64_t kFewestRowsOfPart = 128;

// x w on the CPU as a batch of equal slices of rows, one per thread: MKL
// balances a single product of few rows badly among its threads. Each output is
// the same sum, bit for bit.
at::Tensor ByThreads(const at::Tensor& x, const at::Tensor& w) {
  const int64_t parts = at::get_num_threads(), rows = x.size(0) / parts;
  if (parts == 1 || !at::hasMKL() || x.scalar_type() != at::kFloat ||
      rows < kFewestRowsOfPart || rows * parts != x.size(0)) {
    return at::mm(x, w);
  }
  return at::bmm(x.view({parts, rows, x.size(1)}), w.expand({parts, -1, -1}))
      .view({x.size(0), w.size(1)});
}

}  // namespace

LinearGroup::LinearGroup(
    const std::vector<std::vector<const model::Linear*>>& parts,
    const at::Tensor& norm_weight, const Options& options, LoraPack& pack,
    std::vector<int64_t> widths)
    : options_(options), widths_(std::move(widths)) {
  for (const auto& linears : parts) parts_.push_back(MakeOutputBlocks(linears));
  if (AnyAdapted(parts)) lora_ = pack.Add(parts, norm_weight);
}

LinearGroup::OutputBlocks LinearGroup::MakeOutputBlocks(
    const std::vector<const model::Linear*>& linears) const {
  OutputBlocks part;
  int64_t rows = 0;
  for (const model::Linear* l : linears) {
    Block block;
    block.linear = l;
    block.begin = rows;
    block.out = l->out_features();
    rows += block.out;
    if (l->bias.defined()) block.bias = l->bias.detach().to(options_.dtype);
    if (l->weight.defined() && l->weight.scalar_type() == options_.dtype) {
      block.weight = l->weight.detach();
    }
    if (part.empty() || !Joins(part.back(), block)) {
      part.push_back(std::move(block));
      continue;
    }
    Block& last = part.back();
    last.out += block.out;
    last.weight = Joined(last.weight, block.weight);
    if (block.bias.defined()) last.bias = Joined(last.bias, block.bias);
  }
  for (Block& block : part) Complete(block);
  return part;
}

bool LinearGroup::Joins(const Block& a, const Block& b) const {
  if (!a.weight.defined() || !b.weight.defined() ||
      a.bias.defined() != b.bias.defined() ||
      !products::AdjacentRows({a.weight, b.weight}).defined()) {
    return false;
  }
  // A copy of trained biases would keep their first values.
  return options_.weights == nullptr || !a.bias.defined() ||
         products::AdjacentRows({a.bias, b.bias}).defined();
}

void LinearGroup::Complete(Block& block) const {
  if (!block.weight.defined()) return;
  block.weight_t = block.weight.t();
  if (options_.weights == nullptr) return;
  const optim::ParameterSet& parameters = options_.weights->parameters;
  block.weight_grad = parameters.GradientOf(block.weight);
  base::Check(block.weight_grad.defined(), "a trained weight has a gradient");
  if (!block.bias.defined()) return;
  block.bias_grad = parameters.GradientOf(block.bias);
  base::Check(block.bias_grad.defined(), "a trained bias has a gradient");
}

at::Tensor LinearGroup::Weight(const Block& block) const {
  return block.weight.defined() ? block.weight
                                : block.linear->Dense(options_.dtype);
}

at::Tensor LinearGroup::Base(const OutputBlocks& part, const at::Tensor& x,
                             const at::Tensor& residual) const {
  std::vector<at::Tensor> outputs;
  for (const Block& block : part) {
    const at::Tensor w =
        block.weight_t.defined() ? block.weight_t : Weight(block).t();
    // On the CPU addmm rounds each partial sum to the residual's magnitude,
    // which is visible in a real model's gradients: the residual is added
    // afterwards, at the end of this function.
    if (residual.defined() && part.size() == 1 &&
        !options_.traits.rounds_to_summand) {
      at::Tensor y = at::addmm(residual, x, w);
      return block.bias.defined() ? y.add_(block.bias) : y;
    }
    outputs.push_back(block.bias.defined() ? at::addmm(block.bias, x, w)
                      : options_.traits.splits_products ? ByThreads(x, w)
                                                        : at::mm(x, w));
  }
  at::Tensor y = outputs.size() == 1 ? outputs[0] : at::cat(outputs, 1);
  return residual.defined() ? y.add_(residual) : y;
}

std::vector<at::Tensor> LinearGroup::Bases(const at::Tensor& x,
                                           const at::Tensor& residual) const {
  std::vector<at::Tensor> y;
  for (size_t i = 0; i < parts_.size(); ++i) {
    y.push_back(Base(parts_[i], x, i == 0 ? residual : at::Tensor()));
  }
  return y;
}

at::Tensor LinearGroup::BaseBackward(const std::vector<at::Tensor>& dy) const {
  const bool by_inner_product =
      options_.traits.inner_products && options_.dtype == at::kFloat;
  at::Tensor dx;
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (const Block& block : parts_[i]) {
      const at::Tensor d = Columns(dy[i], block);
      const at::Tensor w = Weight(block);
      if (by_inner_product) {
        const at::Tensor product = products::InnerProduct(d, w.t());
        dx = dx.defined() ? dx.add_(product) : product;
      } else if (dx.defined()) {
        dx.addmm_(d, w);
      } else {
        dx = at::mm(d, w);
      }
    }
  }
  return dx;
}

void LinearGroup::WeightsBackward(const std::vector<at::Tensor>& dy,
                                  const at::Tensor& x) const {
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (const Block& block : parts_[i]) {
      const at::Tensor d = Columns(dy[i], block);
      if (options_.fresh()) {
        products::SetProduct(block.weight_grad, d, x, options_.traits);
      } else {
        products::AddProduct(block.weight_grad, d, x, options_.traits);
      }
      if (!block.bias_grad.defined()) continue;
      AddSum(block.bias_grad, d.sum({0}, /*keepdim=*/false, at::kFloat),
             options_);
    }
  }
}

at::Tensor LinearGroup::LowRankColumns(const at::Tensor& low_rank,
                                       const OutputAdapters& part) const {
  return part.rank == lora_->rank
             ? low_rank
             : low_rank.narrow(1, part.rank_begin, part.rank);
}

void LinearGroup::AddAdapters(const at::Tensor& low_rank,
                              std::vector<at::Tensor>& y) const {
  base::Check(low_rank.defined(), "the low-rank product of this forward");
  base::CheckEqual(y.size(), lora_->parts.size(), "outputs and parts");
  for (size_t i = 0; i < y.size(); ++i) {
    const OutputAdapters& part = lora_->parts[i];
    if (part.rank > 0) y[i].addmm_(LowRankColumns(low_rank, part), part.b);
  }
}

std::vector<at::Tensor> LinearGroup::Forward(const at::Tensor& x,
                                             const at::Tensor& residual,
                                             LoraTape& tape) const {
  std::vector<at::Tensor> y = Bases(x, residual);
  if (lora_ != nullptr) AddAdapters(AdapterLowRank(x, tape), y);
  return Divided(std::move(y));
}

std::vector<at::Tensor> LinearGroup::Divided(std::vector<at::Tensor> y) const {
  if (widths_.empty()) return y;
  std::vector<at::Tensor> columns = y[0].split_with_sizes(widths_, 1);
  for (at::Tensor& x : columns) x = x.contiguous();
  return columns;
}

std::vector<at::Tensor> LinearGroup::ForwardAgain(const at::Tensor& x,
                                                  const at::Tensor& residual,
                                                  const LoraTape& tape) const {
  std::vector<at::Tensor> y = Bases(x, residual);
  if (lora_ != nullptr) AddAdapters(tape.low_rank, y);
  return Divided(std::move(y));
}

at::Tensor LinearGroup::AdapterLowRank(const at::Tensor& x,
                                       LoraTape& tape) const {
  base::Check(lora_ != nullptr, "the group is adapted");
  tape.masks.clear();
  tape.low_rank =
      lora_->draws() ? DroppedLowRank(x, tape) : at::mm(x, lora_->a_t);
  return tape.low_rank;
}

at::Tensor LinearGroup::AdapterOutput(const at::Tensor& low_rank) const {
  base::CheckEqual(lora_->parts.size(), 1, "parts of a group too wide for y");
  return at::mm(low_rank, lora_->parts[0].b);
}

at::Tensor LinearGroup::AdapterBackward(const at::Tensor& dy,
                                        const at::Tensor& low_rank) const {
  base::CheckEqual(lora_->parts.size(), 1, "parts of a group too wide for y");
  return OutputBackward(lora_->parts[0], dy, low_rank);
}

at::Tensor LinearGroup::DroppedLowRank(const at::Tensor& x,
                                       LoraTape& tape) const {
  // PEFT draws one mask per target, in the order of the targets: so does this
  // loop, which therefore needs one GEMM per target.
  std::vector<at::Tensor> low_rank;
  for (const OutputAdapters& part : lora_->parts) {
    for (const LoraTarget& t : part.targets) {
      const auto [dropped, mask] =
          at::native_dropout(x, lora_->dropout, /*train=*/true);
      const int64_t begin = part.rank_begin + t.rank_begin;
      low_rank.push_back(at::mm(dropped, lora_->a_t.narrow(1, begin, t.rank)));
      tape.masks.push_back(mask);
    }
  }
  return at::cat(low_rank, 1);
}

LinearGroup::Input LinearGroup::OfNorm(
    const at::Tensor& z, const at::Tensor& rstd,
    const std::optional<model::RmsNorm>& norm) const {
  if (!norm || !wants_normed()) {
    return {.tensor = [=] { return z; }, .rstd = rstd};
  }
  return {.tensor = [=, this, &norm] {
    return NormApply(z, rstd, *norm, options_);
  }};
}

at::Tensor LinearGroup::Backward(const std::vector<at::Tensor>& dy,
                                 const Input& input, const LoraTape& tape,
                                 bool wants_dx) const {
  return widths_.empty()
             ? PartsBackward(dy, input, tape, wants_dx)
             : PartsBackward({at::cat(dy, 1)}, input, tape, wants_dx);
}

at::Tensor LinearGroup::PartsBackward(const std::vector<at::Tensor>& dy,
                                      const Input& input, const LoraTape& tape,
                                      bool wants_dx) const {
  base::CheckEqual(dy.size(), parts_.size(), "gradients and parts");
  at::Tensor dx;
  if (wants_dx) dx = BaseBackward(dy);
  if (options_.weights != nullptr) WeightsBackward(dy, input.tensor());
  if (lora_ == nullptr) return dx;
  std::vector<at::Tensor> d_low_ranks;
  for (size_t i = 0; i < dy.size(); ++i) {
    const OutputAdapters& part = lora_->parts[i];
    if (part.rank == 0) continue;
    d_low_ranks.push_back(
        OutputBackward(part, dy[i], LowRankColumns(tape.low_rank, part)));
  }
  AdapterInputBackward(
      d_low_ranks.size() == 1 ? d_low_ranks[0] : at::cat(d_low_ranks, 1), input,
      tape, dx);
  return dx;
}

at::Tensor LinearGroup::OutputBackward(const OutputAdapters& part,
                                       const at::Tensor& dy,
                                       const at::Tensor& low_rank) const {
  products::AddProduct(part.grad_b, low_rank, dy, options_.traits);
  const std::optional<int64_t> most = options_.traits.max_sum;
  return most && part.out > *most ? products::TimesInPieces(dy, part.b_t, *most)
                                  : at::mm(dy, part.b_t);
}

void LinearGroup::AdapterInputBackward(const at::Tensor& d_low_rank,
                                       const Input& input, const LoraTape& tape,
                                       at::Tensor& dx) const {
  const at::Tensor x = input.tensor();
  if (!tape.masks.empty()) return DroppedBackward(d_low_rank, x, tape, dx);
  // dx takes dt itself; dA takes rstd · dt if `x` is z (see the class).
  if (dx.defined()) dx.addmm_(d_low_rank, lora_->a);
  products::AddProduct(lora_->grad_a,
                       input.rstd.defined()
                           ? Scaled(d_low_rank, input.rstd, options_)
                           : d_low_rank,
                       x, options_.traits);
}

void LinearGroup::DroppedBackward(const at::Tensor& d_low_rank,
                                  const at::Tensor& x, const LoraTape& tape,
                                  at::Tensor& dx) const {
  const double scale = 1 / (1 - lora_->dropout);
  auto mask = tape.masks.begin();
  for (const OutputAdapters& part : lora_->parts) {
    for (const LoraTarget& t : part.targets) {
      base::Check(mask != tape.masks.end(), "dropout keeps a mask a target");
      const int64_t begin = part.rank_begin + t.rank_begin;
      const at::Tensor d = d_low_rank.narrow(1, begin, t.rank).contiguous();
      products::AddProduct(lora_->grad_a.narrow(0, begin, t.rank), d,
                           at::native_dropout_backward(x, *mask, scale),
                           options_.traits);
      if (dx.defined()) {
        dx.add_(at::native_dropout_backward(
            at::mm(d, lora_->a.narrow(0, begin, t.rank)), *mask, scale));
      }
      ++mask;
    }
  }
}

}  // namespace mpsd::explicit_step
