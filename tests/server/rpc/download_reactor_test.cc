// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/download_reactor.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/rpc/fake_manager.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class DownloadSourceTest : public testing::Test {
 protected:
  DownloadSourceTest() {
    jobs::Job job = FakeManager::MakeJob("a", jobs::State::kSucceeded);
    job.output_path = (folder_ / "adapter").string();
    manager_.Put(job);
    manager_.AddCheckpoint(
        "a", {{5, (folder_ / "checkpoints/step-5").string(), 1, 1}, {}});
  }
  void Write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }
  static v1::DownloadRequest Adapter(const std::string& id) {
    v1::DownloadRequest request;
    request.set_job_id(id);
    request.set_adapter(true);
    return request;
  }
  static v1::DownloadRequest Predictions() {
    v1::DownloadRequest request;
    request.set_job_id("a");
    request.set_predictions(true);
    return request;
  }
  static v1::DownloadRequest Checkpoint(const std::string& id, int64_t step) {
    v1::DownloadRequest request;
    request.set_job_id(id);
    request.set_checkpoint_step(step);
    return request;
  }
  // Path → bytes, hashes and sizes checked.
  std::map<std::string, std::string> Fetch(const v1::DownloadRequest& request) {
    auto source = MakeDownloadSource(manager_, request);
    std::map<std::string, std::string> files;
    std::map<std::string, v1::DownloadResponse::File> headers;
    std::string current;
    while (true) {
      v1::DownloadResponse message;
      absl::StatusOr<Pull> pulled = source->Next(message);
      EXPECT_TRUE(pulled.ok()) << pulled.status();
      if (!pulled.ok() || *pulled == Pull::kEnd) break;
      if (message.has_file()) {
        current = message.file().path();
        headers[current] = message.file();
        files[current] = "";
      } else {
        EXPECT_LE(message.data().size(), 1u << 20);
        files[current] += message.data();
      }
    }
    for (const auto& [path, bytes] : files) {
      EXPECT_EQ(headers[path].size_bytes(), static_cast<int64_t>(bytes.size()));
      EXPECT_EQ(headers[path].sha256(), base::Sha256Hex(bytes));
    }
    return files;
  }
  absl::Status Error(const v1::DownloadRequest& request) {
    v1::DownloadResponse message;
    return MakeDownloadSource(manager_, request)->Next(message).status();
  }

  Scratch scratch_;
  FakeManager manager_{scratch_.path()};
  const fs::path folder_ = scratch_.path() / "a";
};

TEST_F(DownloadSourceTest, ANestedFolderComesWhole) {
  const std::string big(2'500'000, 'w');
  Write("adapter/adapter_config.json", "{}");
  Write("adapter/adapter_model.safetensors", big);
  Write("adapter/tokenizer/tokenizer.json", "[]");
  Write("adapter/empty", "");
  Write("job.json", "not part of it");
  const std::map<std::string, std::string> expected = {
      {"adapter_config.json", "{}"},
      {"adapter_model.safetensors", big},
      {"empty", ""},
      {"tokenizer/tokenizer.json", "[]"}};
  EXPECT_EQ(Fetch(Adapter("a")), expected);
}

TEST_F(DownloadSourceTest, ACheckpointIsFoundByItsStep) {
  Write("checkpoints/step-5/state.json", "5");
  EXPECT_EQ(Fetch(Checkpoint("a", 5)),
            (std::map<std::string, std::string>{{"state.json", "5"}}));
}

TEST_F(DownloadSourceTest, OutputIsTheFinalFolderWhateverItHolds) {
  Write("adapter/config.json", "{}");
  v1::DownloadRequest request = Adapter("a");
  request.set_output(true);
  EXPECT_EQ(request.what_case(), v1::DownloadRequest::kOutput);
  EXPECT_EQ(Fetch(request), Fetch(Adapter("a")));
}

TEST_F(DownloadSourceTest, PredictionsLieBesideTheOutput) {
  jobs::Job job = FakeManager::MakeJob("a", jobs::State::kSucceeded);
  job.output_path = (folder_ / "out/model").string();
  manager_.Put(job);
  Write("out/model/predictions.tsv", "of somebody else");
  Write("out/run.json", "{}");
  const absl::Status none = Error(Predictions());
  EXPECT_EQ(none.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(none.message()), HasSubstr("dataset.predict"));
  Write("out/predictions.jsonl", "1");
  Write("out/predictions.tsv", "2");
  Write("out/confusion_matrix.json", "3");
  EXPECT_EQ(Fetch(Predictions()),
            (std::map<std::string, std::string>{{"confusion_matrix.json", "3"},
                                                {"predictions.jsonl", "1"},
                                                {"predictions.tsv", "2"}}));
}

