// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "core/selftest/selftest.h"
#include "core/worker/process.h"
#include "core/worker/run_job.h"
#include "core/worker/verbs.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"

// That the program starts anew is seen in tests/e2e/share_test.py.

namespace mpsd::worker {
namespace {

TEST(Gates, PrintTwoLinesOfJson) {
  setenv("HF_TOKEN", "hf_abc", 1);
  setenv("LC_ALL", "\x1b]0;x\xff", 1);
  std::ostringstream out, err;
  EXPECT_EQ(RunGates(out, err), 0) << err.str();
  unsetenv("HF_TOKEN");
  unsetenv("LC_ALL");
  std::istringstream lines(out.str());
  std::string first, second, third;
  std::getline(lines, first);
  std::getline(lines, second);
  EXPECT_FALSE(std::getline(lines, third));
  const json facts = json::parse(first), matmul = json::parse(second)["matmul"];
  EXPECT_EQ(facts["worker_version"], WorkerVersion());
  EXPECT_EQ(facts["built_against"], TorchVersion());
  EXPECT_NE(facts["torch_version"], "");
  EXPECT_EQ(facts["backends"].size(), 2u);
  EXPECT_EQ(facts["environment"]["HF_TOKEN"], "set");
  EXPECT_EQ(facts["environment"]["LC_ALL"], "\\x1b]0;x\\xff");
  EXPECT_EQ(matmul["right"], true);
  EXPECT_EQ(matmul["asked_device"], matmul["result_device"]);
}

TEST(Gates, AWrongProductIsSeen) {
  const at::Tensor right = at::matmul(LeftOperand(), RightOperand());
  EXPECT_TRUE(IsRightProduct(right));
  // In one element, by the smallest amount.
  at::Tensor spoilt = right.clone();
  spoilt[32][16] += 1;
  EXPECT_FALSE(IsRightProduct(spoilt));
  EXPECT_FALSE(IsRightProduct(at::zeros_like(right)));
  EXPECT_FALSE(IsRightProduct(right.t()));
  EXPECT_FALSE(IsRightProduct(right.to(at::kDouble)));
  spoilt = right.clone();
  spoilt[0][0] = std::nan("");
  EXPECT_FALSE(IsRightProduct(spoilt));
  // The operands as a wrong stride would read them.
  EXPECT_FALSE(IsRightProduct(
      at::matmul(LeftOperand().t().reshape({33, 65}), RightOperand())));
}

TEST(Gates, TheVersionInTorchsWords) {
  EXPECT_EQ(TorchVersionIn("PERF=1, TORCH_VERSION=2.15.0, USE_CUDA=1"),
            "2.15.0");
  EXPECT_EQ(TorchVersionIn("TORCH_VERSION=2.14.1"), "2.14.1");
  EXPECT_EQ(TorchVersionIn("nothing"), "");
}

using testing::HasSubstr;

struct Ended {
  int code;
  std::string out, err;
};

// What the self-test keeps its verdict by, in a folder of its own.
SelftestOptions OnCpu(const std::string& name) {
  SelftestOptions options;
  options.device = "cpu";
  options.verdict = FreshFolder(name) / "verdict.json";
  return options;
}

void Keep(const SelftestOptions& options, double error,
          const std::string& os_build = "") {
  const auto device = *device::OpenCpu();
  selftest::Report report;
  report.results = {{"bmm", "2 × 3", error, 0.1, ""}};
  selftest::Identity identity =
      selftest::IdentityOf(*device, TorchVersion(), WorkerVersion(), {});
  if (!os_build.empty()) identity.os_build = os_build;
  ASSERT_TRUE(selftest::WriteVerdict(options.verdict, identity, report).ok());
}

Ended Selftest(const SelftestOptions& options) {
  std::ostringstream out, err;
  const int code = RunSelftest(options, out, err);
  return {code, out.str(), err.str()};
}

TEST(WorkerSelftestTest, ThePassedVerdictIsKeptAndRepeated) {
  const SelftestOptions options = OnCpu("worker_selftest");
  const Ended first = Selftest(options);
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_THAT(first.out, HasSubstr("RMS norm, gradients"));
  EXPECT_THAT(first.out, HasSubstr("self-test of cpu: passed"));
  const Ended second = Selftest(options);
  EXPECT_EQ(second.code, 0);
  EXPECT_THAT(second.out, HasSubstr("stored in "));
  EXPECT_THAT(second.out, testing::Not(HasSubstr("RMS norm")));
}

// For want of memory, say; it would hold every job for good.
TEST(WorkerSelftestTest, AFailedVerdictIsNotRepeatedButTestedAnew) {
  const SelftestOptions options = OnCpu("worker_selftest_failed");
  Keep(options, /*error=*/1);
  const Ended anew = Selftest(options);
  EXPECT_EQ(anew.code, 0) << anew.out;
  EXPECT_THAT(anew.out, HasSubstr("RMS norm"));
  EXPECT_TRUE(selftest::ReadVerdict(options.verdict)->passed);
}

// One that passed elsewhere says nothing of this machine.
TEST(WorkerSelftestTest, APassOfAnotherSystemIsNotRepeated) {
  const SelftestOptions options = OnCpu("worker_selftest_other");
  Keep(options, /*error=*/0, "of last week");
  EXPECT_THAT(Selftest(options).out, HasSubstr("RMS norm"));
}

TEST(WorkerSelftestTest, WhatCannotRunSaysWhy) {
  SelftestOptions options;
  options.device = "mps";
  const Ended none = Selftest(options);
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.err, HasSubstr("no MPS device"));
  options.device = "cpu";
  options.job = "/no/such/job.json";
  EXPECT_EQ(Selftest(options).code, 2);
}

TEST(WorkerSelftestTest, SizesAreThoseOfTheJob) {
  spec::TrainSpec spec;
  spec.training.per_device_train_batch_size = 3;
  spec.training.max_length = 512;
  spec::ModelConfig config;
  config.hidden_size = 64;
  config.intermediate_size = 100;
  config.num_attention_heads = 8;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.vocab_size = 77;
  config.max_position_embeddings = 256;
  selftest::Sizes sizes = SizesOf(spec, config);
  EXPECT_EQ(sizes.tokens(), 3 * 256);
  EXPECT_EQ(sizes.inner, 100);
  EXPECT_EQ(sizes.kv_heads, 2);
  EXPECT_EQ(sizes.vocabulary, 77);
  config.family = spec::Family::kVision;
  config.vision.image_size = 224;
  config.vision.patch_size = 16;
  config.num_key_value_heads = 0;
  sizes = SizesOf(spec, config);
  EXPECT_EQ(sizes.length, 197);
  EXPECT_EQ(sizes.kv_heads, 8);
}

TEST(NeededEnvironment, IsThatOfAWorkerAndHeedsTheJob) {
  const host::Environment needed = NeededEnvironment({{"A", "b"}}, "");
  EXPECT_EQ(needed.at("A"), "b");
  EXPECT_EQ(needed.at("PYTORCH_ENABLE_MPS_FALLBACK"), "0");
  EXPECT_EQ(NeededEnvironment(needed, ""), needed) << "no need to start anew";
  JobFolder folder("needed_environment");
  const auto fallback = [&] {
    return NeededEnvironment({}, folder.Write().string())
        .at("PYTORCH_ENABLE_MPS_FALLBACK");
  };
  EXPECT_EQ(fallback(), "0");
  folder.job()["allow_cpu_fallback"] = true;
  EXPECT_EQ(fallback(), "1");
}

}  // namespace
}  // namespace mpsd::worker
