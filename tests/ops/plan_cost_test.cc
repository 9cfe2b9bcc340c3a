// SPDX-License-Identifier: Apache-2.0
// The plan's formulas against what steps of real sizes ask of the fake MPS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <string>

#include "core/plan/step_cost.h"
#include "core/spec/memory_estimate.h"
#include "tests/ops/large_step.h"

namespace mpsd::ops {
namespace {

constexpr char kFull[] =
    R"({"fine_tune_type": "full", "lora": null,
        "quantization_config": null})";
constexpr char kClasses[] = R"({"task": "SEQ_CLS",
                               "training": {"bf16": false}})";

class PlanCosts : public testing::TestWithParam<LargeJob> {};

TEST_P(PlanCosts, AreThoseOfTheStep) {
  const LargeJob& job = GetParam();
  const StepCounts counts = CountStep(job);
  const auto& traits = backend::TraitsOf(counts.spec.device);
  const bool images = counts.model.family == spec::Family::kVision;
  const plan::StepCost cost =
      plan::StepCosts(counts.spec, counts.model, traits)
          .Train({job.rows, images ? 1 : job.length}, 1);
  const spec::MemoryEstimate e =
      spec::EstimateMemory(counts.spec, counts.model, traits);
  constexpr double kMiB = 1 << 20;
  std::cout << job.name << ": operations " << counts.operations / 1e9
            << "e9, formula " << cost.operations() / counts.operations
            << " of it; bytes " << counts.bytes / 1e9 << "e9, formula "
            << cost.bytes() / counts.bytes << "; kernels " << counts.kernels
            << ", formula " << cost.calls / counts.kernels << "; peak "
            << counts.peak / kMiB << " MiB, estimate "
            << e.total_bytes / static_cast<double>(counts.peak)
            << " of it (base " << e.base_weights_bytes / kMiB << ", trainable "
            << e.trainable_bytes / kMiB << ", activations "
            << e.activations_bytes / kMiB << ", logits "
            << e.logits_bytes / kMiB << ", backward " << e.backward_bytes / kMiB
            << ", inputs " << e.inputs_bytes / kMiB << ")\n";
  EXPECT_NEAR(cost.operations() / counts.operations, 1, 0.03);
  // Passes over memory are counted by hand: of the right order.
  EXPECT_GT(cost.bytes() / counts.bytes, 0.4);
  EXPECT_LT(cost.bytes() / counts.bytes, 1.5);
  // One exception: the fp32 copies of adapters' inputs are counted for the last
  // layer too, of which four layers have much.
  const double most = job.name == "vit_lora_bf16" ? 0.15 : 0.10;
  EXPECT_NEAR(
      static_cast<double>(e.total_bytes) / static_cast<double>(counts.peak), 1,
      most);
}

