// SPDX-License-Identifier: Apache-2.0
// Models and batches of real sizes, two blocks of each, as shapes only: what
// tiny models cannot show is how large tensors and GEMMs become.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "core/device/device.h"
#include "core/full/full_model.h"
#include "core/lora/lora.h"
#include "core/optim/adamw.h"
#include "core/spec/memory_estimate.h"
#include "core/train/language_modelling.h"
#include "core/train/step.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/ops/models.h"
#include "tests/ops/recorder.h"
#include "tests/ops/selftest_run.h"

namespace mpsd::ops {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

json Llama(int64_t vocab, int64_t width, int64_t inner, int64_t heads,
           int64_t kv_heads) {
  return {{"model_type", "llama"},
          {"vocab_size", vocab},
          {"hidden_size", width},
          {"intermediate_size", inner},
          {"num_hidden_layers", 2},
          {"num_attention_heads", heads},
          {"num_key_value_heads", kv_heads},
          {"max_position_embeddings", 8192},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 500000.0},
          {"tie_word_embeddings", false}};
}

json Qwen2(int64_t vocab, int64_t width, int64_t inner, int64_t heads,
           int64_t kv_heads, bool tied) {
  json config = Llama(vocab, width, inner, heads, kv_heads);
  config["model_type"] = "qwen2";
  config["use_sliding_window"] = false;
  config["tie_word_embeddings"] = tied;
  return config;
}

struct LargeCase {
  friend void PrintTo(const LargeCase& c, std::ostream* out) { *out << c.name; }
  std::string name;
  json config;
  std::string job;  // merge patch
  int64_t rows = 4, length = 4096;
};

data::Batch MakeBatch(int64_t rows, int64_t length, bool packed) {
  data::Batch batch;
  batch.rows = rows;
  batch.length = length;
  batch.packed = packed;
  for (int64_t i = 0; i < rows * length; ++i) {
    const int64_t at = i % length;
    batch.input_ids.push_back(at % 1000);
    batch.labels.push_back(at == 0 ? base::kIgnoreIndex : at % 1000);
    batch.position_ids.push_back(at);
    batch.segment_ids.push_back(at / 512);
  }
  batch.loss_weight = rows * (length - 1);
  return batch;
}

class LargeModel : public testing::TestWithParam<LargeCase> {
 protected:
  LargeModel() {
    InstallFakeMps();
    SetExecution(Execution::kShapesOnly);
  }
  ~LargeModel() override { SetExecution(Execution::kCompute); }
  // Before: it needs numbers.
  static void SetUpTestSuite() { RunBySelftest(); }

  // An optimizer step less its check of the canary, which reads zeros.
  void Step(const LargeCase& c) {
    const spec::TrainSpec spec = SpecOf(c);
    const auto folder = Folder(c);
    WriteHollowDecoder(folder, c.config);
    train::LanguageModelling task(spec);
    const auto device = *device::OpenMps();
    Train(spec, folder, task, *device, c);
  }

  static spec::TrainSpec SpecOf(const LargeCase& c) {
    json job = {{"model", "m"},
                {"dataset", {{"train", "t"}}},
                {"device", "mps"},
                {"lora", {{"r", 16}, {"target_modules", "all-linear"}}},
                {"training",
                 {{"bf16", true},
                  {"per_device_train_batch_size", c.rows},
                  {"max_length", c.length}}}};
    job.merge_patch(json::parse(c.job));
    const auto spec = spec::ParseTrainSpec(job.dump(), "job.json");
    EXPECT_TRUE(spec.ok()) << spec.status();
    return *spec;
  }

  static std::filesystem::path Folder(const LargeCase& c) {
    return testing_support::FreshFolder("ops_large_" + c.name);
  }

 private:
  static void Train(const spec::TrainSpec& spec,
                    const std::filesystem::path& folder,
                    train::LanguageModelling& task, device::Device& device,
                    const LargeCase& c) {
    const auto weights = *tensorfile::Weights::Open(folder);
    model::WeightSource source{weights.get(), device.torch_device()};
    source.dtype = spec.training.bf16 ? at::kBFloat16 : at::kFloat;
    auto network = task.LoadModel(
        source, *spec::ReadModelConfig(folder.string()), nullptr);
    ASSERT_TRUE(network.ok()) << network.status();
    (*network)->set_options(
        {attention::AttentionKernel::kTiled, spec.training.recompute()});
    auto trainable = Attach(spec, **network, device);
    ASSERT_TRUE(trainable.ok()) << trainable.status();
    optim::AdamW optimizer((*trainable)->parameters(), spec.training);
    train::Stepper stepper({task, **network, **trainable, device}, optimizer,
                           1.0);
    stepper.AccumulateGradients(
        {MakeBatch(c.rows, c.length, spec.training.packing)});
    at::NoGradGuard no_grad;
    optimizer.Clip(optimizer.GradientNorm(), 1.0);
    optimizer.Step(1e-4);
  }

