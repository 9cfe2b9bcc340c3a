// SPDX-License-Identifier: Apache-2.0
#include "client/download.h"

#include <limits>
#include <set>

#include "client/text/format.h"
#include "core/base/file.h"
#include "core/report/run_events.h"
#include "mpsd/v1/jobs.pb.h"
#include "tests/client/client_fixture.h"
#include "tests/core/status_matchers.h"

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
              Prints("2 files, 1.4 MiB in " + output_.string() + "\n"));
  EXPECT_EQ(Read(output_ / "adapter_config.json"), "{}");
  EXPECT_EQ(Read(output_ / "nested/weights"), std::string(1'500'000, 'w'));
  EXPECT_TRUE(data().downloaded[0].output());
}

TEST_F(DownloadTest, ACheckpoint) {
  EXPECT_EQ(Download({"--checkpoint", "40"}).code, 0);
  EXPECT_EQ(data().downloaded[0].checkpoint_step(), 40);
  EXPECT_EQ(Download({"--predictions", "--checkpoint", "4"}).code, 2);
}

TEST_F(DownloadTest, AMergedModel) {
  EXPECT_EQ(Download({"--merged"}).code, 0);
  EXPECT_TRUE(data().downloaded[0].merged());
  EXPECT_EQ(Download({"--merged", "--curves"}).code, 2);
  // No watch would help.
  fs::remove_all(output_);
  Fail("Download", StatusCode::FAILED_PRECONDITION, "the model m is gone");
  EXPECT_THAT(Download({"--merged"}),
              Fails(2, AllOf(HasSubstr("the model m is gone"),
                             Not(HasSubstr("mpsctl watch")))));
}

TEST_F(DownloadTest, AnExportForOtherPrograms) {
  const std::string output = output_.string();
  EXPECT_THAT(RunVerb({"export", kId, "--format", "gguf", "-o", output}),
              Prints(AllOf(HasSubstr("2 files"),
                           HasSubstr("ollama create NAME -f " + output))));
  EXPECT_EQ(data().downloaded[0].export_format(), "gguf-q8_0");
  EXPECT_EQ(RunVerb({"export", kId, "--format", "onnx", "-o", output}).code, 2);
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
  EXPECT_THAT(Download(), Fails(4, AllOf(HasSubstr("--checkpoints`"),
                                         Not(HasSubstr("Wait for it")))));
  data().jobs[0].set_checkpoint_step(0);
  EXPECT_THAT(Download(), Fails(4, Not(HasSubstr("--checkpoints"))));
  data().jobs[0].set_state(v1::JOB_STATE_RUNNING);
  EXPECT_THAT(Download(), Fails(4, HasSubstr("Wait for it")));
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
    const ExitCode code = FetchOutputFile(TestConsole(), kId, name, path_);
    daemon_->Sync();
    return code;
  }

  const fs::path path_ = folder_ / "here.json.gz";
};

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

