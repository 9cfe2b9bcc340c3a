// SPDX-License-Identifier: Apache-2.0
// parity_probe: logits, loss, gradients and training steps as mpsd computes
// them, for tests/live/parity to hold against Transformers and PEFT.
#include <ATen/ATen.h>

#include <exception>
#include <iostream>

#include "CLI/CLI.hpp"
#include "core/base/file.h"
#include "core/base/status_macros.h"
#include "core/ckpt/safetensors.h"
#include "core/device/device.h"
#include "tests/tools/parity.h"

namespace mpsd::parity {
namespace {

struct Options {
  std::string model, adapter, head, inputs, output, device = "cpu", training;
  std::string gradients = "auto";
  std::optional<uint64_t> dropout_seed, draw_seed;
};

void Declare(CLI::App& app, Options& options) {
  app.add_option("--model", options.model, "Hugging Face folder")->required();
  app.add_option("--adapter", options.adapter,
                 "PEFT folder; without one the whole model is trained");
  app.add_option("--head", options.head,
                 "JSON: {num_labels, problem_type[, class_weights]} of a "
                 "classifier; without it a language model");
  app.add_option("--inputs", options.inputs,
                 "safetensors: input_ids, labels [position_ids, sequence_ids, "
                 "attention_mask, token_type_ids], or pixels, labels; "
                 "and/or train.*")
      ->required();
  app.add_option("--output", options.output, "safetensors to write")
      ->required();
  app.add_option("--device", options.device)
      ->check(CLI::IsMember({"cpu", "cuda", "mps"}));
  app.add_option("--training", options.training,
                 "JSON of job.json's training object: train on train.*");
  app.add_option("--draw-seed", options.draw_seed,
                 "weights that no file has are drawn after this seed");
  app.add_option("--gradients", options.gradients,
                 "auto: as a job gets them; autograd; mps: by the kernels that "
                 "MPS gets")
      ->check(CLI::IsMember({"auto", "autograd", "mps"}));
  app.add_option("--dropout-seed", options.dropout_seed,
                 "forward in train mode, masks drawn after this seed");
}

absl::StatusOr<std::unique_ptr<device::Device>> OpenDevice(
    const std::string& name) {
  if (name == "mps") return device::OpenMps();
  if (name == "cuda") return device::OpenCuda();
  return device::OpenCpu();
}

// By the step with a backward of its own where it is asked for and covers the
// subject, else by autograd.
absl::StatusOr<Tuned> LoadFor(Subject subject, const device::Device& device,
                              const std::string& gradients) {
  const bool may = !subject.head && !subject.adapter.empty();
  if (may && gradients != "autograd") {
    subject.fast = gradients == "mps" ? backend::TraitsOf(backend::Choice::kMps)
                                      : device.traits();
    auto tuned = Load(subject);
    if (!absl::IsFailedPrecondition(tuned.status())) return tuned;
    subject.fast.reset();
  }
  return Load(subject);
}

absl::StatusOr<Tensors> Compute(const Options& options) {
  ASSIGN_OR_RETURN(auto inputs, ReadTensors(options.inputs));
  Subject subject;
  subject.model = options.model;
  subject.adapter = options.adapter;
  ASSIGN_OR_RETURN(auto device, OpenDevice(options.device));
  subject.device = device->torch_device();
  subject.attention = attention::KernelFor(device->traits());
  if (!options.head.empty()) {
    ASSIGN_OR_RETURN(auto head, ParseHead(options.head));
    subject.head = head;
  }
  if (options.draw_seed) Seed(*options.draw_seed);
  ASSIGN_OR_RETURN(auto tuned, LoadFor(subject, *device, options.gradients));
  Tensors out;
  if (inputs.contains("input_ids") || inputs.contains("pixels")) {
    out = ForwardBackward(tuned, inputs, options.dropout_seed);
  }
  if (options.training.empty()) return out;
  ASSIGN_OR_RETURN(auto text, base::ReadFile(options.training));
  ASSIGN_OR_RETURN(auto training, ParseTraining(text));
  ASSIGN_OR_RETURN(auto trained, Train(tuned, inputs, training));
  out.merge(trained);
  return out;
}

absl::Status Run(const Options& options) {
  ASSIGN_OR_RETURN(auto tensors, Compute(options));
  return tensorfile::WriteSafetensors(
      options.output, tensorfile::NamedTensors(tensors.begin(), tensors.end()));
}

}  // namespace
}  // namespace mpsd::parity

int main(int argc, char** argv) {
  CLI::App app("What mpsd computes for given tensors.", "parity_probe");
  mpsd::parity::Options options;
  mpsd::parity::Declare(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    const absl::Status status = mpsd::parity::Run(options);
    if (status.ok()) return 0;
    std::cerr << "parity_probe: " << status << "\n";
  } catch (const std::exception& e) {  // c10::Error
    std::cerr << "parity_probe: " << e.what() << "\n";
  }
  return 1;
}
