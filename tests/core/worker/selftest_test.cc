// SPDX-License-Identifier: Apache-2.0
#include "core/worker/selftest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "core/selftest/verdict.h"
#include "core/worker/run_job.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::worker {
namespace {

using testing::HasSubstr;

struct Ended {
  int code;
  std::string out, err;
};

Ended Selftest(const SelftestOptions& options) {
  std::ostringstream out, err;
  const int code = RunSelftest(options, out, err);
  return {code, out.str(), err.str()};
}

TEST(WorkerSelftestTest, ThePassedVerdictIsKeptAndRepeated) {
  const auto folder = testing_support::FreshFolder("worker_selftest");
  SelftestOptions options;
  options.device = "cpu";
  options.verdict = folder / "verdict.json";
  const Ended first = Selftest(options);
  EXPECT_EQ(first.code, 0) << first.out << first.err;
  EXPECT_THAT(first.out, HasSubstr("RMS norm, gradients"));
  EXPECT_THAT(first.out, HasSubstr("self-test of cpu: passed"));
  const Ended second = Selftest(options);
  EXPECT_EQ(second.code, 0);
  EXPECT_THAT(second.out, HasSubstr("kept in "));
  EXPECT_THAT(second.out, testing::Not(HasSubstr("RMS norm")));
}

// For want of memory, say; it would hold every job for good.
TEST(WorkerSelftestTest, AFailedVerdictIsNotRepeatedButTestedAnew) {
  const auto folder = testing_support::FreshFolder("worker_selftest_failed");
  SelftestOptions options;
  options.device = "cpu";
  options.verdict = folder / "verdict.json";
  const auto device = *device::OpenCpu();
  selftest::Report report;
  report.results = {{"bmm", "2 × 3", 1, 0.1, ""}};
  const selftest::Identity identity =
      selftest::IdentityOf(*device, TorchVersion(), WorkerVersion(), {});
  ASSERT_TRUE(selftest::WriteVerdict(options.verdict, identity, report).ok());
  const Ended anew = Selftest(options);
  EXPECT_EQ(anew.code, 0) << anew.out;
  EXPECT_THAT(anew.out, HasSubstr("RMS norm"));
  EXPECT_TRUE(selftest::ReadVerdict(options.verdict)->passed);
}

// One that passed elsewhere says nothing of this machine.
TEST(WorkerSelftestTest, APassOfAnotherSystemIsNotRepeated) {
  const auto folder = testing_support::FreshFolder("worker_selftest_other");
  SelftestOptions options;
  options.device = "cpu";
  options.verdict = folder / "verdict.json";
  const auto device = *device::OpenCpu();
  selftest::Report report;
  report.results = {{"bmm", "2 × 3", 0, 0.1, ""}};
  selftest::Identity identity =
      selftest::IdentityOf(*device, TorchVersion(), WorkerVersion(), {});
  identity.os_build = "of last week";
  ASSERT_TRUE(selftest::WriteVerdict(options.verdict, identity, report).ok());
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

}  // namespace
}  // namespace mpsd::worker
