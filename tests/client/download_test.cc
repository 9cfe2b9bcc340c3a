// SPDX-License-Identifier: Apache-2.0
#include "client/download.h"

#include <set>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

namespace fs = std::filesystem;

class DownloadTest : public ClientTest {
 protected:
  DownloadTest() {
    AddJob(kId, v1::JOB_STATE_SUCCEEDED);
    AddFile("adapter_config.json", "{}");
    AddFile("nested/weights", std::string(1'500'000, 'w'));
  }

  Result Download(Args more = {}) {
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

  const fs::path output_ = folder_ / "out";
};

TEST_F(DownloadTest, TheAdapter) {
  EXPECT_THAT(Download(),
              Prints("2 files, 1.5 MB in " + output_.string() + "\n"));
  EXPECT_EQ(Read(output_ / "adapter_config.json"), "{}");
  EXPECT_EQ(Read(output_ / "nested/weights"), std::string(1'500'000, 'w'));
  EXPECT_TRUE(data().downloaded[0].output());
}

TEST_F(DownloadTest, ACheckpoint) {
  EXPECT_EQ(Download({"--checkpoint", "40"}).code, 0);
  EXPECT_EQ(data().downloaded[0].checkpoint_step(), 40);
  EXPECT_EQ(Download({"--predictions", "--checkpoint", "4"}).code, 2);
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
  EXPECT_EQ(
      RunVerb({"download", kId, "--predictions", "-o", file.string()}).out,
      "1 file, 2 B in " + file.string() + "\n");
  EXPECT_EQ(Read(file), "22");
  fs::remove(file);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, AFileThatIsNotAmongThePredictions) {
  data().download.clear();
  AddFile("confusion_matrix.json", "{}");
  EXPECT_THAT(RunVerb({"download", kId, "--predictions", "-o",
                       (folder_ / "p.jsonl").string()}),
              Fails(4, HasSubstr("has no predictions.jsonl")));
  ExpectNothingWritten();
}

TEST_F(DownloadTest, Json) {
  data().download.clear();
  AddFile("a", "x");
  const auto json = ParseJson(Download({"--json"}).out);
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
    EXPECT_FALSE(ParseJson(result.out)["output"].is_null());
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
    EXPECT_THAT(RunVerb({"download", kId, "--output", output}),
                Fails(2, HasSubstr(why)))
        << output;
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
  AddFile("predictions.tsv", "22");
  const std::string mine = Write("mine.tsv", "keep");
  EXPECT_THAT(RunVerb({"download", kId, "--predictions", "-o", mine}),
              Fails(2));
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
  EXPECT_THAT(result.err,
              HasSubstr("Permission denied\nNothing was written.\n"));
  EXPECT_TRUE(Names().empty());
}

TEST_F(DownloadTest, AnEmptyFolderMayBeFilled) {
  fs::create_directory(output_);
  EXPECT_EQ(Download().code, 0);
}

TEST_F(DownloadTest, WithoutAnAnswerNothingIsWritten) {
  Fail("Download", StatusCode::UNAVAILABLE, "gone");
  EXPECT_EQ(Download().code, 7);
  ExpectNothingWritten();
  data().download.clear();
  Fail("Download", StatusCode::FAILED_PRECONDITION,
       "the job has no adapter yet");
  EXPECT_THAT(Download(), Fails(4, HasSubstr("mpsctl checkpoints")));
  ExpectNothingWritten();
  data().fail.clear();
  EXPECT_EQ(Download().code, 6);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, BytesWithAnotherHashOrSizeAreRefused) {
  AddFile("bad", "bytes").set_sha256(base::Sha256Hex("others"));
  EXPECT_THAT(Download(),
              Fails(6, HasSubstr("bad arrived with a different hash")));
  ExpectNothingWritten();
  data().download.clear();
  AddFile("cut", "bytes").set_size_bytes(6);
  EXPECT_EQ(Download().code, 6);
  ExpectNothingWritten();
}

TEST_F(DownloadTest, PathsStayBelowTheFolder) {
  for (const char* path : {"../evil", "/evil", "a/../../evil", "", "."}) {
    data().download.clear();
    AddFile(path, "x");
    EXPECT_THAT(Download(), Fails(6, HasSubstr("is not a relative path")))
        << path;
    ExpectNothingWritten();
  }
}

class OutputFileTest : public DownloadTest {
 protected:
  OutputFileTest() {
    data().download.clear();
    AddFile("result.json", "{}");
    AddFile("trace.json.gz", "first and more");
    data().download[3] = FileData("first");
    data().download.push_back(FileData(" and more"));
    AddFile("zebra", "stripes");
  }

  ExitCode Fetch(const std::string& name = "trace.json.gz") {
    const ExitCode code =
        FetchOutputFile(TestConsole(), kId, name, path_, "Look elsewhere.");
    daemon_->Sync();
    return code;
  }

