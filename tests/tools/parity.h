// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/explicit_step/explicit_step.h"
#include "core/lora/lora.h"
#include "core/model/classifier.h"
#include "core/model/decoder.h"
#include "core/model/losses.h"
#include "core/optim/parameters.h"
#include "core/spec/classification.h"
#include "core/spec/train_spec.h"

// What mpsd computes for tensors that the oracle saw too; the names are those
// of tests/golden/README.md.
namespace mpsd::parity {

using Tensors = std::map<std::string, at::Tensor>;

absl::StatusOr<Tensors> ReadTensors(const std::filesystem::path& path);

// What a job says of the labels.
struct Head {
  int64_t num_labels = 2;
  spec::ProblemType problem = spec::ProblemType::kSingleLabel;
  std::vector<float> class_weights;  // empty: none
};

// {"num_labels": 3, "problem_type": "…", "class_weights": […]}
absl::StatusOr<Head> ParseHead(const std::string& json);

// What to train, and how.
struct Subject {
  std::filesystem::path model;
  std::filesystem::path adapter;  // a PEFT folder; empty: the whole model
  std::optional<Head> head;       // a classifier; else a language model
  at::Device device = at::kCPU;
  at::ScalarType dtype = at::kFloat;
  attention::AttentionKernel attention = attention::AttentionKernel::kFused;
  // The step with a backward of its own, by these traits; else autograd.
  std::optional<device::Traits> fast;
  spec::Recompute recompute = spec::Recompute::kNone;
};

// Of the CPU's generator.
void Seed(uint64_t seed);

// A model in training.
struct Tuned {
  std::unique_ptr<model::Network> model;    // outlives the trainable
  model::Decoder* decoder = nullptr;        // of a language model
  model::Classifier* classifier = nullptr;  // else
  std::unique_ptr<optim::Trainable> trainable;
  lora::Adapter* adapter = nullptr;  // the trainable; null: the whole model
  std::unique_ptr<explicit_step::ExplicitStep> fast;  // null: autograd
  spec::LoraSpec lora;
  Head head;
  at::Device device = at::kCPU;
};

absl::StatusOr<Tuned> Load(const Subject& subject);

// The tokens of `labels` [rows, length] that predict a label of their own row,
// and of their own segment where `segments` is defined.
model::LabelSelection SelectLabels(const at::Tensor& labels,
                                   const at::Tensor& segments);

// logits, loss (a mean, as Transformers') and grad.NAME of `inputs`: input_ids
// and labels; of a packed row also position_ids and sequence_ids, of texts to
// classify attention_mask and maybe token_type_ids; of images pixels and
// labels. With `seed` dropout is on
// and its masks are drawn after seeding the CPU's generator.
Tensors ForwardBackward(Tuned& tuned, const Tensors& inputs,
                        std::optional<uint64_t> seed = std::nullopt);

// Trains on train.input_ids, train.labels, train.lengths and maybe
// train.token_type_ids, or train.pixels and train.labels, in their order, over
// and over, to spec.max_steps, without the model's own dropout. Returns
// train.losses, train.grad_norms, train.learning_rates and final.NAME.
absl::StatusOr<Tensors> Train(Tuned& tuned, const Tensors& inputs,
                              const spec::TrainingSpec& spec);

// The "training" object of a job.json.
absl::StatusOr<spec::TrainingSpec> ParseTraining(const std::string& json);

// ‖a − b‖ / ‖b‖ in fp64; infinite when shapes differ.
double RelativeError(const at::Tensor& a, const at::Tensor& b);

}  // namespace mpsd::parity
