// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/host/traits.h"
#include "core/plan/epoch.h"
#include "core/spec/job_layers.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::plan {

// The work that a device must do.
struct StepCost {
  double products = 0;  // floating-point operations of matrix products
  // The same of attention: scores, values and their gradients.
  double attention = 0;
  double product_bytes = 0;  // read and written by products
  double other_bytes = 0;    // read and written by everything else
  double calls = 0;          // of the host

  double operations() const { return products + attention; }
  double bytes() const { return product_bytes + other_bytes; }
  StepCost& operator+=(const StepCost& other);
  StepCost operator*(double count) const;
};

// The operations and bytes of a job's steps, by formula. T are the tokens of a
// micro-batch (rows · length, padding included), n the tokens of a row, N its
// labels, P the weights of a linear (in · out), b the bytes of a number in the
// frozen base and its activations.
//
//  linear      forward 2·T·P; the gradient of its input 2·T·P, wherever
//              something below it is trained; the gradient of its weight
//              2·T·P, if the weight is trained
//  adapter     forward 2·T·r·(in + out), backward twice that, less 2·T·r·in
//              if the input's gradient is not needed. The explicit step
//              multiplies all adapters of one input at once: q and k, whose B
//              is then block-diagonal, count r_q + r_k for each output of both
//  recompute   the layer's forward again: in the explicit step all linears but
//              the last one (selective: only gate and up), under autograd all
//              of them and their adapters
//  attention   S scores a head: n(n + q)/2 for blocks or tiles of q queries
//              under causality, n² without. Forward 4·d·S, backward 10·d·S (its
//              scores are recomputed; 8·d·S if dropout keeps them). After an
//              encoder's last attention only the first token continues
//  rotation    by products: 4·T·(heads + kv heads)·d² forward and back, and
//              half of that again with recompute
//  head        of a language model 4·N·V·H, 6·N·V·H if it is trained too
//  evaluation  only the forward
//  optimizer   no products; 44 bytes a trained parameter: value, gradient and
//              both moments of AdamW, the norm and the clipping
//
// Bytes of products are their operands and results once each; other bytes are
// passes over activations. tests/ops/memory_test.cc compares both with what
// steps ask of the fake MPS: operations to 3 %, bytes roughly.
class StepCosts {
 public:
  // `model` includes what the data determine (num_labels).
  StepCosts(const spec::TrainSpec& spec, const spec::ModelConfig& model,
            const backend::Traits& traits);

  // One micro-batch, forward and backward. `label_share`: labels per token,
  // including padding. Images have `shape`.length 1.
  StepCost Train(const BatchShape& shape, double label_share) const;
  // One micro-batch of an evaluation.
  StepCost Evaluate(const BatchShape& shape, double label_share) const;
  // Once per step.
  StepCost Optimizer() const;

 private:
  double ModelTokens(const BatchShape& shape) const;
  double ModelLength(const BatchShape& shape) const;
  StepCost Product(double m, double k, double n) const;
  StepCost GroupForward(const std::vector<spec::JobLinear>& group,
                        double tokens, bool adapters) const;
  StepCost GroupBackward(const std::vector<spec::JobLinear>& group,
                         double tokens, bool wants_input) const;
  StepCost Adapters(const std::vector<spec::JobLinear>& group, double tokens,
                    double in_passes, double out_passes) const;
  double Scores(const BatchShape& shape, bool first_only) const;
  StepCost AttentionForward(const BatchShape& shape, bool first_only) const;
  StepCost AttentionBackward(const BatchShape& shape, bool first_only) const;
  StepCost Rotation(double tokens) const;
  // `first_only`: after the attention only each row's first token continues.
  StepCost LayerForward(const spec::JobLayer& layer, const BatchShape& shape,
                        bool first_only) const;
  StepCost LayerAgain(const spec::JobLayer& layer, const BatchShape& shape,
                      bool first_only) const;
  StepCost LayerBackward(const spec::JobLayer& layer, const BatchShape& shape,
                         bool first_only) const;
  bool FirstOnly(size_t layer) const;
  double Composed() const;
  StepCost Head(double labels, double rows, bool training) const;
  StepCost Embed(double tokens) const;

  const spec::ModelConfig model_;
  const backend::Traits& traits_;
  const double number_;  // bytes
  const bool explicit_step_, language_;
  const spec::Recompute recompute_;
  const double dropout_;  // of LoRA
  const double trained_parameters_;
  const bool full_;
  const spec::JobLayers job_;
};

}  // namespace mpsd::plan