TEST_F(DownloadSourceTest, PredictionsComeWithTheEnd) {
  manager_.Put("a", jobs::State::kRunning);
  EXPECT_EQ(Error(Predictions()).code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(DownloadSourceTest, AManifestComesBeforeTheEnd) {
  manager_.Put("a", jobs::State::kRunning);
  v1::DownloadRequest request;
  request.set_job_id("a");
  request.set_manifest(true);
  const absl::Status none = Error(request);
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("first step"));
  Write("out/run.json", "{}");
  Write("out/metrics.jsonl", "not part of it");
  Write("out/checkpoints/step-5/run.json", "not part of it");
  EXPECT_EQ(Fetch(request),
            (std::map<std::string, std::string>{{"run.json", "{}"}}));
}

TEST_F(DownloadSourceTest, CurvesComeBeforeTheEnd) {
  manager_.Put("a", jobs::State::kRunning);
  v1::DownloadRequest request;
  request.set_job_id("a");
  request.set_curves(true);
  const absl::Status none = Error(request);
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("no curves yet"));
  const std::map<std::string, std::string> expected = {
      {"eval.jsonl", "1"},
      {"metrics.jsonl", "2"},
      {"run.json", "{}"},
      {"runs/events.out.tfevents.1.mpsd", "3"}};
  for (const auto& [name, bytes] : expected) Write("out/" + name, bytes);
  Write("out/adapter/runs/f", "not part of it");
  Write("out/runs.txt", "not part of it");
  Write("out/predictions.jsonl", "not part of it");
  fs::create_symlink("/etc/passwd", folder_ / "out/runs/passwd");
  EXPECT_EQ(Fetch(request), expected);
}

TEST_F(DownloadSourceTest, AManifestThatIsALinkIsNotRead) {
  Write("secret", "of somebody else");
  fs::create_directories(folder_ / "out");
  fs::create_symlink(folder_ / "secret", folder_ / "out/run.json");
  v1::DownloadRequest request;
  request.set_job_id("a");
  request.set_manifest(true);
  EXPECT_EQ(Error(request).code(), absl::StatusCode::kNotFound);
}

TEST_F(DownloadSourceTest, WhatIsNotThereIsNotFound) {
  EXPECT_EQ(Error(Adapter("x")).code(), absl::StatusCode::kNotFound);
  const absl::Status status = Error(Checkpoint("a", 7));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("there are: 5"));
}

TEST_F(DownloadSourceTest, AnUnfinishedJobHasNoAdapter) {
  manager_.Put("b", jobs::State::kRunning);
  const absl::Status status = Error(Adapter("b"));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("RUNNING"));
}

TEST_F(DownloadSourceTest, TheRequestMustSayWhat) {
  v1::DownloadRequest request;
  EXPECT_EQ(Error(request).code(), absl::StatusCode::kInvalidArgument);
  request.set_job_id("a");
  EXPECT_EQ(Error(request).code(), absl::StatusCode::kInvalidArgument);
  request.set_adapter(false);
  EXPECT_EQ(Error(request).code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(DownloadSourceTest, OnlyTheJobsOwnFolderIsRead) {
  fs::create_directories(folder_);
  for (const char* path : {"/etc", "..", "../b/adapter"}) {
    jobs::Job job = FakeManager::MakeJob("a", jobs::State::kSucceeded);
    job.output_path = (folder_ / path).string();
    manager_.Put(job);
    EXPECT_EQ(Error(Adapter("a")).code(), absl::StatusCode::kInternal) << path;
  }
  fs::create_symlink("/etc", folder_ / "adapter");
  jobs::Job job = FakeManager::MakeJob("a", jobs::State::kSucceeded);
  job.output_path = (folder_ / "adapter").string();
  manager_.Put(job);
  EXPECT_EQ(Error(Adapter("a")).code(), absl::StatusCode::kInternal);
}

TEST_F(DownloadSourceTest, ALinkInsideIsNotFollowed) {
  Write("adapter/f", "1");
  fs::create_symlink("/etc/passwd", folder_ / "adapter/passwd");
  fs::create_symlink("/etc", folder_ / "adapter/etc");
  EXPECT_EQ(Fetch(Adapter("a")),
            (std::map<std::string, std::string>{{"f", "1"}}));
}

TEST_F(DownloadSourceTest, AFolderRemovedMeanwhileIsAborted) {
  EXPECT_EQ(Error(Checkpoint("a", 5)).code(), absl::StatusCode::kAborted);
  Write("checkpoints/step-5/a", "1");
  Write("checkpoints/step-5/b", "2");
  auto source = MakeDownloadSource(manager_, Checkpoint("a", 5));
  v1::DownloadResponse message;
  ASSERT_EQ(*source->Next(message), Pull::kMessage);  // a's header
  fs::remove_all(folder_ / "checkpoints");
  ASSERT_EQ(*source->Next(message), Pull::kMessage);  // a's bytes, still open
  EXPECT_EQ(source->Next(message).status().code(), absl::StatusCode::kAborted);
}

TEST_F(DownloadSourceTest, ALargeFileIsHashedInSlices) {
  const std::string bytes(20'000'000, 'w');
  Write("adapter/model", bytes);
  auto source = MakeDownloadSource(manager_, Adapter("a"));
  v1::DownloadResponse message;
  int slices = 1;
  while (*source->Next(message) == Pull::kMore) ++slices;
  EXPECT_EQ(slices, 3);
  EXPECT_EQ(message.file().sha256(), base::Sha256Hex(bytes));
}

}  // namespace
}  // namespace mpsd::rpc
