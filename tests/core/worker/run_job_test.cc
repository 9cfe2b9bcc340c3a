// SPDX-License-Identifier: Apache-2.0
#include "core/worker/run_job.h"

#include <c10/util/Exception.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "core/base/file.h"
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
  struct Throwing : RecordingObserver {
    void OnStep(const report::Progress& report) override {
      TORCH_CHECK_INDEX(!index, "index 9 is out of bounds for dimension 0");
      TORCH_CHECK(report.step < 2, "shape mismatch");
    }
    bool index = false;
  };
  const JobFolder folder("run_job_throw");
  Throwing observer;
  const Outcome outcome =
      RunJob(folder.Write(), folder.path() / "out", observer);
  EXPECT_EQ(std::get<wire::Failed>(outcome).kind, FailureKind::kInternal);
  observer.index = true;
  const Outcome beyond =
      RunJob(folder.path() / "job.json", folder.path() / "other", observer);
  EXPECT_EQ(std::get<wire::Failed>(beyond).kind, FailureKind::kRejected)
      << "the same data would end so again";
  EXPECT_THAT(std::get<wire::Failed>(beyond).message,
              testing::HasSubstr("vocab_size"));
}

// The golden model with an embedding of `rows` rows alone.
void CutTable(const std::filesystem::path& model, int64_t rows) {
  std::filesystem::copy(testing_support::Golden("smollm", "model"), model);
  const auto file =
      *tensorfile::SafetensorsFile::Open(model / "model.safetensors");
  tensorfile::NamedTensors tensors;
  for (const auto& [name, entry] : file->entries()) {
    at::Tensor tensor = *file->Load(name);
    if (name == "model.embed_tokens.weight" || name == "lm_head.weight") {
      tensor = tensor.narrow(0, 0, rows).contiguous();
    }
    tensors.emplace_back(name, tensor);
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(model / "model.safetensors", tensors).ok());
  auto config = nlohmann::json::parse(*base::ReadFile(model / "config.json"));
  config["vocab_size"] = rows;
  std::ofstream(model / "config.json") << config.dump();
}

TEST(RunJobTest, TokensBeyondTheModelsTableAreTheUsersErrorBeforeItLoads) {
  JobFolder folder("run_job_beyond");
  const auto model = folder.path() / "model";
  CutTable(model, 8);
  folder.job()["model"] = model.string();
  RecordingObserver observer;
  const Outcome outcome =
      RunJob(folder.Write(), folder.path() / "out", observer);
  const auto& failed = std::get<wire::Failed>(outcome);
  EXPECT_EQ(failed.kind, FailureKind::kRejected);
  EXPECT_THAT(failed.message,
              testing::AllOf(testing::HasSubstr("train.jsonl:1: token "),
                             testing::HasSubstr("rows for 8 tokens")));
  EXPECT_THAT(observer.stages,
              testing::Not(testing::Contains("loading model")));
}

// A pad token that was added to the tokenizer alone: rows are padded with
// another, and the numbers are those of any padding.
TEST(RunJobTest, APadTokenBeyondTheTableIsReplaced) {
  std::vector<std::vector<double>> losses;
  for (const bool beyond : {false, true}) {
    JobFolder folder("run_job_pad");
    const auto model = folder.path() / "model";
    CutTable(model, 99);  // as many as the tokenizer has
    if (beyond) {
      auto tokens = nlohmann::json::parse(
          *base::ReadFile(model / "tokenizer_config.json"));
      tokens["pad_token"] = "[a new pad]";
      std::ofstream(model / "tokenizer_config.json") << tokens;
    }
    folder.job()["model"] = model.string();
    RecordingObserver observer;
    const Outcome outcome =
        RunJob(folder.Write(), folder.path() / "out", observer);
    ASSERT_TRUE(std::holds_alternative<train::RunResult>(outcome))
        << std::get<wire::Failed>(outcome).message;
    losses.emplace_back();
    bool padded = false;
    for (const auto& step : observer.steps) {
      losses.back().push_back(step.loss);
      padded = padded || step.padded_tokens > step.tokens;
    }
    EXPECT_TRUE(padded);
  }
  EXPECT_EQ(losses[0], losses[1]);
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

TEST(FailureOfTest, KeepsTheErrnoThatItCameOf) {
  const wire::Failed full = FailureOf(base::ErrnoStatus(ENOSPC, "/out/x"));
  EXPECT_EQ(full.error, ENOSPC);
  EXPECT_EQ(full.kind, FailureKind::kInternal);
  EXPECT_FALSE(FailureOf(absl::InvalidArgumentError("row 3")).error);
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
