// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/model/losses.h"
#include "core/model/products.h"
#include "core/spec/job_layers.h"

namespace mpsd::explicit_step {
namespace {

using model::LabelSelection;

// BLAS's CPU threads share a product of more outputs than this badly.
constexpr int64_t kOutputsAtOnce = 2048;

struct LossAndDerivative {
  at::Tensor losses;      // fp32 [n, 1]
  at::Tensor derivative;  // softmax − onehot, [n, vocab]
};

// softmax(logits) along the last dimension. Overwrites `logits` if the device
// computes softmax in place correctly.
at::Tensor Softmax(at::Tensor logits, const Options& options) {
  if (!options.traits.softmax_in_place) {
    return at::_softmax(logits, -1, /*half_to_float=*/false);
  }
  at::_softmax_out(logits, logits, -1, /*half_to_float=*/false);
  return logits;
}

// CrossEntropy with a derivative in `dtype`, of fewer bits than fp32: two
// passes over the logits fewer. Overwrites `logits`.
LossAndDerivative NarrowCrossEntropy(at::Tensor logits, const at::Tensor& index,
                                     at::ScalarType dtype) {
  at::_log_softmax_out(logits, logits, -1, /*half_to_float=*/false);
  const at::Tensor of_target = logits.gather(1, index);
  LossAndDerivative piece;
  piece.losses = of_target.neg();
  piece.derivative = at::empty_like(logits, dtype);
  at::exp_out(piece.derivative, logits);
  // p − 1 before it is rounded: p may be near 1.
  piece.derivative.scatter_(1, index, of_target.expm1().to(dtype));
  return piece;
}

// The losses of a piece and their derivative by the logits, in fp32. May
// overwrite `logits`. With a soft cap c the losses are those of l = c · tanh(
// logits / c), and the derivative has the factor 1 − (l / c)².
LossAndDerivative CrossEntropy(at::Tensor logits, const at::Tensor& index,
                               double softcap, const Options& options) {
  at::Tensor slope;
  if (softcap > 0) {
    logits.mul_(1 / softcap).tanh_();
    slope = 1 - logits.square();
    logits.mul_(softcap);
  }
  // −log softmax(l)[target] = log Σ exp(l) − l[target]. With m = max l and the
  // softmax computed, log Σ exp(l) = m − log(max softmax(l)). That logarithm is
  // safe: the largest probability is at least 1 / vocab, while the target's may
  // round to 0.
  const at::Tensor top = logits.amax(-1, /*keepdim=*/true);
  const at::Tensor of_target = logits.gather(1, index);
  logits = Softmax(std::move(logits), options);
  LossAndDerivative piece;
  piece.losses = top - logits.amax(-1, /*keepdim=*/true).log_();
  piece.losses.sub_(of_target);
  logits.scatter_add_(1, index, at::full_like(piece.losses, -1));
  piece.derivative = slope.defined() ? logits.mul_(slope) : logits;
  return piece;
}

// The rows of one piece of a walk.
struct Rows {
  int64_t begin, size;
  at::Tensor operator()(const at::Tensor& x) const {
    return x.narrow(0, begin, size);
  }
};

}  // namespace

// What the pieces of one call share. Tensors [n, 1] have one number per row.
struct LossHead::Walk {
  at::Tensor h, weight, weight_t;
  at::Tensor index;         // int64 [n, 1]: the target, or 0 without one
  at::Tensor real, scales;  // fp32 [n, 1]: 1 or 0; s of the formulas
  at::Tensor scaled;        // s ∘ h, for dW = (s ∘ D)ᵀ h = Dᵀ (s ∘ h)
  int64_t step = 0;         // rows of a piece
  // Filled in piece by piece: fp32 [n, 1], [n, hidden_size].
  at::Tensor losses, grad;

