// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/rpc/downloads.h"
#include "tests/server/rpc/served.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using Files = std::map<std::string, std::string>;

class FileReaderTest : public testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& bytes) {
    const fs::path path = scratch_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  const std::filesystem::path scratch_ = testing_support::FreshFolder("rpc");
};

TEST_F(FileReaderTest, ReadsWhatIsThere) {
  std::string bytes(3'000'000, 'a');
  bytes[2'999'999] = 'b';
  auto reader = FileReader::Open(Write("f", bytes));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->size_bytes(), 3'000'000);
  EXPECT_FALSE(*(*reader)->HashNext(1'500'000));
  EXPECT_TRUE(*(*reader)->HashNext(1'500'000));
  EXPECT_TRUE(*(*reader)->HashNext(1));
  EXPECT_EQ((*reader)->sha256(), base::Sha256Hex(bytes));
  std::string read;
  while ((*reader)->left_bytes() > 0) {
    auto piece = (*reader)->Read(1'000'000);
    ASSERT_TRUE(piece.ok()) << piece.status();
    EXPECT_EQ(piece->size(), 1'000'000u);
    read += *piece;
  }
  EXPECT_EQ(read, bytes);
}

TEST_F(FileReaderTest, AnEmptyFileIsEmptyAndOneThatShrinksAborted) {
  auto empty = FileReader::Open(Write("f", ""));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ((*empty)->left_bytes(), 0);
  EXPECT_TRUE(*(*empty)->HashNext(1));
  EXPECT_EQ((*empty)->sha256(), base::Sha256Hex(""));
  const fs::path path = Write("f", "0123456789");
  auto reader = FileReader::Open(path);
  ASSERT_TRUE(reader.ok()) << reader.status();
  fs::resize_file(path, 4);
  EXPECT_TRUE(absl::IsAborted((*reader)->Read(10).status()));
  EXPECT_TRUE(absl::IsAborted((*reader)->HashNext(10).status()));
}

TEST_F(FileReaderTest, OnlyRegularFilesAreOpened) {
  fs::create_symlink(Write("f", "x"), scratch_ / "link");
  for (const char* name : {"absent", "", "link"}) {
    EXPECT_TRUE(absl::IsAborted(FileReader::Open(scratch_ / name).status()))
        << name;
  }
}

TEST_F(FileReaderTest, FilesBelowAreSortedAndWithoutLinks) {
  Write("d/b", "1");
  Write("d/a/z", "2");
  Write("d/a/y/x", "3");
  Write("outside/secret", "4");
  fs::create_directories(scratch_ / "d" / "empty");
  fs::create_symlink(scratch_ / "outside", scratch_ / "d/link");
  fs::create_symlink(scratch_ / "outside/secret", scratch_ / "d/file_link");
  auto files = FilesBelow(scratch_ / "d");
  ASSERT_TRUE(files.ok()) << files.status();
  EXPECT_THAT(*files, testing::ElementsAre("a/y/x", "a/z", "b"));
  EXPECT_EQ(FilesBelow(scratch_ / "absent").status().code(),
            absl::StatusCode::kAborted);
}

TEST_F(FileReaderTest, IsInsideResolvesLinksAndDots) {
  const fs::path top = scratch_;
  fs::create_directories(top / "in/deep");
  fs::create_directories(top / "in-not");
  EXPECT_TRUE(IsInside(top / "in", top / "in"));
  EXPECT_TRUE(IsInside(top / "in/deep", top / "in"));
  EXPECT_FALSE(IsInside(top / "in-not", top / "in"));
  EXPECT_FALSE(IsInside(top / "in/../in-not", top / "in"));
  EXPECT_FALSE(IsInside(top, top / "in"));
  EXPECT_FALSE(IsInside("/etc", top / "in"));
  fs::create_symlink("/etc", top / "in/link");
  EXPECT_FALSE(IsInside(top / "in/link", top / "in"));
}

