// SPDX-License-Identifier: Apache-2.0
// Models and batches of real sizes, two blocks of each, as shapes only: what
// tiny models cannot show is how large tensors and GEMMs become.
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iostream>

#include "core/spec/memory_estimate.h"
#include "tests/core/scratch_folder.h"
#include "tests/ops/fake_mps.h"
#include "tests/ops/jobs.h"
#include "tests/ops/large_step.h"
#include "tests/ops/recorder.h"

namespace mpsd::ops {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

json Llama(int64_t vocab, int64_t width, int64_t inner, int64_t heads,
           int64_t kv_heads) {
  return Decoder("llama", vocab, width, inner, /*layers=*/2, heads, kv_heads,
                 /*tied=*/false);
}

json Qwen2(int64_t vocab, int64_t width, int64_t inner, int64_t heads,
           int64_t kv_heads, bool tied) {
  return Decoder("qwen2", vocab, width, inner, /*layers=*/2, heads, kv_heads,
                 tied);
}

class LargeModel : public testing::TestWithParam<LargeJob> {
 protected:
  LargeModel() {
    InstallFakeMps();
    SetExecution(Execution::kShapesOnly);
  }
  ~LargeModel() override { SetExecution(Execution::kCompute); }
  // Before: it needs numbers.
  static void SetUpTestSuite() { RunBySelftest(); }

  static void Step(const LargeJob& job) {
    const auto folder = testing_support::FreshFolder("ops_large_" + job.name);
    WriteHollowDecoder(folder, job.config);
    RunStep(job, SpecOf(job), *spec::ReadModelConfig(folder.string()), folder);
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
// half of all, and it counts them in addition to the other half.
// memory_test.cc has tables of jobs with more layers.
TEST_P(LargeModel, PeaksWithinItsEstimate) {
  const LargeJob& c = GetParam();
  const spec::TrainSpec spec = SpecOf(c);
  if (!spec.lora.modules_to_save.empty()) GTEST_SKIP() << "autograd";
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
        LargeJob{"llama2_7b", Llama(32000, 4096, 11008, 32, 32), "{}"},
        LargeJob{"llama2_7b_fp32", Llama(32000, 4096, 11008, 32, 32),
                 R"({"training": {"bf16": false}})"},
        LargeJob{"llama3_8b", Llama(128256, 4096, 14336, 32, 8),
                 R"({"training": {"gradient_checkpointing": true}})"},
        LargeJob{"llama3_8b_packed", Llama(128256, 4096, 14336, 32, 8),
                 R"({"training": {"packing": true},
                      "lora": {"lora_dropout": 0.05}})"},
        LargeJob{"qwen2_7b", Qwen2(152064, 3584, 18944, 28, 4, false), "{}"},
        LargeJob{"qwen2_7b_fp32", Qwen2(152064, 3584, 18944, 28, 4, false),
                 R"({"training": {"bf16": false}})"},
        LargeJob{"qwen2_7b_32k", Qwen2(152064, 3584, 18944, 28, 4, false), "{}",
                 1, 32766},
        LargeJob{"qwen2_7b_32k_checkpointing",
                 Qwen2(152064, 3584, 18944, 28, 4, false),
                 R"({"training": {"gradient_checkpointing": true}})", 1, 32766},
        LargeJob{"qwen2_half_b_full", Qwen2(151936, 896, 4864, 14, 2, true),
                 R"({"fine_tune_type": "full", "lora": null})"},
        LargeJob{"llama3_8b_head", Llama(128256, 4096, 14336, 32, 8),
                 R"({"lora": {"modules_to_save": ["lm_head"]}})", 1},
        LargeJob{"llama3_8b_adapted_head", Llama(128256, 4096, 14336, 32, 8),
                 R"({"lora": {"target_modules": ["q_proj", "lm_head"]}})", 1}),
    [](const auto& info) { return info.param.name; });

// The rules do look at these runs: more tokens than MPS can sum over.
TEST_F(LargeModel, TooManyTokensAreFound) {
  Recorder recorder;
  LargeJob c{"too_many", Llama(1024, 64, 128, 4, 4), "{}", 8, 4096};
  Step(c);
  EXPECT_THAT(recorder.faults(), Contains(HasSubstr("a GEMM of 32768")));
}

}  // namespace
}  // namespace mpsd::ops
