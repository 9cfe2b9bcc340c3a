// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <iosfwd>
#include <string>

#include "core/spec/model_config.h"
#include "core/spec/train_spec.h"
#include "nlohmann/json.hpp"

namespace mpsd::ops {

// A model of any size and a job over it, one micro-batch a step.
struct LargeJob {
  friend void PrintTo(const LargeJob& job, std::ostream* out);
  std::string name;
  nlohmann::json config;  // config.json
  std::string job;        // merge patch of a LoRA job's job.json
  int64_t rows = 4, length = 4096;
};

// The config.json of a decoder.
nlohmann::json Decoder(const char* type, int64_t vocab, int64_t width,
                       int64_t inner, int64_t layers, int64_t heads,
                       int64_t kv_heads, bool tied);

// Decoders of real widths with fewer layers: "llama2_7b", "qwen_half_b",
// "qwen3_06b", "smollm", "mistral_7b"; and smaller classifiers, whose numbers
// are computed: "bert", "roberta", "distilbert", "vit".
nlohmann::json ConfigOf(const std::string& model);

spec::TrainSpec SpecOf(const LargeJob& job);

// One optimizer step less its check of the canary, which reads zeros. The calls
// of `within` are around its micro-batch.
void RunStep(
    const LargeJob& job, const spec::TrainSpec& spec,
    const spec::ModelConfig& config, const std::filesystem::path& folder,
    const std::function<void(bool begins)>& within = [](bool) {});

// What one optimizer step asks of the fake MPS.
struct StepCounts {
  spec::TrainSpec spec;
  spec::ModelConfig model;
  double operations = 0;  // of all products
  double bytes = 0;       // read and written by all kernels
  int64_t kernels = 0;
  int64_t peak = 0;  // bytes of live tensors, weights included
};
StepCounts CountStep(const LargeJob& job);

}  // namespace mpsd::ops