  const fs::path path_ = folder_ / "here.json.gz";
};

TEST_F(OutputFileTest, TakesTheOneFile) {
  EXPECT_EQ(Fetch(), ExitCode::kOk) << err_.str();
  EXPECT_EQ(*base::ReadFile(path_), "first and more");
  EXPECT_EQ(Only(data().downloaded).job_id(), kId);
  EXPECT_TRUE(data().downloaded[0].output());
}

TEST_F(OutputFileTest, AFileThatIsNotThereIsSaid) {
  EXPECT_EQ(Fetch("none"), ExitCode::kNotFound);
  EXPECT_THAT(err_.str(), HasSubstr("has no none"));
  EXPECT_THAT(err_.str(), HasSubstr("Look elsewhere."));
  ExpectNothingWritten();
  Fail("Download", StatusCode::NOT_FOUND, "no such job");
  EXPECT_EQ(Fetch(), ExitCode::kNotFound);
  ExpectNothingWritten();
}

TEST_F(OutputFileTest, WhatArrivesBrokenIsNotKept) {
  data().download[2].mutable_file()->set_sha256(std::string(64, 'a'));
  EXPECT_EQ(Fetch(), ExitCode::kOther);
  ExpectNothingWritten();
  data().download[2].mutable_file()->set_sha256(
      base::Sha256Hex("first and more"));
  data().download[2].mutable_file()->set_size_bytes(15);
  EXPECT_EQ(Fetch(), ExitCode::kOther);
  ExpectNothingWritten();
}

TEST_F(OutputFileTest, APlaceThatCannotBeWrittenAsksNobody) {
  EXPECT_EQ(FetchOutputFile(TestConsole(), kId, "zebra",
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
    auto files = ReadRunFiles(TestConsole(), kId);
    daemon_->Sync();
    return files;
  }
};

TEST_F(RunFilesTest, ThoseThatAPageShows) {
  EXPECT_THAT(Read(), ElementsAre(Pair("confusion_matrix.json", "[]"),
                                  Pair("predictions.jsonl", "1\n2\n"),
                                  Pair("run.json", "{}")));
  EXPECT_EQ(err_.str(), "");
}

TEST_F(RunFilesTest, PredictionsEndWithAWholeLine) {
  std::string lines;
  while (lines.size() < 300'000) lines += "{\"prediction\": \"good\"}\n";
  data().download = {FileHead("predictions.jsonl", int64_t{1} << 40),
                     FileData(lines)};
  const std::string text = Read()["predictions.jsonl"];
  EXPECT_LE(text.size(), 65'536u);
  EXPECT_GT(text.size(), 65'000u);
  EXPECT_TRUE(text.ends_with("}\n"));
}

// A hostile daemon announces less than it sends.
TEST_F(RunFilesTest, AFileIsNoLargerThanItsBound) {
  data().manifest = {FileHead("run.json", 2)};
  for (int i = 0; i < 40; ++i) {
    data().manifest.push_back(FileData(std::string(100'000, 'x')));
  }
  EXPECT_LE(Read()["run.json"].size(), 1u << 20);
  data().manifest = {FileHead("../run.json", 2), FileData("{}")};
  EXPECT_EQ(Read().count("../run.json"), 0u);
}

TEST_F(RunFilesTest, WhatTheDaemonDoesNotHaveIsMissing) {
  data().manifest.clear();
  data().download.clear();
  Fail("Download of the manifest", StatusCode::NOT_FOUND, "no such job");
  Fail("Download", StatusCode::FAILED_PRECONDITION, "is RUNNING");
  EXPECT_TRUE(Read().empty());
  EXPECT_EQ(err_.str(), "");
}

TEST_F(RunFilesTest, AFileThatBreaksOffIsToldAndLeftOut) {
  data().manifest = {FileHead("run.json", 100), FileData("{\"half")};
  Fail("Download of the manifest", StatusCode::ABORTED, "it changed\x1b[2J");
  const auto files = Read();
  EXPECT_EQ(files.count("run.json"), 0u);
  EXPECT_EQ(files.count("predictions.jsonl"), 1u);
  EXPECT_THAT(err_.str(),
              AllOf(HasSubstr("it changed"), Not(HasSubstr("\x1b"))));
}

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

TEST_F(CheckpointsTest, OldestFirst) {
  EXPECT_EQ(Out({"checkpoints", kId}), "No checkpoints.\n");
  Add(5, "/state/step-5");
  EXPECT_EQ(Out({"checkpoints", kId, "--json"}),
            R"({"step":5,"path":"/state/step-5","size_bytes":1500000,)"
            R"("create_time":"2026-01-02T03:04:05Z"})"
            "\n");
  Add(10, "/state/step-10");
  EXPECT_EQ(Out({"checkpoints", kId}),
            "STEP  CREATED              SIZE    PATH\n"
            "5     2026-01-02 03:04:05  1.5 MB  /state/step-5\n"
            "10    2026-01-02 03:04:05  1.5 MB  /state/step-10\n");
}

}  // namespace
}  // namespace mpsd::client
