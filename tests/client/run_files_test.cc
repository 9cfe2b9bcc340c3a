// SPDX-License-Identifier: Apache-2.0
#include "client/run_files.h"

#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

class RunFilesTest : public ClientTest {
 protected:
  RunFilesTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    data().manifest = {FileHead("run.json", 2), FileData("{}")};
    data().download = {FileHead("confusion_matrix.json", 2), FileData("[]"),
                       FileHead("predictions.jsonl", 4),     FileData("1\n2\n"),
                       FileHead("predictions.tsv", 1),       FileData("x")};
  }

  std::map<std::string, std::string> Read() {
    Connection connection(SocketAddress());
    std::ostringstream out, err;
    auto files = ReadRunFiles(TestConsole(connection, out, err), kId);
    daemon_->Sync();
    err_ = err.str();
    return files;
  }

  std::string err_;
};

TEST_F(RunFilesTest, ThoseThatAPageShows) {
  EXPECT_THAT(Read(), ElementsAre(Pair("confusion_matrix.json", "[]"),
                                  Pair("predictions.jsonl", "1\n2\n"),
                                  Pair("run.json", "{}")));
  EXPECT_EQ(err_, "");
}

TEST_F(RunFilesTest, PredictionsEndWithAWholeLine) {
  std::string lines;
  while (lines.size() < 300'000) lines += "{\"prediction\": \"good\"}\n";
  data().download = {FileHead("predictions.jsonl", 300'000), FileData(lines)};
  const std::string text = Read()["predictions.jsonl"];
  EXPECT_LE(text.size(), 65'536u);
  EXPECT_GT(text.size(), 65'000u);
  EXPECT_TRUE(text.ends_with("}\n"));
}

TEST_F(RunFilesTest, ALargeFileIsLeftOut) {
  data().manifest = {FileHead("run.json", 2 << 20), FileData("{}")};
  EXPECT_EQ(Read().count("run.json"), 0u);
  EXPECT_EQ(err_, "");
}

// A hostile daemon announces less than it sends.
TEST_F(RunFilesTest, AFileIsNoLargerThanItsBound) {
  data().manifest = {FileHead("run.json", 2)};
  for (int i = 0; i < 40; ++i) {
    data().manifest.push_back(FileData(std::string(100'000, 'x')));
  }
  EXPECT_LE(Read()["run.json"].size(), 1u << 20);
}

TEST_F(RunFilesTest, WhatTheDaemonDoesNotHaveIsMissing) {
  data().manifest.clear();
  data().download.clear();
  data().fail["Download of the manifest"] =
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  data().fail["Download"] =
      grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "is RUNNING");
  EXPECT_TRUE(Read().empty());
  EXPECT_EQ(err_, "");
}

TEST_F(RunFilesTest, AFileThatBreaksOffIsToldAndLeftOut) {
  data().manifest = {FileHead("run.json", 100), FileData("{\"half")};
  data().fail["Download of the manifest"] =
      grpc::Status(grpc::StatusCode::ABORTED, "it changed\x1b[2J");
  const auto files = Read();
  EXPECT_EQ(files.count("run.json"), 0u);
  EXPECT_EQ(files.count("predictions.jsonl"), 1u);
  EXPECT_THAT(err_, HasSubstr("it changed"));
  EXPECT_EQ(err_.find('\x1b'), std::string::npos);
}

TEST_F(RunFilesTest, OtherNamesAreNotTaken) {
  data().manifest = {FileHead("../run.json", 2), FileData("{}")};
  EXPECT_EQ(Read().count("../run.json"), 0u);
}

}  // namespace
}  // namespace mpsd::client
