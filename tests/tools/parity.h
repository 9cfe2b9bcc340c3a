// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_TOOLS_PARITY_H_
#define MPSD_TESTS_TOOLS_PARITY_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "core/lora/lora.h"
#include "core/model/decoder.h"
#include "core/model/head_loss.h"
#include "core/spec/train_spec.h"

// What mpsd computes for tensors that the oracle saw too; the names are those
// of tests/golden/README.md.
namespace mpsd::parity {

using Tensors = std::map<std::string, at::Tensor>;

absl::StatusOr<Tensors> ReadTensors(const std::filesystem::path& path);

// A model with an adapter on it, fp32.
struct Tuned {
  std::unique_ptr<model::Decoder> model;  // outlives the adapter
  std::unique_ptr<lora::Adapter> adapter;
  spec::LoraSpec lora;
  at::Device device = at::kCPU;
};

// `adapter_dir` is a PEFT folder: its config decides where the adapter hangs.
absl::StatusOr<Tuned> Load(const std::filesystem::path& model_dir,
                           const std::filesystem::path& adapter_dir,
                           at::Device device = at::kCPU);

// The tokens of `labels` [rows, length] that predict a label of their own row,
// and of their own segment where `segments` is defined.
model::LabelSelection SelectLabels(const at::Tensor& labels,
                                   const at::Tensor& segments);

// logits, loss (mean over targets) and grad.NAME of `inputs`: input_ids and
// labels, for a packed row also position_ids and sequence_ids. With `seed`
// dropout is on and its masks are drawn after seeding the CPU's generator.
Tensors ForwardBackward(Tuned& tuned, const Tensors& inputs,
                        std::optional<uint64_t> seed = std::nullopt);

// Trains on train.input_ids, train.labels and train.lengths in their order,
// over and over, to spec.max_steps. Returns train.losses, train.grad_norms,
// train.learning_rates and final.NAME.
absl::StatusOr<Tensors> Train(Tuned& tuned, const Tensors& inputs,
                              const spec::TrainingSpec& spec);

// The "training" object of a job.json.
absl::StatusOr<spec::TrainingSpec> ParseTraining(const std::string& json);

// ‖a − b‖ / ‖b‖ in fp64; infinite when shapes differ.
double RelativeError(const at::Tensor& a, const at::Tensor& b);

}  // namespace mpsd::parity

#endif  // MPSD_TESTS_TOOLS_PARITY_H_
