// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>

#include "core/base/sha256.h"
#include "server/rpc/downloads.h"
#include "tests/core/scratch_folder.h"
#include "tests/server/rpc/api.h"

namespace mpsd::rpc {
namespace {

namespace fs = std::filesystem;
using Files = std::map<std::string, std::string>;

class FileReaderTest : public testing::Test {
 protected:
  fs::path Write(const std::string& name, const std::string& bytes) {
    const fs::path path = scratch_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  const fs::path scratch_ = testing_support::FreshFolder("files");
};

TEST_F(FileReaderTest, AFileThatShrinksIsAborted) {
  const fs::path path = Write("f", "0123456789");
  const auto reader = Ok(FileReader::Open(path));
  fs::resize_file(path, 4);
  EXPECT_THAT(reader->Read(10), Fails(StatusCode::kAborted));
  EXPECT_THAT(reader->HashNext(10), Fails(StatusCode::kAborted));
}

TEST_F(FileReaderTest, OnlyRegularFilesAreOpened) {
  fs::create_symlink(Write("f", "x"), scratch_ / "link");
  for (const char* name : {"absent", "", "link"}) {
    EXPECT_THAT(FileReader::Open(scratch_ / name), Fails(StatusCode::kAborted))
        << name;
  }
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

class DownloadTest : public testing::Test {
 protected:
  DownloadTest() {
    job_.output_path = (folder_ / "adapter").string();
    daemon_.Put(job_,
                {{job_.id, 2, job_.create_time,
                  jobs::Checkpoint{
                      {5, (folder_ / "checkpoints/step-5").string(), 1, 1, {}},
                      job_.create_time}}});
  }
  void Write(const std::string& name, const std::string& bytes) {
    InProcessDaemon::Write(folder_ / name, bytes);
  }
  // A request for a part of the job: "adapter: true".
  v1::DownloadRequest Of(const std::string& what) const {
    auto request = Parsed<v1::DownloadRequest>(what);
    request.set_job_id(job_.id);
    return request;
  }
  // Path → bytes, hashes and sizes checked.
  Files Fetch(const v1::DownloadRequest& request) {
    const auto streamed = daemon_.admin().Read(&Artifacts::Download, request);
    EXPECT_THAT(streamed, IsOk());
    Files files;
    std::map<std::string, v1::DownloadResponse::File> headers;
    std::string current;
    for (const v1::DownloadResponse& message : streamed.messages) {
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
  void ExpectError(const v1::DownloadRequest& request, StatusCode code,
                   const std::string& words = "") {
    EXPECT_THAT(daemon_.admin().Read(&Artifacts::Download, request),
                Fails(code, words));
  }
  void PutOutput(const fs::path& output) {
    job_.output_path = output.string();
    EXPECT_THAT(daemon_.job_store->Update(job_, {}), IsOk());
  }

  jobs::Job job_ = InProcessDaemon::MakeJob(1, State::kSucceeded);
  InProcessDaemon daemon_;
  const fs::path folder_ = daemon_.files->Folder(job_.id);
};

TEST_F(DownloadTest, ANestedFolderComesWhole) {
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
  EXPECT_EQ(Fetch(Of("output: true")), expected) << "with any content";
}

TEST_F(DownloadTest, PredictionsLieNextToTheOutput) {
  PutOutput(folder_ / "out/model");
  Write("out/model/predictions.tsv", "of somebody else");
  Write("out/run.json", "{}");
  ExpectError(Of("predictions: true"), StatusCode::kNotFound,
              "dataset.predict");
  Write("out/predictions.jsonl", "1");
  Write("out/predictions.tsv", "2");
  Write("out/confusion_matrix.json", "3");
  EXPECT_EQ(Fetch(Of("predictions: true")),
            (Files{{"confusion_matrix.json", "3"},
                   {"predictions.jsonl", "1"},
                   {"predictions.tsv", "2"}}));
}

TEST_F(DownloadTest, ManifestAndCurvesComeBeforeTheEnd) {
  constexpr auto kState = StatusCode::kFailedPrecondition;
  daemon_.Execute("UPDATE jobs SET state = 1, output_path = ''");
  daemon_.Execute("UPDATE jobs SET state = 2");
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
  ExpectError(Of("manifest: true"), StatusCode::kNotFound);
}

TEST_F(DownloadTest, WhatIsNotThereIsNotFoundAndTheRequestSaysWhat) {
  v1::DownloadRequest another = Of("adapter: true");
  another.set_job_id("x");
  ExpectError(another, StatusCode::kNotFound);
  another.set_job_id("");
  ExpectError(another, StatusCode::kInvalidArgument);
  ExpectError(Of("checkpoint_step: 7"), StatusCode::kNotFound, "there are: 5");
  ExpectError(Of(""), StatusCode::kInvalidArgument);
  ExpectError(Of("adapter: false"), StatusCode::kInvalidArgument);
}

TEST_F(DownloadTest, OnlyTheJobsOwnFolderIsRead) {
  fs::create_directories(folder_);
  fs::create_symlink("/etc", folder_ / "adapter");
  for (const char* path : {"/etc", "..", "../b/adapter", "adapter"}) {
    PutOutput(folder_ / path);
    ExpectError(Of("adapter: true"), StatusCode::kInternal);
  }
}

TEST_F(DownloadTest, ALinkInsideIsNotFollowed) {
  Write("adapter/f", "1");
  fs::create_symlink("/etc/passwd", folder_ / "adapter/passwd");
  fs::create_symlink("/etc", folder_ / "adapter/etc");
  EXPECT_EQ(Fetch(Of("adapter: true")), (Files{{"f", "1"}}));
}

TEST_F(DownloadTest, EndsWithItsCredential) {
  Write("adapter/weights", std::string(64 << 20, 'w'));  // more than any window
  const access::NewToken token = daemon_.MakeToken("ada", Role::kUser);
  const Api ada(daemon_.Stranger().channel(), token.secret);
  grpc::ClientContext context;
  ada.Prepare(context);
  const auto stream = ada.artifacts()->Download(&context, Of("adapter: true"));
  v1::DownloadResponse message;
  EXPECT_TRUE(stream->Read(&message));
  EXPECT_EQ(Ok(daemon_.tokens->Revoke(access::TokenId(token.token.sha256))), 1);
  while (stream->Read(&message)) {
  }
  EXPECT_THAT(ToStatus(stream->Finish()), Fails(StatusCode::kUnauthenticated));
}

TEST_F(DownloadTest, AFolderRemovedMeanwhileIsAborted) {
  ExpectError(Of("checkpoint_step: 5"), StatusCode::kAborted);
  Write("checkpoints/step-5/a", "1");
  Write("checkpoints/step-5/b", "2");
  const v1::DownloadRequest request = Of("checkpoint_step: 5");
  auto source = MakeDownloadSource(*daemon_.board, request);
  v1::DownloadResponse message;
  ASSERT_EQ(*source->Next(message), Pull::kMessage);  // a's header
  fs::remove_all(folder_ / "checkpoints");
  ASSERT_EQ(*source->Next(message), Pull::kMessage);  // a's bytes, still open
  EXPECT_THAT(source->Next(message), Fails(StatusCode::kAborted));
}

// More of them than there are threads, of files that take minutes to hash.
TEST_F(DownloadTest, LargeDownloadsDelayNoOtherCall) {
  Write("adapter/weights", "w");
  Write("checkpoints/step-5/weights", "");
  fs::resize_file(folder_ / "checkpoints/step-5/weights",
                  int64_t{1} << 36);  // a hole
  constexpr int kLarge = 6;
  grpc::ClientContext contexts[kLarge];
  std::unique_ptr<grpc::ClientReader<v1::DownloadResponse>> readers[kLarge];
  for (int i = 0; i < kLarge; ++i) {
    readers[i] = daemon_.admin().artifacts()->Download(
        &contexts[i], Of("checkpoint_step: 5"));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(Fetch(Of("adapter: true")), (Files{{"weights", "w"}}));
  }
  v1::DownloadResponse message;
  for (int i = 0; i < kLarge; ++i) {
    contexts[i].TryCancel();
    EXPECT_FALSE(readers[i]->Read(&message));
    EXPECT_THAT(ToStatus(readers[i]->Finish()), Fails(StatusCode::kCancelled));
  }
  daemon_.server->Shutdown(absl::Hours(1));  // no thread hashes on
}

}  // namespace
}  // namespace mpsd::rpc