  static absl::StatusOr<std::unique_ptr<optim::Trainable>> Attach(
      const spec::TrainSpec& spec, model::Network& network,
      device::Device& device) {
    if (spec.fine_tune_type == spec::FineTuneType::kLora) {
      auto adapter =
          lora::Adapter::Attach(network, spec.lora, device.torch_device());
      if (!adapter.ok()) return adapter.status();
      return std::unique_ptr<optim::Trainable>(*std::move(adapter));
    }
    auto full = full::FullModel::Attach(network, {}, device.torch_device());
    if (!full.ok()) return full.status();
    return std::unique_ptr<optim::Trainable>(*std::move(full));
  }
};

TEST_P(LargeModel, EveryCallIsLegal) {
  Recorder recorder;
  Step(GetParam());
  EXPECT_THAT(recorder.missing(), IsEmpty());
  EXPECT_THAT(recorder.faults(), IsEmpty())
      << "MPSD_OPS_BACKTRACE=1 says where they are called";
  recorder.Close("step");
  EXPECT_THAT(RunBySelftest(),
              testing::IsSupersetOf(recorder.parts()[0].operators));
}

// The estimate is no less than what the step holds, to a twentieth. With two
// layers it may be a third more: the temporaries of one layer's backward are
// half of all, and it counts them beside the other half.
// tests/ops/plan_cost_test.cc has tables of jobs with more layers.
TEST_P(LargeModel, PeaksWithinItsEstimate) {
  const LargeCase& c = GetParam();
  const spec::TrainSpec spec = SpecOf(c);
  if (spec.fine_tune_type != spec::FineTuneType::kLora ||
      !spec.lora.modules_to_save.empty()) {
    GTEST_SKIP() << "autograd";
  }
  Recorder recorder;
  Step(c);
  recorder.Close("");
  const auto folder = testing_support::FreshFolder("ops_large_estimate");
  std::ofstream(folder / "config.json") << c.config.dump();
  const spec::MemoryEstimate e =
      spec::EstimateMemory(spec, *spec::ReadModelConfig(folder.string()));
  constexpr double kMiB = 1 << 20;
  const auto peak = static_cast<double>(recorder.parts()[0].peak);
  std::cout << c.name << ": peak " << peak / kMiB << " MiB, estimate "
            << e.total_bytes / kMiB << " (base " << e.base_weights_bytes / kMiB
            << ", trainable " << e.trainable_bytes / kMiB << ", activations "
            << e.activations_bytes / kMiB << ", logits "
            << e.logits_bytes / kMiB << ", backward " << e.backward_bytes / kMiB
            << ")\n";
  EXPECT_LE(0.95 * peak, static_cast<double>(e.total_bytes));
  EXPECT_GE(1.35 * peak, static_cast<double>(e.total_bytes));
}

INSTANTIATE_TEST_SUITE_P(
    Large, LargeModel,
    testing::Values(
        LargeCase{"llama2_7b", Llama(32000, 4096, 11008, 32, 32), "{}"},
        LargeCase{"llama2_7b_fp32", Llama(32000, 4096, 11008, 32, 32),
                  R"({"training": {"bf16": false}})"},
        LargeCase{"llama3_8b", Llama(128256, 4096, 14336, 32, 8),
                  R"({"training": {"gradient_checkpointing": true}})"},
        LargeCase{"llama3_8b_packed", Llama(128256, 4096, 14336, 32, 8),
                  R"({"training": {"packing": true},
                      "lora": {"lora_dropout": 0.05}})"},
        LargeCase{"qwen2_7b", Qwen2(152064, 3584, 18944, 28, 4, false), "{}"},
        LargeCase{"qwen2_7b_fp32", Qwen2(152064, 3584, 18944, 28, 4, false),
                  R"({"training": {"bf16": false}})"},
        LargeCase{"qwen2_7b_32k", Qwen2(152064, 3584, 18944, 28, 4, false),
                  "{}", 1, 32766},
        LargeCase{"qwen2_7b_32k_checkpointing",
                  Qwen2(152064, 3584, 18944, 28, 4, false),
                  R"({"training": {"gradient_checkpointing": true}})", 1,
                  32766},
        LargeCase{"qwen2_half_b_full", Qwen2(151936, 896, 4864, 14, 2, true),
                  R"({"fine_tune_type": "full", "lora": null})"},
        LargeCase{"llama3_8b_head", Llama(128256, 4096, 14336, 32, 8),
                  R"({"lora": {"modules_to_save": ["lm_head"]}})", 1},
        LargeCase{"llama3_8b_adapted_head", Llama(128256, 4096, 14336, 32, 8),
                  R"({"lora": {"target_modules": ["q_proj", "lm_head"]}})", 1}),
    [](const auto& info) { return info.param.name; });

// The rules do look at these runs: more tokens than MPS can sum over.
TEST_F(LargeModel, TooManyTokensAreFound) {
  Recorder recorder;
  LargeCase c{"too_many", Llama(1024, 64, 128, 4, 4), "{}", 8, 4096};
  Step(c);
  EXPECT_THAT(recorder.faults(), Contains(HasSubstr("a GEMM of 32768")));
}

}  // namespace
}  // namespace mpsd::ops