class DownloadSourceTest : public FileReaderTest {
 protected:
  DownloadSourceTest() {
    PutEnded(folder_ / "adapter");
    manager_.AddCheckpoint(
        "a", {{5, (folder_ / "checkpoints/step-5").string(), 1, 1}, {}});
  }
  void Write(const std::string& name, const std::string& bytes) {
    FileReaderTest::Write("a/" + name, bytes);
  }
  // A request for a part of the job: "adapter: true".
  static v1::DownloadRequest Of(const std::string& what,
                                const std::string& id = "a") {
    v1::DownloadRequest request;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(what, &request));
    request.set_job_id(id);
    return request;
  }
  // Path → bytes, hashes and sizes checked.
  Files Fetch(const v1::DownloadRequest& request) {
    auto source = MakeDownloadSource(manager_, request);
    Files files;
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
  void ExpectError(const v1::DownloadRequest& request, absl::StatusCode code,
                   const std::string& words = "") {
    const absl::Status status = Error(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
  }
  // Job "a" has ended with its output there.
  void PutEnded(const fs::path& output) {
    jobs::Job job = FakeManager::MakeJob("a", jobs::State::kSucceeded);
    job.output_path = output.string();
    manager_.Put(job);
  }

  FakeManager manager_{scratch_};
  const fs::path folder_ = scratch_ / "a";
};

TEST_F(DownloadSourceTest, ANestedFolderComesWhole) {
  const std::string big(2'500'000, 'w');
  Write("adapter/adapter_config.json", "{}");
  Write("adapter/adapter_model.safetensors", big);
  Write("adapter/tokenizer/tokenizer.json", "[]");
  Write("adapter/empty", "");
  Write("job.json", "not part of it");
  const Files expected = {{"adapter_config.json", "{}"},
                          {"adapter_model.safetensors", big},
                          {"empty", ""},
                          {"tokenizer/tokenizer.json", "[]"}};
  EXPECT_EQ(Fetch(Of("adapter: true")), expected);
  EXPECT_EQ(Fetch(Of("output: true")), expected) << "whatever it holds";
}

TEST_F(DownloadSourceTest, ACheckpointIsFoundByItsStep) {
  Write("checkpoints/step-5/state.json", "5");
  EXPECT_EQ(Fetch(Of("checkpoint_step: 5")), (Files{{"state.json", "5"}}));
}

TEST_F(DownloadSourceTest, PredictionsLieBesideTheOutput) {
  PutEnded(folder_ / "out/model");
  Write("out/model/predictions.tsv", "of somebody else");
  Write("out/run.json", "{}");
  ExpectError(Of("predictions: true"), absl::StatusCode::kNotFound,
              "dataset.predict");
  Write("out/predictions.jsonl", "1");
  Write("out/predictions.tsv", "2");
  Write("out/confusion_matrix.json", "3");
  EXPECT_EQ(Fetch(Of("predictions: true")),
            (Files{{"confusion_matrix.json", "3"},
                   {"predictions.jsonl", "1"},
                   {"predictions.tsv", "2"}}));
}

TEST_F(DownloadSourceTest, ManifestAndCurvesComeBeforeTheEnd) {
  constexpr auto kState = absl::StatusCode::kFailedPrecondition;
  manager_.Put("a", jobs::State::kRunning);
  ExpectError(Of("predictions: true"), kState);
  ExpectError(Of("adapter: true"), kState, "RUNNING");
  ExpectError(Of("manifest: true"), kState, "first step");
  ExpectError(Of("curves: true"), kState, "no curves yet");
  Write("out/run.json", "{}");
  Write("out/checkpoints/step-5/run.json", "not part of it");
  EXPECT_EQ(Fetch(Of("manifest: true")), (Files{{"run.json", "{}"}}));
  const Files expected = {{"eval.jsonl", "1"},
                          {"metrics.jsonl", "2"},
                          {"run.json", "{}"},
                          {"runs/events.out.tfevents.1.mpsd", "3"}};
  for (const auto& [name, bytes] : expected) Write("out/" + name, bytes);
  Write("out/adapter/runs/f", "not part of it");
  Write("out/runs.txt", "not part of it");
  Write("out/predictions.jsonl", "not part of it");
  fs::create_symlink("/etc/passwd", folder_ / "out/runs/passwd");
  EXPECT_EQ(Fetch(Of("curves: true")), expected);
  EXPECT_EQ(Fetch(Of("manifest: true")), (Files{{"run.json", "{}"}}));
  Write("secret", "of somebody else");
  fs::remove(folder_ / "out/run.json");
  fs::create_symlink(folder_ / "secret", folder_ / "out/run.json");
  ExpectError(Of("manifest: true"), absl::StatusCode::kNotFound);
}

TEST_F(DownloadSourceTest, WhatIsNotThereIsNotFoundAndTheRequestSaysWhat) {
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  ExpectError(Of("adapter: true", "x"), absl::StatusCode::kNotFound);
  ExpectError(Of("checkpoint_step: 7"), absl::StatusCode::kNotFound,
              "there are: 5");
  ExpectError(Of("adapter: true", ""), kInvalid);
  ExpectError(Of(""), kInvalid);
  ExpectError(Of("adapter: false"), kInvalid);
}

TEST_F(DownloadSourceTest, OnlyTheJobsOwnFolderIsRead) {
  fs::create_directories(folder_);
  fs::create_symlink("/etc", folder_ / "adapter");
  for (const char* path : {"/etc", "..", "../b/adapter", "adapter"}) {
    PutEnded(folder_ / path);
    ExpectError(Of("adapter: true"), absl::StatusCode::kInternal);
  }
}

TEST_F(DownloadSourceTest, ALinkInsideIsNotFollowed) {
  Write("adapter/f", "1");
  fs::create_symlink("/etc/passwd", folder_ / "adapter/passwd");
  fs::create_symlink("/etc", folder_ / "adapter/etc");
  EXPECT_EQ(Fetch(Of("adapter: true")), (Files{{"f", "1"}}));
}

TEST_F(DownloadSourceTest, AFolderRemovedMeanwhileIsAborted) {
  ExpectError(Of("checkpoint_step: 5"), absl::StatusCode::kAborted);
  Write("checkpoints/step-5/a", "1");
  Write("checkpoints/step-5/b", "2");
  const v1::DownloadRequest request = Of("checkpoint_step: 5");
  auto source = MakeDownloadSource(manager_, request);
  v1::DownloadResponse message;
  ASSERT_EQ(*source->Next(message), Pull::kMessage);  // a's header
  fs::remove_all(folder_ / "checkpoints");
  ASSERT_EQ(*source->Next(message), Pull::kMessage);  // a's bytes, still open
  EXPECT_EQ(source->Next(message).status().code(), absl::StatusCode::kAborted);
}

TEST_F(DownloadSourceTest, ALargeFileIsHashedInSlices) {
  const std::string bytes(20'000'000, 'w');
  Write("adapter/model", bytes);
  const v1::DownloadRequest request = Of("adapter: true");
  auto source = MakeDownloadSource(manager_, request);
  v1::DownloadResponse message;
  int slices = 1;
  while (*source->Next(message) == Pull::kMore) ++slices;
  EXPECT_EQ(slices, 3);
  EXPECT_EQ(message.file().sha256(), base::Sha256Hex(bytes));
}

using DownloadTest = Served;

// More of them than there are threads, of files that take minutes to hash.
TEST_F(DownloadTest, LargeDownloadsHoldUpNobody) {
  for (const char* id : {"large", "small"}) {
    const fs::path folder = fs::path(manager_.JobFolder(id)) / "model";
    fs::create_directories(folder);
    std::ofstream(folder / "weights") << "w";
    jobs::Job job = FakeManager::MakeJob(id, jobs::State::kSucceeded);
    job.output_path = folder.string();
    manager_.Put(job);
  }
  fs::resize_file(fs::path(manager_.JobFolder("large")) / "model/weights",
                  int64_t{1} << 36);  // a hole
  constexpr int kLarge = 6;
  grpc::ClientContext contexts[kLarge];
  std::unique_ptr<grpc::ClientReader<v1::DownloadResponse>> readers[kLarge];
  v1::DownloadRequest request;
  request.set_output(true);
  request.set_job_id("large");
  for (int i = 0; i < kLarge; ++i) {
    readers[i] = artifacts_->Download(&contexts[i], request);
  }
  request.set_job_id("small");
  v1::DownloadResponse message;
  for (int i = 0; i < 3; ++i) {
    grpc::ClientContext context;
    auto reader = artifacts_->Download(&context, request);
    ASSERT_TRUE(reader->Read(&message));
    EXPECT_EQ(message.file().sha256(), base::Sha256Hex("w"));
    while (reader->Read(&message)) {
    }
    EXPECT_TRUE(reader->Finish().ok());
  }
  for (int i = 0; i < kLarge; ++i) {
    contexts[i].TryCancel();
    EXPECT_FALSE(readers[i]->Read(&message));
    EXPECT_EQ(readers[i]->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  server_->Shutdown(absl::Hours(1));  // nobody hashes on
}

}  // namespace
}  // namespace mpsd::rpc
