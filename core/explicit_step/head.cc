// SPDX-License-Identifier: Apache-2.0
#include "core/explicit_step/head.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/check.h"
#include "core/products/wide_linear.h"

namespace mpsd::explicit_step {
namespace {

using model::LabelSelection;

constexpr int64_t kLogitsAtOnce = int64_t{1} << 25;
constexpr int64_t kFewestRows = 256;
// BLAS' threads share a product of more outputs than this badly, on the CPU.
constexpr int64_t kOutputsAtOnce = 2048;

int64_t RowsAtOnce(int64_t vocab_size) {
  return std::max(kFewestRows, kLogitsAtOnce / vocab_size / 64 * 64);
}

at::Tensor LogitsInBuffer(const at::Tensor& x, const at::Tensor& weight_t,
                          at::Tensor& buffer) {
  const int64_t rows = x.size(0), vocab_size = weight_t.size(1);
  if (!buffer.defined() || buffer.size(0) < rows) {
    buffer = at::empty({rows, vocab_size}, x.options());
  }
  const at::Tensor logits = buffer.narrow(0, 0, rows);
  for (int64_t at = 0; at < vocab_size; at += kOutputsAtOnce) {
    const int64_t size = std::min(kOutputsAtOnce, vocab_size - at);
    at::Tensor piece = logits.narrow(1, at, size);
    at::mm_out(piece, x, weight_t.narrow(1, at, size));
  }
  return logits;
}

// h Wᵀ + b in fp32, [n, vocab]; in `buffer` on the CPU.
at::Tensor Logits(const at::Tensor& x, const at::Tensor& weight_t,
                  const at::Tensor& bias, const Options& options,
                  at::Tensor& buffer) {
  const bool half = x.scalar_type() != at::kFloat;
  at::Tensor logits;
  if (!half && options.traits.splits_products) {
    logits = LogitsInBuffer(x, weight_t, buffer);
  } else if (half && options.traits.wide_products) {
    logits = at::mm(x, weight_t, at::kFloat);
  } else {
    logits = at::mm(x, weight_t).to(at::kFloat);
  }
  return bias.defined() ? logits.add_(bias) : logits;
}

struct Piece {
  at::Tensor losses;      // fp32 [n, 1]
  at::Tensor derivative;  // softmax − onehot, fp32 [n, vocab]
};

// softmax(logits) along the last dimension. Overwrites `logits` where the
// device computes softmax in place rightly.
at::Tensor Softmax(at::Tensor logits, const Options& options) {
  if (!options.traits.softmax_in_place) {
    return at::_softmax(logits, -1, /*half_to_float=*/false);
  }
  at::_softmax_out(logits, logits, -1, /*half_to_float=*/false);
  return logits;
}

// The losses of a piece and their derivative by the logits. May overwrite
// `logits`.
Piece LossOf(at::Tensor logits, const at::Tensor& index,
             const Options& options) {
  // −log softmax(l)[target] = log Σ exp(l) − l[target]. With m = max l and the
  // softmax at hand, log Σ exp(l) = m − log(max softmax(l)). That logarithm is
  // safe: the largest probability is 1 / vocab at least, while the target's may
  // round to 0.
  const at::Tensor top = logits.amax(-1, /*keepdim=*/true);
  const at::Tensor of_target = logits.gather(1, index);
  logits = Softmax(std::move(logits), options);
  Piece piece;
  piece.losses = top - logits.amax(-1, /*keepdim=*/true).log_();
  piece.losses.sub_(of_target);
  logits.scatter_add_(1, index, at::full_like(piece.losses, -1));
  piece.derivative = logits;
  return piece;
}

}  // namespace

HeadResult HeadLoss(const at::Tensor& h, const model::Linear& head,
                    const LinearGroup& adapters, const at::Tensor& targets,
                    double scale, const Options& options, at::Tensor& buffer) {
  base::CheckEqual(h.size(0), targets.size(0), "rows and their targets");
  const at::Tensor target = targets.unsqueeze(1);
  const at::Tensor real = (target != LabelSelection::kNoTarget).to(at::kFloat);
  const at::Tensor scales = real * scale;
  const at::Tensor index = target.clamp_min(0);
  const at::Tensor weight = head.Dense(h.scalar_type());
  const at::Tensor weight_t = weight.t();
  const int64_t rows = h.size(0), step = RowsAtOnce(weight.size(0));
  const bool adapted = adapters.adapted();
  LoraTape tape;
  if (adapted) adapters.AdapterThin(h, tape);
  std::vector<at::Tensor> d_thin;
  at::Tensor losses = at::empty({rows, 1}, h.options().dtype(at::kFloat));
  HeadResult result{{}, at::empty_like(h)};
  for (int64_t at = 0; at < rows; at += step) {
    const int64_t size = std::min(step, rows - at);
    const auto piece_of = [&](const at::Tensor& x) {
      return x.narrow(0, at, size);
    };
    at::Tensor logits =
        Logits(piece_of(h), weight_t, head.bias, options, buffer);
    if (adapted) {
      logits.add_(adapters.AdapterOutput(piece_of(tape.thin)).to(at::kFloat));
    }
    const Piece piece = LossOf(std::move(logits), piece_of(index), options);
    piece_of(losses).copy_(piece.losses);
    const at::Tensor d =
        (adapted ? piece.derivative * piece_of(scales) : piece.derivative)
            .to(h.scalar_type());
    at::Tensor grad = piece_of(result.grad);
    if (const auto most = options.traits.max_sum) {
      grad.copy_(products::TimesInPieces(d, weight, *most));
    } else {
      at::mm_out(grad, d, weight);
    }
    if (adapted) {
      d_thin.push_back(adapters.AdapterBackward(d, piece_of(tape.thin)));
    }
  }
  result.sum = losses.mul_(real).sum();
  if (adapted) {
    adapters.AdapterInputBackward(at::cat(d_thin), {[&] { return h; }, {}},
                                  tape, result.grad);
  } else {
    result.grad.mul_(scales.to(h.scalar_type()));
  }
  return result;
}

}  // namespace mpsd::explicit_step
