// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/model/attention.h"
#include "core/model/layers.h"
#include "core/model/weight_reader.h"
#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"

namespace mpsd::model {

// Activation checkpointing (Chen et al. 2016): computes run(x) without keeping
// what the backward needs; the backward calls `run` again with gradients on.
// Gradients of parameters that `run` captures accumulate into their .grad as
// usual. Unless `draws` is false, the generators of the CPU and of x's device
// are reset for the second call, so that `run` draws the same random numbers.
at::Tensor Recompute(std::function<at::Tensor(const at::Tensor&)> run,
                     const at::Tensor& x, bool draws = true);

struct RunOptions {
  attention::AttentionKernel attention = attention::AttentionKernel::kFused;
  // Under autograd kSelective means kFull: a block is recomputed as a whole, or
  // not at all.
  spec::Recompute recompute = spec::Recompute::kNone;
};

// The network submits its work to a GPU after this many layers, forward and
// backward. On MPS a layer is some fifty calls forward and a hundred backward,
// and a commit costs about as much as two of these calls.
inline constexpr size_t kLayersPerCommit = 2;

// A weight by its full Hugging Face name.
struct NamedWeight {
  std::string name;
  at::Tensor* tensor;
  // If `tensor` is an fp32 master: where the layer takes a copy in the
  // network's dtype from. `tensor` itself, or another member of the layer,
  // which then also computes with the master. Null: only with the master.
  at::Tensor* copy;
};

// Collects the weights of layers.
class WeightList {
 public:
  void Add(std::string name, at::Tensor& tensor) {
    Add(std::move(name), tensor, &tensor);
  }
  void Add(std::string name, at::Tensor& tensor, at::Tensor* copy) {
    if (tensor.defined()) all_.push_back({std::move(name), &tensor, copy});
  }
  void Add(Linear& l) {
    Add(l.name + ".weight", l.weight);
    Add(l.name + ".bias", l.bias);
  }
  void Add(LayerNorm& n) {
    Add(n.name + ".weight", n.weight);
    Add(n.name + ".bias", n.bias);
  }
  // Autograd multiplies by the weight in the weight's dtype.
  void Add(RmsNorm& n) { Add(n.name + ".weight", n.weight, &n.copy); }
  // The gradients of a row's tokens add up in the weight's dtype.
  void Add(Embedding& e) { Add(e.name + ".weight", e.weight, nullptr); }
  std::vector<NamedWeight> Take() { return std::move(all_); }

 private:
  std::vector<NamedWeight> all_;
};

// The interface of every model for training code: linears to attach adapters
// to, weights to train in full. Weights are frozen as loaded. Not thread-safe.
class Network {
 public:
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  // Every linear, in the order of spec::Modules.
  virtual std::vector<Linear*> Linears() = 0;
  // Every weight, in the order of spec::Modules. A tied lm_head is listed
  // separately from the embedding.
  virtual std::vector<NamedWeight> NamedWeights() = 0;

  const spec::ModelConfig& config() const { return config_; }
  void set_options(const RunOptions& options) { options_ = options; }
  const RunOptions& options() const { return options_; }

  // `commit` submits queued work to the device; RunBlock calls it every few
  // blocks, also from autograd's own thread while the training thread waits.
  void set_commit(std::function<void()> commit) { commit_ = std::move(commit); }
  const std::function<void()>& commit() const { return commit_; }

  // The model's own dropout is active while training.
  void set_training(bool training) { training_ = training; }

  // The attention kernels that ran so far: in training, or in evaluations.
  const std::set<std::string>& attention_ran(bool training) const {
    return attention_ran_[training];
  }

  // The dtype of activations: the one that the weights were loaded in. A weight
  // of another dtype (a master weight without a copy) is cast at each use.
  at::ScalarType dtype() const { return dtype_; }

  // The modules whose weights were missing from the file and drawn at random
  // ("classifier", "bert.pooler.dense").
  const std::vector<std::string>& fresh_modules() const { return fresh_; }

  // How the weights of the file matched; empty if trained from scratch.
  const LoadReport& load_report() const { return report_; }

 protected:
  Network(spec::ModelConfig config, at::ScalarType dtype)
      : config_(std::move(config)), dtype_(dtype) {}

  // Returns run(x), where `run` is the block `index`. The backward recomputes
  // the block if the options say so. Counts the block as a unit of work,
  // forward and backward. `draws`: whether `run` draws random numbers.
  at::Tensor RunBlock(size_t index,
                      const std::function<at::Tensor(const at::Tensor&)>& run,
                      const at::Tensor& x, bool draws) const;

  void NoteAttention(const char* attention) const {
    attention_ran_[training_].insert(attention);
  }

  spec::ModelConfig config_;
  at::ScalarType dtype_;
  RunOptions options_;
  bool training_ = false;
  std::vector<std::string> fresh_;
  LoadReport report_;

 private:
  std::function<void()> commit_;
  mutable std::set<std::string> attention_ran_[2];
};

}  // namespace mpsd::model
