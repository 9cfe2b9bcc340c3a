// SPDX-License-Identifier: Apache-2.0
#include "core/worker/run_job.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/core/job_folder.h"

namespace mpsd::worker {
namespace {

using testing_support::JobFolder;
using testing_support::RecordingObserver;
using wire::FailureKind;

TEST(RunJobTest, PathsAreRelativeToTheJobFile) {
  const JobFolder folder("run_job");
  RecordingObserver observer;
  const Outcome outcome =
      RunJob(folder.Write(), folder.path() / "out", observer);
  ASSERT_TRUE(std::holds_alternative<train::RunResult>(outcome))
      << std::get<wire::Failed>(outcome).message;
  EXPECT_EQ(std::get<train::RunResult>(outcome).steps, 8);
}

TEST(RunJobTest, TheUsersErrorsAreRejected) {
  const JobFolder folder("run_job_bad");
  std::ofstream(folder.path() / "job.json") << "{\n \"modle\": \"x\"\n}";
  RecordingObserver observer;
  const Outcome outcome =
      RunJob(folder.path() / "job.json", folder.path() / "out", observer);
  const auto& failed = std::get<wire::Failed>(outcome);
  EXPECT_EQ(failed.kind, FailureKind::kRejected);
  EXPECT_THAT(failed.message, testing::HasSubstr("modle"));
}

TEST(RunJobTest, AnExceptionOfTorchIsAFailureAndNoAbort) {
  // A vocabulary smaller than the tokenizer's makes the embedding's
  // index_select throw inside libtorch.
  JobFolder folder("run_job_throw");
  const auto model = folder.path() / "model";
  std::filesystem::copy(testing_support::Golden("smollm", "model"), model);
  const auto file =
      *tensorfile::SafetensorsFile::Open(model / "model.safetensors");
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    at::Tensor tensor = *file->Load(name);
    if (name == "model.embed_tokens.weight") {
      tensor = tensor.narrow(0, 0, 8).contiguous();
    }
    tensors.emplace_back(name, tensor);
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(model / "model.safetensors", tensors).ok());
  auto config = nlohmann::json::parse(*base::ReadFile(model / "config.json"));
  config["vocab_size"] = 8;
  std::ofstream(model / "config.json") << config.dump();
  folder.job()["model"] = model.string();
  RecordingObserver observer;
  const Outcome outcome =
      RunJob(folder.Write(), folder.path() / "out", observer);
  EXPECT_TRUE(std::holds_alternative<wire::Failed>(outcome));
}

TEST(FailureOfTest, EveryStatusIsSomebodysFault) {
  EXPECT_EQ(FailureOf(absl::InvalidArgumentError("x")).kind,
            FailureKind::kRejected);
  EXPECT_EQ(FailureOf(absl::NotFoundError("x")).kind, FailureKind::kRejected);
  EXPECT_EQ(FailureOf(absl::UnimplementedError("x")).kind,
            FailureKind::kRejected);
  EXPECT_EQ(FailureOf(absl::DataLossError("x")).kind, FailureKind::kNonFinite);
  EXPECT_EQ(FailureOf(absl::InternalError("x")).kind, FailureKind::kInternal);
  // A full disk is the machine's, and worth another try.
  EXPECT_EQ(FailureOf(absl::ResourceExhaustedError("x")).kind,
            FailureKind::kInternal);
}

TEST(FailureOfTest, TheDevicesErrorsHaveAdvice) {
  const wire::Failed missing = FailureOf(std::string(
      "The operator 'aten::x' is not currently implemented for the MPS "
      "device."));
  EXPECT_EQ(missing.kind, FailureKind::kRejected);
  EXPECT_THAT(missing.message, testing::HasSubstr("allow_cpu_fallback"));
  const wire::Failed reset = FailureOf(
      std::string("(0000000b:kIOGPUCommandBufferCallbackErrorPageFault)"));
  EXPECT_EQ(reset.kind, FailureKind::kInternal) << "it may go on";
  EXPECT_THAT(reset.message, testing::HasSubstr("last checkpoint"));
}

// As core/train/step.cc says it: not the numbers' fault, and worth another try.
TEST(FailureOfTest, WorkThatTheDeviceDroppedIsTriedAgain) {
  EXPECT_EQ(FailureOf(absl::DataLossError(
                          "the device dropped work without an error (its "
                          "canary was not written): out of memory or a GPU "
                          "reset"))
                .kind,
            FailureKind::kInternal);
}

TEST(RunJobTest, WarningsGoToTheObserver) {
  struct Listening : RecordingObserver {
    void OnStage(const std::string&, double) override {
      for (int i = 0; i < 2; ++i) TORCH_WARN("a warning of torch");
      TORCH_WARN_ONCE(
          "The operator 'aten::made_up' is not currently supported on the MPS "
          "backend and will fall back to run on the CPU.");
    }
  };
  const JobFolder folder("run_job_warnings");
  Listening observer;
  RunJob(folder.Write(), folder.path() / "out", observer);
  EXPECT_THAT(observer.warnings(), testing::ElementsAre("a warning of torch"));
  ASSERT_FALSE(observer.steps.empty());
  EXPECT_GT(observer.steps.back().cpu_fallback_ops.at("aten::made_up"), 1);
  const auto manifest = nlohmann::json::parse(
      *base::ReadFile(folder.path() / "out" / "run.json"));
  EXPECT_GT(manifest["cpu_fallback_ops"]["aten::made_up"], 1);
  EXPECT_EQ(manifest["warnings"],
            nlohmann::json::array({"a warning of torch"}));
}

TEST(FailureOfTest, OutOfMemoryIsKnownByItsText) {
  for (const char* text :
       {"MPS backend out of memory (MPS allocated: 1 GiB, other allocations: "
        "1 GiB, max allowed: 2 GiB). Tried to allocate 1 GiB on private pool.",
        "Invalid buffer size: 12.00 GiB",
        "CUDA out of memory. Tried to allocate 2.00 GiB",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate "
        "99 bytes."}) {
    const wire::Failed failed = FailureOf(std::string(text));
    EXPECT_EQ(failed.kind, FailureKind::kOutOfMemory) << text;
    EXPECT_THAT(failed.message, testing::HasSubstr("max_length"));
  }
  EXPECT_EQ(FailureOf(std::string("shape mismatch")).kind,
            FailureKind::kInternal);
}

}  // namespace
}  // namespace mpsd::worker