TEST_F(OutputFileTest, APlaceIsLookedAtBeforehand) {
  EXPECT_TRUE(CheckOutputFile("--output", "").ok());
  EXPECT_TRUE(CheckOutputFile("--output", folder_ / "new.csv").ok());
  EXPECT_TRUE(CheckOutputFile("--output", Write("old.csv", "1")).ok());
  EXPECT_TRUE(CheckOutputFile("--output", "new.csv").ok()) << "in this folder";
  // Replacing a device would be a pity.
  for (const fs::path& place :
       {folder_, fs::path("/dev/full"), folder_ / "none/new.csv",
        folder_ / "old.csv/new.csv"}) {
    const absl::Status status = CheckOutputFile("--output", place);
    EXPECT_FALSE(status.ok()) << place;
    EXPECT_THAT(std::string(status.message()), HasSubstr("--output: "));
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

TEST_F(RunFilesTest, AFileThatBreaksOffIsReportedAndLeftOut) {
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
  EXPECT_EQ(Out({"download", kId, "--checkpoints"}), "No checkpoints.\n");
  Add(5, "/state/step-5");
  EXPECT_EQ(Out({"download", kId, "--checkpoints", "--json"}),
            R"({"step":5,"path":"/state/step-5","size_bytes":1500000,)"
            R"("create_time":"2026-01-02T03:04:05Z"})"
            "\n");
  Add(10, "/state/step-10");
  EXPECT_EQ(Out({"download", kId, "--checkpoints"}),
            "STEP  CREATED              SIZE     PATH\n"
            "5     2026-01-02 03:04:05  1.4 MiB  /state/step-5\n"
            "10    2026-01-02 03:04:05  1.4 MiB  /state/step-10\n");
}

using nlohmann::json;

class ReportTest : public ClientTest {
 protected:
  ReportTest() {
    AddRun(kId);
    data().logs[kId] = "step 1\nstep 2\n";
    data().manifest = {FileHead("run.json", 12), FileData("{\"seed\": 42}")};
  }

  void AddRun(const std::string& id) {
    v1::Job& job = AddJob(id, v1::JOB_STATE_SUCCEEDED);
    job.set_spec_json(R"({"training": {"seed": 42}})");
    AddState(id, v1::JOB_STATE_RUNNING);
    AddProgress(id, 1, 2);
    AddProgress(id, 2, 2);
    AddState(id, v1::JOB_STATE_SUCCEEDED);
  }

  std::string Page() const { return folder_ / "report.html"; }

  Result Report(Args more = {}) {
    Args args = {"report", kId, "-o", Page()};
    args.insert(args.end(), more.begin(), more.end());
    return RunVerb(args);
  }

  // The document in a page.
  static json Document(const std::string& path) {
    const std::string page = Read(path);
    const std::string begin = "id=\"run-document\">";
    const size_t at = page.find(begin) + begin.size();
    return json::parse(page.substr(at, page.find("</script>", at) - at));
  }
};

TEST_F(ReportTest, WritesAPageOfTheRun) {
  EXPECT_THAT(Report(), Prints(AllOf(HasSubstr("1 run, "), HasSubstr(Page()))));
  const json run = Document(Page())["runs"][0];
  EXPECT_EQ(run["job"]["id"], kId);
  EXPECT_EQ(run["job"]["state"], "JOB_STATE_SUCCEEDED");
  EXPECT_EQ(run["events"].size(), 4u);
  EXPECT_EQ(run["log"], "step 1\nstep 2\n");
  EXPECT_EQ(run["files"]["run.json"], "{\"seed\": 42}");
  const Result result = Report({"--json", "--force"});
  const json object = json::parse(result.out);
  EXPECT_EQ(object["job_ids"], json({kId}));
  EXPECT_EQ(object["output"], Page());
  EXPECT_EQ(object["size_bytes"], Read(Page()).size());
}

TEST_F(ReportTest, ComparesRuns) {
  AddRun(kOtherId);
  EXPECT_THAT(RunVerb({"report", kId, kOtherId, "-o", Page()}),
              Prints(HasSubstr("2 runs, ")));
  const json document = Document(Page());
  ASSERT_EQ(document["runs"].size(), 2u);
  EXPECT_EQ(document["runs"][1]["job"]["id"], kOtherId);
  std::filesystem::remove(Page());
  EXPECT_THAT(RunVerb({"report", "--label", "sweep=ranks", "-o", Page()}),
              Prints());
  EXPECT_EQ(Document(Page())["runs"].size(), 2u);
  EXPECT_EQ(data().listed[0].labels().at("sweep"), "ranks");
  EXPECT_EQ(data().listed[0].owner(), "") << "others' may be read, too";
}

TEST_F(ReportTest, ARunningJobUpToNow) {
  v1::Job& job = data().jobs[0];
  job.set_state(v1::JOB_STATE_RUNNING);
  *job.mutable_progress() = data().events[kId][1].progress();
  data().on_idle = [] {};
  EXPECT_EQ(Report().code, 0);
  EXPECT_EQ(Document(Page())["runs"][0]["events"].size(), 2u);
  data().jobs[0].set_state(v1::JOB_STATE_QUEUED);
  data().events.clear();
  data().manifest.clear();
  EXPECT_EQ(Report({"--force"}).code, 0);
  EXPECT_EQ(Document(Page())["runs"][0]["events"].size(), 0u);
}

TEST_F(ReportTest, ReplacesAReportOnlyWhenAsked) {
  ASSERT_EQ(Report().code, 0);
  EXPECT_THAT(Report(), Fails(2, HasSubstr("--force")));
  data().jobs[0].set_owner("bob");
  EXPECT_EQ(Report({"--force"}).code, 0);
  EXPECT_EQ(Document(Page())["runs"][0]["job"]["owner"], "bob");
}

TEST_F(ReportTest, ForceReplacesNothingElse) {
  for (const std::string text :
       {"<!DOCTYPE html>\n<title>thesis</title>", "", "x"}) {
    Write("report.html", text);
    EXPECT_THAT(Report({"--force"}), Fails(2, HasSubstr("is not a report")));
    EXPECT_EQ(Read(Page()), text);
  }
  std::filesystem::remove(Page());
  std::filesystem::create_directory(Page());
  EXPECT_EQ(Report({"--force"}).code, 2);
  std::filesystem::remove(Page());
  Write("target", "kept");
  std::filesystem::create_symlink(folder_ / "target", Page());
  EXPECT_EQ(Report({"--force"}).code, 2);
  EXPECT_EQ(Read(folder_ / "target"), "kept");
}

TEST_F(ReportTest, WhatFailsWritesNothing) {
  EXPECT_THAT(RunVerb({"report", kId, "-o", folder_ / "none/report.html"}),
              Fails(6, HasSubstr("none")));
  EXPECT_THAT(RunVerb({"report", kId, kOtherId, "-o", Page()}), Fails(4));
  Fail("Watch", StatusCode::DATA_LOSS, "broken");
  EXPECT_EQ(Report().code, 6);
  data().on_idle = [this] { interrupt_.Raise(); };
  EXPECT_EQ(Report().code, 130);
  EXPECT_FALSE(std::filesystem::exists(Page()));
}

TEST_F(ReportTest, OnlySoManyJobsAreCompared) {
  Args args(21, kId);
  args.insert(args.begin(), "report");
  EXPECT_THAT(RunVerb(args), Fails(2, HasSubstr("at most 20")));
}

TEST_F(ReportTest, HostileTextsStayText) {
  const std::string hostile = "</script><img src=x onerror=alert(1)>";
  data().jobs[0].set_name(hostile);
  (*data().jobs[0].mutable_labels())[hostile] = hostile;
  data().logs[kId] = hostile + "\xff\x1b[31m\n";
  (*AddEvent(kId).mutable_evaluated()->mutable_metrics())[hostile] =
      std::numeric_limits<double>::quiet_NaN();
  ASSERT_EQ(Report().code, 0);
  EXPECT_EQ(Read(Page()).find("<img"), std::string::npos);
  const json run = Document(Page())["runs"][0];
  EXPECT_EQ(run["job"]["name"], hostile);
  EXPECT_EQ(run["events"][4]["evaluated"]["metrics"][hostile], "NaN");
  EXPECT_EQ(run["log"], hostile + "\xEF\xBF\xBD\x1b[31m\n");
}

class KeptEventsTest : public testing::Test {
 protected:
  v1::JobEvent& Next() {
    event_.Clear();
    event_.set_sequence(++sequence_);
    return event_;
  }
  void Step(int64_t step, double loss) {
    v1::Progress& progress = *Next().mutable_progress();
    progress.set_step(step);
    progress.set_loss(loss);
    (*progress.mutable_cpu_fallback_ops())["aten::sort"] = step;
    kept_.Add(event_);
  }
  std::vector<json> Finish() {
    kept_.Finish(ProtoJson, &run_);
    std::vector<json> events;
    for (const std::string& text : run_.events) {
      events.push_back(json::parse(text));
    }
    return events;
  }
  size_t Bytes() const {
    size_t bytes = 0;
    for (const std::string& text : run_.events) bytes += text.size();
    return bytes;
  }

  run_page::KeptEvents<v1::JobEvent> kept_{500};
  run_page::RunData run_;
  v1::JobEvent event_;
  int64_t sequence_ = 0;
};

TEST_F(KeptEventsTest, EverythingOfAShortRunInItsOrder) {
  run_page::RunData none;
  run_page::KeptEvents<v1::JobEvent>(500).Finish(ProtoJson, &none);
  EXPECT_THAT(none.events, IsEmpty());
  Next().mutable_state()->set_state(v1::JOB_STATE_RUNNING);
  kept_.Add(event_);
  Step(1, 2.5);
  Next().mutable_evaluated()->set_step(1);
  kept_.Add(event_);
  Step(2, 2.25);
  const auto events = Finish();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0]["state"]["state"], "JOB_STATE_RUNNING");
  EXPECT_EQ(events[1]["progress"]["loss"], 2.5);
  EXPECT_EQ(events[2]["evaluated"]["step"], "1");
  EXPECT_EQ(events[3]["progress"]["loss"], 2.25);
  EXPECT_EQ(
      run_.left_out.steps + run_.left_out.evaluations + run_.left_out.events,
      0);
  // Only the latest step has the counts of the whole job.
  EXPECT_FALSE(events[1]["progress"].contains("cpu_fallback_ops"));
  EXPECT_TRUE(events[3]["progress"].contains("cpu_fallback_ops"));
}

