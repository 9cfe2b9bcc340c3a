// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "core/explicit_step/linear_group.h"
#include "core/model/layers.h"

namespace mpsd::explicit_step {

// A head with its adapters, if any, and the loss of its predictions. Loss and
// gradients of n tokens are computed in one walk over pieces of rows
// (spec::LabelsPerPiece); the logits of all tokens never exist at once.
// Shapes: h [n, hidden_size], W [vocab, hidden_size], b [vocab], l and D [n,
// vocab], targets [n]; t, A and B̃ are those of the head's own LinearGroup.
// Forward:
//   l   = h Wᵀ + b + t B̃,  t = h Aᵀ           in fp32
//   sum = Σ −log softmax(l)[target]            over rows with a real target
// Backward, where sᵢ = scale for rows with a real target (or what Weigh says),
// else 0:
//   D  = s ∘ (softmax(l) − onehot(target))
//   dh = D W + dt A,  dt = D B̃ᵀ
//   dB̃ += tᵀ D,  dA += dtᵀ h
//   dW += Dᵀ h, in fp32, if W requires a gradient: then its .grad exists
class LossHead {
 public:
  // Called with the losses −log softmax(l)[target], fp32 [n, 1]: returns s,
  // fp32 [n, 1], for losses that weigh rows by what the forward finds.
  using Weigh = std::function<at::Tensor(const at::Tensor& losses)>;

  // `head`, which must already carry its adapter, must outlive this object.
  LossHead(const model::Linear& head, const Options& options, LoraPack& pack);

  struct Result {
    at::Tensor sum;   // Σ −log softmax(l)[target], fp32 scalar
    at::Tensor grad;  // scale · d(sum)/dh, [n, hidden_size]
  };
  // `targets` int64 [n]; base::kIgnoreIndex marks rows without a target. Adds
  // to the gradients of W and of the adapters. `weigh`, which replaces `scale`,
  // is for a frozen head without adapters.
  Result Loss(const at::Tensor& h, const at::Tensor& targets, double scale,
              const Weigh& weigh = nullptr);

  // The CPU's logits, kept from call to call: otherwise the system would map a
  // block of this size each time. Undefined before the first call.
  const at::Tensor& buffer() const { return buffer_; }

 private:
  struct Walk;
  Walk Begin(const at::Tensor& h, const at::Tensor& targets,
             double scale) const;
  // The two walks over the pieces: without and with adapters.
  void LossOfHead(Walk& walk, const Weigh& weigh);
  void LossWithAdapters(Walk& walk);
  // h Wᵀ + b of one piece's h, in fp32, [n, vocab]; in `buffer_` on the CPU.
  at::Tensor Logits(const Walk& walk, const at::Tensor& h);
  at::Tensor LogitsInBuffer(const at::Tensor& h, const at::Tensor& weight_t);
  // Writes D W into `grad`.
  void TimesWeight(const at::Tensor& d, const Walk& walk,
                   at::Tensor grad) const;

  const model::Linear& head_;
  const Options options_;
  const LinearGroup adapters_;
  const at::Tensor gradient_;  // of W; undefined: frozen
  at::Tensor buffer_;
};

}  // namespace mpsd::explicit_step
