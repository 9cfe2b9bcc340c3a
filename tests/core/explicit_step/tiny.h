// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_TESTS_CORE_EXPLICIT_STEP_TINY_H_
#define MPSD_TESTS_CORE_EXPLICIT_STEP_TINY_H_

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <memory>
#include <string>
#include <vector>

#include "core/host/traits.h"
#include "core/explicit_step/options.h"
#include "core/lora/lora.h"
#include "core/model/decoder.h"
#include "core/spec/model_config.h"
#include "gtest/gtest.h"
#include "tests/core/relative_error.h"

namespace mpsd::explicit_step {

// By whose traits the CPU computes.
using backend::Choice;

using testing_support::RelativeError;

inline Options OptionsOf(Choice choice) {
  return {{backend::TraitsOf(choice)}};
}

// A small random decoder with an adapter whose B is not zero.
struct Tiny {
  explicit Tiny(const std::string& more = "", spec::LoraSpec lora = AllLinear(),
                const std::string& type = "llama") {
    at::manual_seed(7);
    auto config = *spec::ParseModelConfig(R"({"model_type": ")" + type +
                                              R"(", "vocab_size": 61,
            "hidden_size": 16, "intermediate_size": 24,
            "num_hidden_layers": 3, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8,
            "max_position_embeddings": 128, "initializer_range": 0.2,
            "rms_norm_eps": 1e-5, "tie_word_embeddings": false)" +
                                              more + "}",
                                          "tiny");
    decoder = model::Decoder::Load(model::WeightSource{}, config).value();
    adapter = lora::Adapter::Attach(*decoder, lora, at::kCPU).value();
    const at::NoGradGuard no_grad;
    for (const optim::Parameter& p : adapter->parameters().parameters()) {
      at::Tensor value = p.value;
      value.normal_(0, 0.1);
    }
  }

  static spec::LoraSpec AllLinear() {
    spec::LoraSpec lora;
    lora.r = 3;
    lora.lora_alpha = 6;
    lora.target_modules = spec::LoraSpec::AllLinear{};
    return lora;
  }

  std::vector<at::Tensor> trained() const {
    std::vector<at::Tensor> values;
    for (const auto& p : adapter->parameters().parameters()) {
      values.push_back(p.value);
    }
    return values;
  }

  // Copies of the gradients, which are then zero.
  std::vector<at::Tensor> TakeGradients() const {
    std::vector<at::Tensor> grads;
    for (const auto& p : adapter->parameters().parameters()) {
      grads.push_back(p.value.grad().clone());
    }
    adapter->parameters().ZeroGradients();
    return grads;
  }

  const model::DecoderLayer& layer() const { return decoder->layers()[0]; }

  std::unique_ptr<model::Decoder> decoder;
  std::unique_ptr<lora::Adapter> adapter;
};

// The same tokens at every call, whenever the compiler evaluates it.
inline model::DecoderInputs Inputs(int64_t rows, int64_t length) {
  model::DecoderInputs inputs;
  inputs.input_ids = at::randint(
      61, {rows, length}, at::detail::createCPUGenerator(rows), at::kLong);
  inputs.position_ids = at::arange(length).expand({rows, length}).contiguous();
  return inputs;
}

// Two segments and padding in each row.
inline model::DecoderInputs PackedInputs(int64_t rows, int64_t length) {
  model::DecoderInputs inputs = Inputs(rows, length);
  inputs.segment_ids = at::full({rows, length}, -1, at::kLong);
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t first = length / 3 + row, second = length / 2;
    inputs.segment_ids[row].narrow(0, 0, first).fill_(0);
    inputs.segment_ids[row].narrow(0, first, second).fill_(1);
    inputs.position_ids[row].narrow(0, first, second).copy_(at::arange(second));
  }
  inputs.segment_lengths = attention::SegmentLengths(inputs.segment_ids);
  return inputs;
}

}  // namespace mpsd::explicit_step

#endif  // MPSD_TESTS_CORE_EXPLICIT_STEP_TINY_H_
