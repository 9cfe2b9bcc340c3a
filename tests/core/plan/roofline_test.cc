// SPDX-License-Identifier: Apache-2.0
#include "core/plan/roofline.h"

#include <cmath>
#include <iostream>

#include "core/backend/traits.h"
#include "core/plan/chips.h"
#include "gtest/gtest.h"
#include "tests/core/plan/jobs.h"

namespace mpsd::plan {
namespace {

const backend::Traits& Fused() {
  return backend::TraitsOf(backend::Choice::kCpu);
}
const backend::Traits& Blocked() {
  return backend::TraitsOf(backend::Choice::kMps);
}

// Of the table below.
constexpr double kWorstOnH200 = 0.25;

Rates RatesOfTest() {
  return {.fp32_operations = 100,
          .half_operations = 200,
          .bytes = 10,
          .call_seconds = 0.01,
          .source = ""};
}

TEST(Roofline, ProductsTakeTheLongerOfOperationsAndBytes) {
  StepCost cost{.products = 1000, .product_bytes = 10};
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), false, Fused()), 10);
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), true, Fused()), 5);
  cost.product_bytes = 500;
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), true, Fused()), 50);
}

TEST(Roofline, OtherBytesCome) {
  StepCost cost;
  cost.products = 1000;
  cost.other_bytes = 20;
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), false, Fused()), 12);
}

TEST(Roofline, FusedAttentionAttainsLess) {
  StepCost cost;
  cost.attention = 1000;
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), false, Blocked()), 10);
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), false, Fused()), 25);
}

TEST(Roofline, TheHostsCallsBoundSmallSteps) {
  StepCost cost;
  cost.products = 100;
  cost.calls = 1000;
  EXPECT_DOUBLE_EQ(RooflineSeconds(cost, RatesOfTest(), false, Fused()), 10);
}

spec::ModelConfig Llama(int64_t vocab, int64_t width, int64_t inner,
                        int64_t layers, int64_t heads, int64_t kv_heads) {
  spec::ModelConfig model = HalfBillion();
  model.model_type = "llama";
  model.vocab_size = vocab;
  model.hidden_size = width;
  model.intermediate_size = inner;
  model.num_hidden_layers = layers;
  model.num_attention_heads = heads;
  model.num_key_value_heads = kv_heads;
  model.head_dim = width / heads;
  model.qkv_bias = false;
  return model;
}

// A row of tests/bench/README.md: LoRA r = 8 in bf16 on an H200.
struct MeasuredStep {
  const char* name;
  spec::ModelConfig model;
  BatchShape shape;
  int64_t accumulation;
  bool all_linear, checkpointing, by_mps_kernels;
  double tokens_per_second;
};

// The error is printed, and bounded where the step is the device's own.
TEST(Roofline, TheH200sStepsAreThoseMeasured) {
  const spec::ModelConfig seven = Llama(32000, 4096, 11008, 32, 32, 32);
  const spec::ModelConfig smollm = Llama(49152, 576, 1536, 30, 9, 3);
  const MeasuredStep steps[] = {
      {"7B 1024x4x2", seven, {4, 1024}, 2, false, false, false, 20180},
      {"7B, all linears", seven, {4, 1024}, 2, true, false, false, 18540},
      {"7B, recomputed", seven, {4, 1024}, 2, false, true, false, 14922},
      {"7B, MPS' kernels", seven, {4, 1024}, 2, false, false, true, 14674},
      {"0.5B 512x8x1", HalfBillion(), {8, 512}, 1, false, false, false, 139056},
      {"135M 512x8x1", smollm, {8, 512}, 1, false, false, false, 238309},
      {"135M 512x1x8", smollm, {1, 512}, 8, false, false, false, 37447},
  };
  const Rates rates = RatesOf(*FindChip("NVIDIA H200", 0));
  double worst = 0;
  for (const MeasuredStep& step : steps) {
    spec::TrainSpec spec = LoraJob();
    if (step.all_linear) spec.lora.target_modules = spec::LoraSpec::AllLinear{};
    spec.training.gradient_checkpointing = step.checkpointing;
    spec.device = backend::Choice::kCuda;
    const backend::Traits& traits = backend::TraitsOf(
        step.by_mps_kernels ? backend::Choice::kMps : backend::Choice::kCuda);
    const StepCosts costs(spec, step.model, traits);
    const double seconds =
        RooflineSeconds(costs.Train(step.shape, 1), rates, true, traits) *
            static_cast<double>(step.accumulation) +
        RooflineSeconds(costs.Optimizer(), rates, true, traits);
    const double tokens = static_cast<double>(
        step.shape.rows * step.shape.length * step.accumulation);
    const double measured = tokens / step.tokens_per_second;
    const double error = seconds / measured - 1;
    std::cout << step.name << ": " << 1e3 * seconds << " ms, measured "
              << 1e3 * measured << ", " << 100 * error << " %\n";
    worst = std::max(worst, std::abs(error));
  }
  EXPECT_LT(worst, kWorstOnH200);
}

}  // namespace
}  // namespace mpsd::plan
