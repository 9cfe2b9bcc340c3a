// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <set>
#include <thread>

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

  // Below folder_, but for the socket.
  std::set<std::string> Names() {
    std::set<std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.path() == socket_ || entry.is_directory()) continue;
      names.insert(entry.path().lexically_relative(folder_).generic_string());
    }
    return names;
  }

  // A forced download to `output` is refused with `words`, and no file below
  // the test's folder comes or goes.
  void ExpectRefused(const std::string& output, const std::string& words) {
    const std::set<std::string> before = Names();
    const Result result =
        RunVerb({"download", kId, "--force", "--output", output});
    EXPECT_EQ(result.code, 2) << output;
    EXPECT_NE(result.err.find(words), std::string::npos) << result.err;
    EXPECT_EQ(Names(), before);
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
  // The curves of a job that runs grow.
  data().download.clear();
  AddFile("metrics.jsonl", "{}{}");
  EXPECT_EQ(Download({"--curves", "--force"}).code, 0);
  EXPECT_EQ(Read(output_ / "metrics.jsonl"), "{}{}");
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

TEST_F(DownloadTest, AFormerDownloadIsReplaced) {
  ASSERT_EQ(Download().code, 0);
  EXPECT_EQ(Download().code, 2);
  data().download.clear();
  AddFile("config.json", "new");
  EXPECT_EQ(Download({"--force"}).code, 0);
  EXPECT_EQ(Names(), (std::set<std::string>{"out/.mpsctl-download.json",
                                            "out/config.json"}));
  EXPECT_EQ(Read(output_ / "config.json"), "new");
}

TEST_F(DownloadTest, AForeignFolderIsNeverReplaced) {
  Write("out/thesis.txt", "years");
  Write("out/notes/a.txt", "days");
  ExpectRefused(output_.string(),
                "is no former download alone; to replace it would lose:\n"
                "  notes/\n  notes/a.txt\n  thesis.txt\n"
                "Name another --output: --force replaces former downloads "
                "only.\n");
  EXPECT_TRUE(data().downloaded.empty());  // refused before anything is sent
}

TEST_F(DownloadTest, NorAFormerDownloadWithOneFileMore) {
  ASSERT_EQ(Download().code, 0);
  Write("out/nested/thesis.txt", "years");
  ExpectRefused(output_.string(), "would lose:\n  nested/thesis.txt\n");
}

TEST_F(DownloadTest, NorOneWhoseFileIsAnother) {
  ASSERT_EQ(Download().code, 0);
  Write("out/adapter_config.json", "[]");  // as long as it was
  ExpectRefused(output_.string(), "  adapter_config.json (changed since)\n");
}

TEST_F(DownloadTest, NorOneWithALink) {
  ASSERT_EQ(Download().code, 0);
  fs::remove(output_ / "adapter_config.json");
  fs::create_symlink("/etc/hostname", output_ / "adapter_config.json");
  ExpectRefused(output_.string(), "would lose:\n  adapter_config.json\n");
}

TEST_F(DownloadTest, AnOlderDownloadHasExactlyTheNewNames) {
  Write("out/adapter_config.json", "old");
  Write("out/nested/weights", "old");
  EXPECT_EQ(Download({"--force"}).code, 0);
  EXPECT_EQ(Read(output_ / "adapter_config.json"), "{}");
}

TEST_F(DownloadTest, AFolderWithOneNameMoreIsNoOlderDownload) {
  Write("out/adapter_config.json", "old");
  Write("out/nested/weights", "old");
  Write("out/nested/mine", "old");
  ExpectRefused(output_.string(), "would lose:\n  nested/mine\n");
}

TEST_F(DownloadTest, AFolderWithOneNameLessIsNoOlderDownload) {
  Write("out/adapter_config.json", "mine");
  ExpectRefused(output_.string(), "would lose:\n  adapter_config.json\n");
}

TEST_F(DownloadTest, FoldersWithoutAFileAreNoOlderDownload) {
  Write("out/adapter_config.json", "old");
  Write("out/nested/weights", "old");
  fs::create_directories(output_ / "empty/within");
  ExpectRefused(output_.string(), "would lose:\n  empty/\n  empty/within/\n");
}

TEST_F(DownloadTest, AListThatCannotBeReadIsNone) {
  ASSERT_EQ(Download().code, 0);
  Write("out/.mpsctl-download.json", "{");
  ExpectRefused(output_.string(), "would lose:\n  .mpsctl-download.json\n");
}

TEST_F(DownloadTest, AListNamesNothingOutside) {
  Write("mine", "keep");
  Write("out/.mpsctl-download.json",
        R"({"files": [{"path": "../mine", "size_bytes": 4, "sha256": ""}]})");
  EXPECT_EQ(Download({"--force"}).code, 0);
  EXPECT_EQ(Read(folder_ / "mine"), "keep");
}

TEST_F(DownloadTest, TheCurrentFolderIsNeverReplaced) {
  ASSERT_EQ(Download().code, 0);
  const fs::path before = fs::current_path();
  fs::create_directory(output_ / "nested/below");
  fs::current_path(output_ / "nested/below");
  ExpectRefused(".", "is or holds the folder that you are in\n");
  ExpectRefused("..", "is or holds the folder that you are in\n");
  ExpectRefused("../..", "is or holds the folder that you are in\n");
  fs::current_path(before);
}

TEST_F(DownloadTest, TheHomeFolderIsNeverReplaced) {
  ASSERT_EQ(Download().code, 0);
  const char* home = getenv("HOME");
  const std::string before = home != nullptr ? home : "";
  setenv("HOME", (output_ / "nested").c_str(), 1);
  ExpectRefused((output_ / "nested").string(), "is or holds your home folder");
  ExpectRefused(output_.string() + "/", "is or holds your home folder");
  setenv("HOME", before.c_str(), 1);
}

TEST_F(DownloadTest, TheRootIsNeverReplaced) {
  ExpectRefused("/", "/ is the root folder\n");
  ExpectRefused("/usr/..", "/ is the root folder\n");
}

TEST_F(DownloadTest, ALinkIsNeverReplaced) {
  const fs::path link = folder_ / "link";
  ASSERT_EQ(Download().code, 0);
  fs::create_directory_symlink(output_, link);
  ExpectRefused(link.string(), "is a symbolic link\n");
  fs::remove(link);
  fs::create_symlink(folder_ / "nowhere", link);
  ExpectRefused(link.string(), "is a symbolic link\n");
}

TEST_F(DownloadTest, AFileIsNeverReplacedByAFolder) {
  ExpectRefused(Write("thesis.txt", "years"),
                "is no folder, and would be lost");
}

TEST_F(DownloadTest, OfFilesOnlyFormerPredictionsAreReplaced) {
  data().download.clear();
  AddFile("predictions.jsonl", R"({"index":0,"prediction":"new"})");
  AddFile("predictions.tsv", "index\tprediction\n0\tnew\n");
  const auto fetch = [&](const std::string& output) {
    return RunVerb({"download", kId, "--predictions", "--force", "-o", output});
  };
  for (const char* mine : {"", "name\tgrade\n", "{\"a\": 1}\n"}) {
    for (const char* name : {"mine.tsv", "mine.jsonl"}) {
      const Result refused = fetch(Write(name, mine));
      EXPECT_EQ(refused.code, 2);
      EXPECT_NE(refused.err.find("is no file of predictions, and would be"),
                std::string::npos);
      EXPECT_EQ(Read(folder_ / name), mine);
    }
  }
  EXPECT_EQ(fetch(Write("p.tsv", "index\tprediction\n0\told\n")).code, 0);
  EXPECT_EQ(Read(folder_ / "p.tsv"), "index\tprediction\n0\tnew\n");
  EXPECT_EQ(fetch(Write("p.jsonl", "{\"index\":0}\n")).code, 0);
  EXPECT_EQ(Read(folder_ / "p.jsonl"), R"({"index":0,"prediction":"new"})");
}

TEST_F(DownloadTest, AFolderThatMayNotBeWrittenIsSaid) {
  Write("parent/out/adapter_config.json", "mine");
  const fs::path parent = folder_ / "parent";
  fs::permissions(folder_, fs::perms::all);
  fs::permissions(socket_, fs::perms::all);
  fs::permissions(parent, fs::perms(0555));
  const uid_t user = geteuid();
  // Root may write everywhere.
  ASSERT_EQ(seteuid(user == 0 ? 65534 : user), 0);
  const Result result =
      RunVerb({"download", kId, "-o", (parent / "new").string()});
  const Result forced =
      RunVerb({"download", kId, "--force", "-o", (parent / "out").string()});
  ASSERT_EQ(seteuid(user), 0);
  fs::permissions(parent, fs::perms::all);
  for (const Result& failed : {result, forced}) {
    EXPECT_EQ(failed.code, 6);
    EXPECT_NE(failed.err.find("Permission denied\nNothing was written.\n"),
              std::string::npos)
        << failed.err;
  }
  EXPECT_EQ(Names(), (std::set<std::string>{"parent/out/adapter_config.json"}));
}

// Whoever looks, also after a kill at that moment, finds a whole download.
TEST_F(DownloadTest, AReplacedFolderIsThereAtEachMoment) {
  ASSERT_EQ(Download().code, 0);
  std::atomic<bool> done{false};
  std::atomic<int> missed{0};
  std::thread looks([&] {
    while (!done) missed += !fs::exists(output_ / "nested/weights");
  });
  for (int i = 0; i < 40; ++i) ASSERT_EQ(Download({"--force"}).code, 0);
  done = true;
  looks.join();
  EXPECT_EQ(missed, 0);
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

}  // namespace
}  // namespace mpsd::client