TEST_F(KeptEventsTest, EvaluationsOfManyMetricsAreBounded) {
  for (int64_t step = 0; step < 20'000; ++step) {
    v1::Evaluated& evaluated = *Next().mutable_evaluated();
    evaluated.set_step(step);
    for (int i = 0; i < 64; ++i) {
      (*evaluated
            .mutable_metrics())[std::string(120, 'm') + std::to_string(i)] = i;
    }
    kept_.Add(event_);
  }
  Finish();
  EXPECT_LT(Bytes(), 10u << 20);
  EXPECT_GT(run_.left_out.evaluations, 0);
}

TEST_F(KeptEventsTest, TheFirstAndTheLatestSamplesStay) {
  for (int64_t step = 0; step < 1000; ++step) {
    v1::Sampled& sampled = *Next().mutable_sampled();
    sampled.set_step(step);
    for (int i = 0; i < 16; ++i) sampled.add_completions(std::string(512, 'x'));
    kept_.Add(event_);
  }
  const auto events = Finish();
  EXPECT_LT(Bytes(), 2u << 20);
  ASSERT_GT(events.size(), 100u);
  EXPECT_FALSE(events[0]["sampled"].contains("step"));  // 0
  EXPECT_EQ(events[1]["sampled"]["step"],
            std::to_string(1001 - static_cast<int64_t>(events.size())));
  EXPECT_EQ(run_.left_out.events, 1000 - static_cast<int64_t>(events.size()));
}

TEST_F(KeptEventsTest, TheLatestOfOtherEventsStay) {
  for (int i = 0; i < 100'000; ++i) {
    Next().set_note("note " + std::to_string(i) + std::string(100, '.'));
    kept_.Add(event_);
  }
  const auto events = Finish();
  EXPECT_LT(Bytes(), 4u << 20);
  EXPECT_THAT(events.back()["note"].get<std::string>(),
              testing::StartsWith("note 99999"));
  EXPECT_EQ(run_.left_out.events,
            100'000 - static_cast<int64_t>(events.size()));
}

TEST(ProtoJsonTest, ATimeWithoutJsonLosesItsMessageAlone) {
  v1::JobEvent event;
  event.mutable_time()->set_seconds(std::numeric_limits<int64_t>::max());
  EXPECT_EQ(json::parse(ProtoJson(event)), json::object());
}

}  // namespace
}  // namespace mpsd::client