INSTANTIATE_TEST_SUITE_P(
    Language, PlanCosts,
    testing::Values(
        LargeJob{"qwen_lora", ConfigOf("qwen_half_b"), "{}", 8, 512},
        LargeJob{"qwen_qv", ConfigOf("qwen_half_b"),
                 R"({"lora": {"target_modules": ["q_proj", "v_proj"],
                              "r": 8}})",
                 8, 512},
        LargeJob{"qwen_fp32", ConfigOf("qwen_half_b"),
                 R"({"training": {"bf16": false}})"},
        LargeJob{"qwen_checkpointing", ConfigOf("qwen_half_b"),
                 R"({"training": {"gradient_checkpointing": true}})", 8, 512},
        LargeJob{"qwen_selective", ConfigOf("qwen_half_b"),
                 R"({"training": {"gradient_checkpointing": true,
                     "recompute_granularity": "selective"}})",
                 8, 512},
        LargeJob{"qwen_dropout", ConfigOf("qwen_half_b"),
                 R"({"lora": {"lora_dropout": 0.05}})", 8, 512},
        LargeJob{"qwen_packed", ConfigOf("qwen_half_b"),
                 R"({"training": {"packing": true}})", 4, 1024},
        LargeJob{"smollm_nf4", ConfigOf("smollm"),
                 R"({"quantization_config": {"load_in_4bit": true,
                     "bnb_4bit_quant_type": "nf4",
                     "bnb_4bit_use_double_quant": true}})",
                 8, 512},
        LargeJob{"smollm_int8", ConfigOf("smollm"),
                 R"({"quantization_config": {"load_in_8bit": true}})", 8, 512},
        LargeJob{"qwen_full", ConfigOf("qwen_half_b"), kFull, 2, 512},
        LargeJob{"qwen_full_fp32", ConfigOf("qwen_half_b"),
                 R"({"fine_tune_type": "full", "lora": null,
                     "training": {"bf16": false}})",
                 2, 512},
        LargeJob{"qwen_full_checkpointing", ConfigOf("qwen_half_b"),
                 R"({"fine_tune_type": "full", "lora": null,
                     "training": {"gradient_checkpointing": true}})",
                 8, 512},
        LargeJob{"qwen_autograd", ConfigOf("qwen_half_b"),
                 R"({"gradients": "autograd"})", 4, 512},
        LargeJob{"qwen_head_saved", ConfigOf("qwen_half_b"),
                 R"({"lora": {"target_modules": ["q_proj"],
                              "modules_to_save": ["lm_head"]}})",
                 2, 512},
        LargeJob{"qwen_one_layer", ConfigOf("qwen_half_b"),
                 R"({"lora": {"target_modules": ["q_proj", "v_proj"],
                              "layers_to_transform": [6]}})",
                 8, 512},
        LargeJob{"qwen3_lora", ConfigOf("qwen3_06b"), "{}", 4, 512},
        LargeJob{"smollm_lora", ConfigOf("smollm"), "{}", 8, 512},
        LargeJob{"smollm_single", ConfigOf("smollm"), "{}", 1, 512},
        LargeJob{"smollm_long", ConfigOf("smollm"), "{}", 1, 8192},
        LargeJob{"smollm_full", ConfigOf("smollm"), kFull, 8, 512},
        LargeJob{"llama_7b", ConfigOf("llama2_7b"), "{}", 4, 1024},
        LargeJob{"mistral_7b", ConfigOf("mistral_7b"), "{}", 2, 2048}),
    [](const auto& info) { return info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Classes, PlanCosts,
    testing::Values(
        LargeJob{"bert_lora", ConfigOf("bert"), kClasses, 8, 128},
        LargeJob{"bert_full", ConfigOf("bert"),
                 R"({"task": "SEQ_CLS", "fine_tune_type": "full",
                     "lora": null, "training": {"bf16": false}})",
                 8, 128},
        LargeJob{"bert_full_bf16", ConfigOf("bert"),
                 R"({"task": "SEQ_CLS", "fine_tune_type": "full",
                     "lora": null})",
                 8, 128},
        LargeJob{"bert_head", ConfigOf("bert"),
                 R"({"task": "SEQ_CLS", "fine_tune_type": "head",
                     "lora": null})",
                 8, 128},
        LargeJob{"bert_checkpointing", ConfigOf("bert"),
                 R"({"task": "SEQ_CLS",
                     "training": {"gradient_checkpointing": true}})",
                 8, 128},
        LargeJob{"bert_plain_full", ConfigOf("bert"),
                 R"({"task": "SEQ_CLS", "fine_tune_type": "full",
                     "lora": null, "training": {"bf16": false}})",
                 8, 128},
        LargeJob{"roberta_lora", ConfigOf("roberta"), kClasses, 8, 128},
        LargeJob{"distilbert_full", ConfigOf("distilbert"),
                 R"({"task": "SEQ_CLS", "fine_tune_type": "full",
                     "lora": null, "training": {"bf16": false}})",
                 8, 128},
        LargeJob{"qwen_classes", ConfigOf("qwen_half_b"), kClasses, 4, 256},
        LargeJob{"vit_full", ConfigOf("vit"),
                 R"({"task": "IMAGE_CLS", "fine_tune_type": "full",
                     "lora": null, "training": {"bf16": false}})",
                 4, 1},
        LargeJob{"vit_lora_bf16", ConfigOf("vit"), R"({"task": "IMAGE_CLS"})",
                 4, 1},
        LargeJob{"vit_checkpointing", ConfigOf("vit"),
                 R"({"task": "IMAGE_CLS", "fine_tune_type": "full",
                     "lora": null,
                     "training": {"gradient_checkpointing": true}})",
                 4, 1}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mpsd::ops
