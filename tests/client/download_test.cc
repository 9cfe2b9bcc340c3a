// SPDX-License-Identifier: Apache-2.0
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

class DownloadTest : public ClientTest {
 protected:
  DownloadTest() : output_(folder_ / "out") {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddFile("adapter_config.json", "{}");
    AddFile("nested/weights", std::string(1'500'000, 'w'));
  }

  v1::DownloadResponse::File& AddFile(const std::string& path,
                                      const std::string& bytes) {
    v1::DownloadResponse start;
    start.mutable_file()->set_path(path);
    start.mutable_file()->set_size_bytes(static_cast<int64_t>(bytes.size()));
    start.mutable_file()->set_sha256(base::Sha256Hex(bytes));
    const size_t at = data().download.size();
    data().download.push_back(start);
    for (size_t i = 0; i < bytes.size(); i += 1'000'000) {
      data().download.emplace_back().set_data(bytes.substr(i, 1'000'000));
    }
    return *data().download[at].mutable_file();
  }

  Result Download(std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"download", kId, "--output", output_.string()});
    return RunVerb(more);
  }

  // Nothing of the download is left, not even a temporary folder.
  void ExpectNothingWritten() {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      EXPECT_EQ(entry.path(), socket_);
    }
  }

  const fs::path output_;
};

TEST_F(DownloadTest, TheAdapter) {
  const Result result = Download();
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "2 files, 1.5 MB in " + output_.string() + "\n");
  EXPECT_EQ(Read(output_ / "adapter_config.json"), "{}");
  EXPECT_EQ(Read(output_ / "nested/weights"), std::string(1'500'000, 'w'));
  EXPECT_TRUE(data().downloaded[0].output());
}

TEST_F(DownloadTest, ACheckpoint) {
  EXPECT_EQ(Download({"--checkpoint", "40"}).code, 0);
  EXPECT_EQ(data().downloaded[0].checkpoint_step(), 40);
}

TEST_F(DownloadTest, Predictions) {
  data().download.clear();
  AddFile("confusion_matrix.json", "{}");
  AddFile("predictions.jsonl", "1");
  AddFile("predictions.tsv", "22");
  EXPECT_EQ(Download({"--predictions"}).code, 0);
  EXPECT_TRUE(data().downloaded[0].predictions());
  EXPECT_EQ(Read(output_ / "predictions.jsonl"), "1");
  EXPECT_EQ(Read(output_ / "confusion_matrix.json"), "{}");
}

TEST_F(DownloadTest, OneFileOfThePredictions) {
  data().download.clear();
  AddFile("predictions.jsonl", "1");
  AddFile("predictions.tsv", "22");
  const fs::path file = folder_ / "test.tsv";
  const Result result =
      RunVerb({"download", kId, "--predictions", "-o", file.string()});
  EXPECT_EQ(result.out, "1 file, 2 B in " + file.string() + "\n");
  EXPECT_EQ(Read(file), "22");
  fs::remove(file);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, AFileThatIsNotAmongThePredictions) {
  data().download.clear();
  AddFile("confusion_matrix.json", "{}");
  const Result result = RunVerb(
      {"download", kId, "--predictions", "-o", (folder_ / "p.jsonl").string()});
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.err.find("has no predictions.jsonl"), std::string::npos)
      << result.err;
  ExpectNothingWritten();
}

TEST_F(DownloadTest, ACheckpointPredictsNothing) {
  EXPECT_EQ(Download({"--predictions", "--checkpoint", "4"}).code, 2);
}

TEST_F(DownloadTest, Json) {
  data().download.clear();
  AddFile("a", "x");
  const auto json = nlohmann::json::parse(Download({"--json"}).out);
  EXPECT_EQ(json["job_id"], kId);
  EXPECT_EQ(json["output"], output_.string());
  EXPECT_EQ(json["files"][0]["path"], "a");
  EXPECT_EQ(json["files"][0]["sha256"], base::Sha256Hex("x"));
}

TEST_F(DownloadTest, NothingIsOverwritten) {
  Write("out/mine", "keep");
  const Result result = Download();
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.err, "mpsctl: " + output_.string() +
                            " exists\n"
                            "Name another --output, or replace it with "
                            "--force.\n");
  EXPECT_EQ(Read(output_ / "mine"), "keep");
}

TEST_F(DownloadTest, UnlessForced) {
  Write("out/mine", "gone");
  EXPECT_EQ(Download({"--force"}).code, 0);
  EXPECT_FALSE(fs::exists(output_ / "mine"));
  EXPECT_EQ(Read(output_ / "adapter_config.json"), "{}");
}

TEST_F(DownloadTest, AnEmptyFolderMayBeFilled) {
  fs::create_directory(output_);
  EXPECT_EQ(Download().code, 0);
}

TEST_F(DownloadTest, NoAdapterYet) {
  data().download.clear();
  data().fail["Download"] = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                                         "the job has no adapter yet");
  const Result result = Download();
  EXPECT_EQ(result.code, 4);
  EXPECT_NE(result.err.find("mpsctl checkpoints"), std::string::npos);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, ABrokenConnectionLeavesNothing) {
  data().fail["Download"] = grpc::Status(grpc::StatusCode::UNAVAILABLE, "gone");
  EXPECT_EQ(Download().code, 3);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, BytesWithAnotherHashAreRefused) {
  AddFile("bad", "bytes").set_sha256(base::Sha256Hex("others"));
  const Result result = Download();
  EXPECT_EQ(result.code, 6);
  EXPECT_NE(result.err.find("bad arrived with another hash"), std::string::npos)
      << result.err;
  ExpectNothingWritten();
}

TEST_F(DownloadTest, ACutFileIsRefused) {
  AddFile("cut", "bytes").set_size_bytes(6);
  EXPECT_EQ(Download().code, 6);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, PathsStayBelowTheFolder) {
  for (const char* path : {"../evil", "/evil", "a/../../evil", "", "."}) {
    data().download.clear();
    AddFile(path, "x");
    const Result result = Download();
    EXPECT_EQ(result.code, 6) << path;
    EXPECT_NE(result.err.find("is no relative path"), std::string::npos);
    ExpectNothingWritten();
  }
}

TEST_F(DownloadTest, AnEmptyAnswerIsRefused) {
  data().download.clear();
  EXPECT_EQ(Download().code, 6);
  ExpectNothingWritten();
}

}  // namespace
}  // namespace mpsd::client