  template <typename Visit>
  void ForEachPiece(const Visit& visit) const {
    const int64_t rows = h.size(0);
    for (int64_t at = 0; at < rows; at += step) {
      visit(Rows{at, std::min(step, rows - at)});
    }
  }
};

LossHead::LossHead(const model::Linear& head, const Options& options,
                   LoraPack& pack)
    : head_(head),
      options_(options),
      adapters_({{&head}}, /*norm_weight=*/{}, options, pack),
      gradient_(head.weight.defined() && head.weight.requires_grad()
                    ? head.weight.grad()
                    : at::Tensor()) {}

LossHead::Result LossHead::Loss(const at::Tensor& h, const at::Tensor& targets,
                                double scale, const Weigh& weigh) {
  Walk walk = Begin(h, targets, scale);
  base::Check(!weigh || (!adapters_.adapted() && !gradient_.defined()),
              "rows are weighed after the walk: nothing of it needs weights");
  if (adapters_.adapted()) {
    LossWithAdapters(walk);
  } else {
    LossOfHead(walk, weigh);
  }
  return {.sum = walk.losses.mul_(walk.real).sum(), .grad = walk.grad};
}

LossHead::Walk LossHead::Begin(const at::Tensor& h, const at::Tensor& targets,
                               double scale) const {
  base::CheckEqual(h.size(0), targets.size(0), "rows and their targets");
  const at::Tensor target = targets.unsqueeze(1);
  Walk walk;
  walk.h = h;
  walk.real = (target != base::kIgnoreIndex).to(at::kFloat);
  walk.scales = walk.real * scale;
  walk.index = target.clamp_min(0);
  walk.weight = head_.Dense(h.scalar_type());
  walk.weight_t = walk.weight.t();
  walk.losses = at::empty({h.size(0), 1}, h.options().dtype(at::kFloat));
  walk.grad = at::empty_like(h);
  walk.step = spec::LabelsPerPiece(walk.weight.size(0), gradient_.defined(),
                                   options_.traits.cached_pieces);
  if (gradient_.defined()) {
    walk.scaled = h.to(at::kFloat) * walk.scales;
    if (options_.traits.wide_products) {
      walk.scaled = walk.scaled.to(h.scalar_type());
    }
  }
  return walk;
}

void LossHead::LossOfHead(Walk& walk, const Weigh& weigh) {
  const at::ScalarType dtype = walk.h.scalar_type();
  const backend::Traits& traits = options_.traits;
  const bool wide = !gradient_.defined() || traits.wide_products;
  const bool narrow = dtype != at::kFloat && wide && traits.mixes_dtypes &&
                      traits.softmax_in_place && head_.softcap == 0;
  walk.ForEachPiece([&](const Rows& rows) {
    at::Tensor logits = Logits(walk, rows(walk.h));
    const at::Tensor index = rows(walk.index);
    const LossAndDerivative piece =
        narrow
            ? NarrowCrossEntropy(std::move(logits), index, dtype)
            : CrossEntropy(std::move(logits), index, head_.softcap, options_);
    rows(walk.losses).copy_(piece.losses);
    const at::Tensor d = piece.derivative.to(dtype);
    TimesWeight(d, walk, rows(walk.grad));
    if (!gradient_.defined()) return;
    // A device without wide products has the same rate in fp32, and D already;
    // a product in bf16 would take memory of the size of W.
    const at::Tensor left = traits.wide_products ? d : piece.derivative;
    if (rows.begin == 0 && options_.fresh()) {
      products::SetProduct(gradient_, left, rows(walk.scaled), traits);
    } else {
      products::AddProduct(gradient_, left, rows(walk.scaled), traits);
    }
  });
  // s multiplies dh, not D: dh = (s ∘ D) W = s ∘ (D W), and dh has fewer
  // columns than D.
  if (weigh) walk.scales = weigh(walk.losses) * walk.real;
  walk.grad.mul_(walk.scales.to(walk.h.scalar_type()));
}

void LossHead::LossWithAdapters(Walk& walk) {
  LoraTape tape;
  adapters_.AdapterLowRank(walk.h, tape);
  std::vector<at::Tensor> d_low_rank;
  walk.ForEachPiece([&](const Rows& rows) {
    const at::Tensor low_rank = rows(tape.low_rank);
    at::Tensor logits = Logits(walk, rows(walk.h));
    logits.add_(adapters_.AdapterOutput(low_rank).to(at::kFloat));
    const LossAndDerivative piece = CrossEntropy(
        std::move(logits), rows(walk.index), head_.softcap, options_);
    rows(walk.losses).copy_(piece.losses);
    // The adapters' gradients are sums over rows, so here s must multiply D
    // itself.
    const at::Tensor d =
        (piece.derivative * rows(walk.scales)).to(walk.h.scalar_type());
    TimesWeight(d, walk, rows(walk.grad));
    d_low_rank.push_back(adapters_.AdapterBackward(d, low_rank));
  });
  adapters_.AdapterInputBackward(
      at::cat(d_low_rank), {.tensor = [&] { return walk.h; }}, tape, walk.grad);
}

at::Tensor LossHead::Logits(const Walk& walk, const at::Tensor& h) {
  const bool half = h.scalar_type() != at::kFloat;
  at::Tensor logits;
  if (!half && options_.traits.splits_products) {
    logits = LogitsInBuffer(h, walk.weight_t);
  } else if (half && options_.traits.wide_products) {
    logits = at::mm(h, walk.weight_t, at::kFloat);
  } else {
    logits = at::mm(h, walk.weight_t).to(at::kFloat);
  }
  return head_.bias.defined() ? logits.add_(head_.bias) : logits;
}

at::Tensor LossHead::LogitsInBuffer(const at::Tensor& h,
                                    const at::Tensor& weight_t) {
  const int64_t rows = h.size(0), vocab_size = weight_t.size(1);
  if (!buffer_.defined() || buffer_.size(0) < rows) {
    buffer_ = at::empty({rows, vocab_size}, h.options());
  }
  const at::Tensor logits = buffer_.narrow(0, 0, rows);
  for (int64_t at = 0; at < vocab_size; at += kOutputsAtOnce) {
    const int64_t size = std::min(kOutputsAtOnce, vocab_size - at);
    at::Tensor piece = logits.narrow(1, at, size);
    at::mm_out(piece, h, weight_t.narrow(1, at, size));
  }
  return logits;
}

void LossHead::TimesWeight(const at::Tensor& d, const Walk& walk,
                           at::Tensor grad) const {
  if (const auto most = options_.traits.max_sum) {
    grad.copy_(products::TimesInPieces(d, walk.weight, *most));
  } else {
    at::mm_out(grad, d, walk.weight);
  }
}

}  // namespace mpsd::explicit_step
