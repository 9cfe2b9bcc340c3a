// SPDX-License-Identifier: Apache-2.0
#include "client/download.h"

#include <unistd.h>

#include <set>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

// --- download ----------------------------------------------------------------

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

  // Below folder_, but for the socket.
  std::set<std::string> Names() {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path() == socket_ || entry.is_directory()) continue;
      names.insert(entry.path().lexically_relative(folder_).generic_string());
    }
    return names;
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

TEST_F(DownloadTest, Curves) {
  data().download.clear();
  AddFile("metrics.jsonl", "{}");
  AddFile("runs/events.out.tfevents.1.mpsd", "1");
  EXPECT_EQ(Download({"--curves"}).code, 0);
  EXPECT_TRUE(data().downloaded[0].curves());
  EXPECT_EQ(Read(output_ / "runs/events.out.tfevents.1.mpsd"), "1");
  EXPECT_EQ(Download({"--curves", "--predictions"}).code, 2);
  EXPECT_EQ(Download({"--curves", "--checkpoint", "4"}).code, 2);
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

TEST_F(DownloadTest, JsonOfAPathThatIsNoUtf8) {
  const fs::path output = folder_ / "caf\xe9";
  const Result result =
      RunVerb({"download", kId, "--json", "-o", output.string()});
  if (result.code == 0) {
    EXPECT_FALSE(nlohmann::json::parse(result.out)["output"].is_null());
  } else {  // the file system has no such names
    EXPECT_NE(result.err.find("Nothing was written"), std::string::npos);
  }
}

// Nothing below the test's folder comes, goes or changes.
TEST_F(DownloadTest, NothingIsOverwritten) {
  Write("out/mine", "keep");
  Write("thesis.txt", "years");
  fs::create_directories(folder_ / "outer/inner");
  fs::create_directories(folder_ / "empty");
  fs::create_directory_symlink(folder_ / "empty", folder_ / "link");
  fs::create_symlink(folder_ / "nowhere", folder_ / "dangling");
  const std::set<std::string> before = Names();
  const auto refused = [&](const std::string& output, const std::string& why) {
    const Result result = RunVerb({"download", kId, "--output", output});
    EXPECT_EQ(result.code, 2) << output;
    EXPECT_NE(result.err.find(why), std::string::npos) << result.err;
  };
  const std::string here = folder_.string();
  EXPECT_EQ(Download().err, "mpsctl: " + output_.string() +
                                " is not empty\n"
                                "Name another --output, or remove it first.\n");
  refused(here + "/out/", " is not empty");
  refused(here + "/out/../outer", " is not empty");
  refused(here + "/thesis.txt", " exists");
  refused(here + "/link", " exists");
  refused(here + "/dangling", " exists");
  refused("/", " is not empty");
  EXPECT_TRUE(data().downloaded.empty());  // refused before anything is sent
  EXPECT_EQ(Names(), before);
  EXPECT_EQ(Read(output_ / "mine"), "keep");
  EXPECT_TRUE(fs::is_empty(folder_ / "empty"));
}

TEST_F(DownloadTest, AFormerDownloadStays) {
  ASSERT_EQ(Download().code, 0);
  const std::set<std::string> before = Names();
  EXPECT_EQ(before, (std::set<std::string>{"out/adapter_config.json",
                                           "out/nested/weights"}));
  data().download.clear();
  AddFile("config.json", "new");
  EXPECT_EQ(Download().code, 2);
  EXPECT_EQ(Names(), before);
}

TEST_F(DownloadTest, AFileOfPredictionsStays) {
  data().download.clear();
  AddFile("predictions.tsv", "22");
  const std::string mine = Write("mine.tsv", "keep");
  const Result result = RunVerb({"download", kId, "--predictions", "-o", mine});
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(Read(mine), "keep");
}

TEST_F(DownloadTest, AFolderThatMayNotBeWrittenIsSaid) {
  const fs::path parent = folder_ / "parent";
  fs::create_directory(parent);
  fs::permissions(folder_, fs::perms::all);
  fs::permissions(socket_, fs::perms::all);
  fs::permissions(parent, fs::perms(0555));
  const uid_t user = geteuid();
  // Root may write everywhere.
  ASSERT_EQ(seteuid(user == 0 ? 65534 : user), 0);
  const Result result =
      RunVerb({"download", kId, "-o", (parent / "new").string()});
  ASSERT_EQ(seteuid(user), 0);
  fs::permissions(parent, fs::perms::all);
  EXPECT_EQ(result.code, 6);
  EXPECT_NE(result.err.find("Permission denied\nNothing was written.\n"),
            std::string::npos)
      << result.err;
  EXPECT_TRUE(Names().empty());
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
  EXPECT_EQ(Download().code, 7);
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

// --- output file -------------------------------------------------------------

namespace fs = std::filesystem;

using testing::HasSubstr;

class OutputFileTest : public ClientTest {
 protected:
  OutputFileTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddFile("result.json", "{}");
    AddFile("trace.json.gz", "first");
    data().download.emplace_back().set_data(" and more");
    data().download[2].mutable_file()->set_size_bytes(14);
    data().download[2].mutable_file()->set_sha256(
        base::Sha256Hex("first and more"));
    AddFile("zebra", "stripes");
  }

  void AddFile(const std::string& name, const std::string& bytes) {
    v1::DownloadResponse head =
        FileHead(name, static_cast<int64_t>(bytes.size()));
    head.mutable_file()->set_sha256(base::Sha256Hex(bytes));
    data().download.push_back(head);
    data().download.push_back(FileData(bytes));
  }

  ExitCode Fetch(const std::string& name = "trace.json.gz") {
    Connection connection(SocketAddress(), nullptr);
    out_.str("");
    err_.str("");
    const ExitCode code = FetchOutputFile(TestConsole(connection, out_, err_),
                                          kId, name, path_, "Look elsewhere.");
    daemon_->Sync();
    return code;
  }

  bool NothingWritten() const {
    for (const auto& entry : fs::directory_iterator(folder_)) {
      if (entry.path() != socket_) return false;
    }
    return true;
  }

  const fs::path path_ = folder_ / "here.json.gz";
  std::ostringstream out_, err_;
};

TEST_F(OutputFileTest, TakesTheOneFile) {
  EXPECT_EQ(Fetch(), ExitCode::kOk) << err_.str();
  EXPECT_EQ(*base::ReadFile(path_), "first and more");
  ASSERT_EQ(data().downloaded.size(), 1u);
  EXPECT_EQ(data().downloaded[0].job_id(), kId);
  EXPECT_TRUE(data().downloaded[0].output());
}

TEST_F(OutputFileTest, AFileThatIsNotThereIsSaid) {
  EXPECT_EQ(Fetch("none"), ExitCode::kNotFound);
  EXPECT_THAT(err_.str(), HasSubstr("has no none"));
  EXPECT_THAT(err_.str(), HasSubstr("Look elsewhere."));
  EXPECT_TRUE(NothingWritten());
}

TEST_F(OutputFileTest, WhatArrivesBrokenIsNotKept) {
  data().download[2].mutable_file()->set_sha256(std::string(64, 'a'));
  EXPECT_EQ(Fetch(), ExitCode::kOther);
  EXPECT_TRUE(NothingWritten());
  data().download[2].mutable_file()->set_sha256(
      base::Sha256Hex("first and more"));
  data().download[2].mutable_file()->set_size_bytes(15);
  EXPECT_EQ(Fetch(), ExitCode::kOther);
  EXPECT_TRUE(NothingWritten());
}

TEST_F(OutputFileTest, AFailedCallKeepsItsCode) {
  data().fail["Download"] =
      grpc::Status(grpc::StatusCode::NOT_FOUND, "no such job");
  EXPECT_EQ(Fetch(), ExitCode::kNotFound);
  EXPECT_TRUE(NothingWritten());
}

TEST_F(OutputFileTest, APlaceThatCannotBeWrittenAsksNobody) {
  Connection connection(SocketAddress(), nullptr);
  EXPECT_EQ(FetchOutputFile(TestConsole(connection, out_, err_), kId, "zebra",
                            folder_ / "none" / "zebra", ""),
            ExitCode::kBadInput);
  daemon_->Sync();
  EXPECT_TRUE(data().downloaded.empty());
}

TEST_F(OutputFileTest, APlaceIsLookedAtBeforehand) {
  EXPECT_TRUE(CheckOutputFile("--csv", "").ok());
  EXPECT_TRUE(CheckOutputFile("--csv", folder_ / "new.csv").ok());
  EXPECT_TRUE(CheckOutputFile("--csv", Write("old.csv", "1")).ok());
  EXPECT_TRUE(CheckOutputFile("--csv", "new.csv").ok()) << "in this folder";
  // Replacing a device would be a pity.
  for (const fs::path& place :
       {folder_, fs::path("/dev/full"), folder_ / "none/new.csv",
        folder_ / "old.csv/new.csv"}) {
    const absl::Status status = CheckOutputFile("--csv", place);
    EXPECT_FALSE(status.ok()) << place;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--csv: "));
  }
}

// --- run files ---------------------------------------------------------------

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

// --- checkpoints -------------------------------------------------------------

class CheckpointsTest : public ClientTest {
 protected:
  CheckpointsTest() { AddJob(kId, v1::JOB_STATE_RUNNING); }

  void Add(int64_t step, const std::string& path) {
    v1::Checkpoint checkpoint;
    checkpoint.set_step(step);
    checkpoint.set_path(path);
    checkpoint.set_size_bytes(1'500'000);
    SetTime(checkpoint.mutable_create_time(), absl::ZeroDuration());
    data().checkpoints[kId].push_back(checkpoint);
  }
};

TEST_F(CheckpointsTest, None) {
  EXPECT_EQ(RunVerb({"checkpoints", kId}).out, "No checkpoints.\n");
}

TEST_F(CheckpointsTest, OldestFirst) {
  Add(5, "/state/step-5");
  Add(10, "/state/step-10");
  EXPECT_EQ(RunVerb({"checkpoints", kId}).out,
            "STEP  CREATED              SIZE    PATH\n"
            "5     2026-01-02 03:04:05  1.5 MB  /state/step-5\n"
            "10    2026-01-02 03:04:05  1.5 MB  /state/step-10\n");
}

TEST_F(CheckpointsTest, Json) {
  Add(5, "/p");
  EXPECT_EQ(RunVerb({"checkpoints", kId, "--json"}).out,
            R"({"step":5,"path":"/p","size_bytes":1500000,)"
            R"("create_time":"2026-01-02T03:04:05Z"})"
            "\n");
}

}  // namespace
}  // namespace mpsd::client
