// SPDX-License-Identifier: Apache-2.0
// The most memory of a micro-batch by its length, in counted bytes: shapes
// only, by MPS' kernels and by the CPU's, of which the fake device has the
// shapes too.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "core/backend/traits.h"
#include "core/explicit_step/explicit_step.h"
#include "core/lora/lora.h"
#include "core/tensorfile/weights.h"
#include "tests/core/scratch_folder.h"
#include "tests/ops/models.h"
#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

using backend::Choice;
using explicit_step::ExplicitStep;
using nlohmann::json;

enum class Rows { kPlain, kPacked };

struct GrowthCase {
  friend void PrintTo(const GrowthCase& c, std::ostream* out) {
    *out << c.name;
  }
  std::string name;
  Choice traits;  // by whose the CPU computes
  Rows rows;
  int64_t window = 0;
  int64_t kv_heads = 1;  // of four heads
  at::ScalarType dtype = at::kFloat;
};

// Few numbers a token, so that what grows faster would be seen.
json Config(const GrowthCase& c) {
  json config = {{"model_type", "mistral"},
                 {"vocab_size", 512},
                 {"hidden_size", 32},
                 {"intermediate_size", 64},
                 {"num_hidden_layers", 2},
                 {"num_attention_heads", 4},
                 {"num_key_value_heads", c.kv_heads},
                 {"head_dim", 8},
                 {"max_position_embeddings", 65536},
                 {"rms_norm_eps", 1e-5},
                 {"tie_word_embeddings", false},
                 {"sliding_window", nullptr}};
  if (c.window > 0) config["sliding_window"] = c.window;
  return config;
}

model::DecoderInputs Inputs(const GrowthCase& c, int64_t length) {
  const auto longs = at::device(at::kMPS).dtype(at::kLong);
  model::DecoderInputs inputs;
  inputs.input_ids = at::zeros({2, length}, longs);
  if (c.rows == Rows::kPlain) return inputs;
  // Each row one segment: no key is left out.
  inputs.position_ids = at::zeros({2, length}, longs);
  inputs.segment_ids = at::zeros({2, length}, longs);
  inputs.segment_lengths = {length, length};
  return inputs;
}

class MemoryGrowth : public testing::TestWithParam<GrowthCase> {
 protected:
  MemoryGrowth() {
    InstallFakeMps();
    SetExecution(Execution::kShapesOnly);
    const GrowthCase& c = GetParam();
    const auto folder = testing_support::FreshFolder("growth_" + c.name);
    WriteHollowDecoder(folder, Config(c));
    const auto weights = *tensorfile::Weights::Open(folder);
    decoder_ = *model::Decoder::Load(
        *weights, *spec::ReadModelConfig(folder.string()), at::kMPS, c.dtype);
    adapter_ = *lora::Adapter::Attach(*decoder_, spec::LoraSpec(), at::kMPS);
    std::vector<at::Tensor> trained;
    for (const auto& p : adapter_->parameters().parameters()) {
      trained.push_back(p.value);
    }
    explicit_step::Options options;
    options.traits = backend::TraitsOf(c.traits);
    options.dtype = c.dtype;
    step_ = *ExplicitStep::Create(*decoder_, trained, options);
  }
  ~MemoryGrowth() override { SetExecution(Execution::kCompute); }

  int64_t PeakOf(int64_t length) {
    const auto longs = at::device(at::kMPS).dtype(at::kLong);
    model::LabelSelection labels;
    labels.rows = at::zeros({16}, longs);
    labels.targets = at::zeros({16}, longs);
    labels.count = 16;
    const model::DecoderInputs inputs = Inputs(GetParam(), length);
    Recorder recorder;
    step_->Begin();
    step_->Add(inputs, labels, 1);
    step_->End();
    recorder.Close("");
    return recorder.parts()[0].peak;
  }

  std::unique_ptr<model::Decoder> decoder_;
  std::unique_ptr<lora::Adapter> adapter_;
  std::unique_ptr<ExplicitStep> step_;
};

// Twice the tokens take twice the memory at most. What the last doubling added
// is about twice what the one before did, more only where that was hidden
// behind what does not grow; of squares it would be four times.
TEST_P(MemoryGrowth, IsLinear) {
  std::vector<double> peaks;
  for (const int64_t length : {4096, 8192, 16384, 32768}) {
    peaks.push_back(static_cast<double>(PeakOf(length)) / (1 << 20));
    std::cout << GetParam().name << " 2 x " << length << ": " << peaks.back()
              << " MiB\n";
  }
  for (size_t i = 1; i < peaks.size(); ++i) {
    EXPECT_LE(peaks[i], 2.02 * peaks[i - 1]) << i;
  }
  EXPECT_LE(peaks[3] - peaks[2], 3 * (peaks[2] - peaks[1]) + 1);
}

INSTANTIATE_TEST_SUITE_P(
    All, MemoryGrowth,
    testing::Values(
        GrowthCase{"mps_plain", Choice::kMps, Rows::kPlain},
        GrowthCase{"mps_plain_bf16", Choice::kMps, Rows::kPlain, 0, 1,
                   at::kBFloat16},
        GrowthCase{"mps_plain_no_group", Choice::kMps, Rows::kPlain, 0, 4},
        GrowthCase{"mps_window", Choice::kMps, Rows::kPlain, 1024},
        GrowthCase{"mps_packed", Choice::kMps, Rows::kPacked},
        GrowthCase{"mps_packed_window", Choice::kMps, Rows::kPacked, 1024},
        GrowthCase{"cpu_plain", Choice::kCpu, Rows::kPlain},
        GrowthCase{"cpu_plain_bf16", Choice::kCpu, Rows::kPlain, 0, 1,
                   at::kBFloat16},
        GrowthCase{"cpu_window", Choice::kCpu, Rows::kPlain, 1024},
        GrowthCase{"cpu_packed", Choice::kCpu, Rows::kPacked},
        GrowthCase{"cpu_packed_window", Choice::kCpu, Rows::kPacked, 1024}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mpsd::ops
