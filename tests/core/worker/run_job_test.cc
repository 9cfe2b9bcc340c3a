// SPDX-License-Identifier: Apache-2.0
#include "core/worker/run_job.h"

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
    EXPECT_THAT(failed.message, testing::HasSubstr("gradient_checkpointing"));
  }
  EXPECT_EQ(FailureOf(std::string("shape mismatch")).kind,
            FailureKind::kInternal);
}

}  // namespace
}  // namespace mpsd::worker
