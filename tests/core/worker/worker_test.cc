// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <sstream>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "core/data/row_errors.h"
#include "core/worker/process.h"
#include "core/worker/session.h"
#include "core/worker/verbs.h"
#include "tests/core/job_folder.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::worker {
namespace {

using testing::HasSubstr;

class MergeVerbTest : public testing::Test {
 protected:
  int Run() { return RunMerge(arguments_, out_, err_); }

  const fs::path golden_ =
      fs::path(MPSD_TEST_SOURCE_DIR) / "tests" / "golden" / "mistral";
  const fs::path result_ = FreshFolder("merge_verb") / "merged";
  MergeArguments arguments_{(golden_ / "adapter").string(),
                            (golden_ / "model").string(), result_.string(),
                            /*dtype=*/""};
  std::ostringstream out_, err_;
};

TEST_F(MergeVerbTest, MergesAndSaysWhatItDid) {
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_THAT(out_.str(), HasSubstr("weights merged"));
  EXPECT_THAT(out_.str(), HasSubstr(result_.string()));
  EXPECT_TRUE(fs::exists(result_ / "model.safetensors"));
}

TEST_F(MergeVerbTest, TheModelIsTheOneThatTheAdapterNames) {
  arguments_.model.clear();  // golden adapters name a folder of their making
  EXPECT_EQ(Run(), 2);
  EXPECT_FALSE(fs::exists(result_));
}

// As results of a job that asked for its model by its id name it.
TEST_F(MergeVerbTest, AnIdIsFoundAtItsRevision) {
  const fs::path folder = FreshFolder("merge_verb_id");
  const fs::path repository = folder / "hub" / "models--me--tiny";
  fs::create_directories(repository / "snapshots");
  fs::create_directories(repository / "refs");
  fs::copy(golden_ / "model", repository / "snapshots" / "abc123");
  // Of refs/main the adapter knows nothing.
  fs::copy(golden_.parent_path() / "llama2" / "model",
           repository / "snapshots" / "def456");
  std::ofstream(repository / "refs" / "main") << "def456";
  fs::copy(golden_ / "adapter", folder / "adapter");
  const fs::path path = folder / "adapter" / "adapter_config.json";
  auto config = nlohmann::json::parse(std::ifstream(path));
  config["base_model_name_or_path"] = "me/tiny";
  config["revision"] = "abc123";
  std::ofstream(path) << config.dump();
  setenv("HF_HOME", folder.c_str(), 1);
  arguments_.adapter = (folder / "adapter").string();
  arguments_.model.clear();
  EXPECT_EQ(Run(), 0) << err_.str();
  config["revision"] = "000000";
  std::ofstream(path) << config.dump();
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("config.json of 000000 in "));
  unsetenv("HF_HOME");
}

TEST_F(MergeVerbTest, AGgufFileIsMadeOfTheMergedModel) {
  const fs::path golden = golden_.parent_path() / "smollm";
  const fs::path model = FreshFolder("merge_verb_gguf") / "model";
  fs::copy(golden / "model", model);
  const fs::path path = model / "tokenizer.json";
  auto tokenizer = nlohmann::json::parse(std::ifstream(path));
  arguments_.adapter = (golden / "adapter").string();
  arguments_.model = model.string();
  arguments_.format = "gguf-q8_0";
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr(model.string() + ": llama.cpp cannot run"));
  EXPECT_FALSE(fs::exists(result_));
  tokenizer["pre_tokenizer"]["use_regex"] = true;  // as GPT-2's
  std::ofstream(path) << tokenizer.dump();
  EXPECT_EQ(Run(), 0) << err_.str();
  EXPECT_TRUE(fs::exists(result_ / "model-Q8_0.gguf"));
  EXPECT_EQ(std::distance(fs::directory_iterator(result_), {}), 2);
}

TEST_F(MergeVerbTest, BadArgumentsAreTheUsers) {
  arguments_.dtype = "int3";
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("--dtype"));
  arguments_.dtype.clear();
  arguments_.max_shard_size = "large";
  EXPECT_EQ(Run(), 2);
  EXPECT_THAT(err_.str(), HasSubstr("\"large\" is not a size"));
}

struct Answer {
  int code = -1;
  std::vector<json> lines;
  json plan() const { return lines.empty() ? json() : lines.back()["plan"]; }
  std::string error() const {
    return lines.empty() || !lines.back().contains("error")
               ? ""
               : lines.back()["error"].dump();
  }
};

class PlanVerbTest : public testing::Test {
 protected:
  PlanVerbTest() { SetFacts({{"rates", Rates()}}); }

  static json Rates() {
    return {{"fp32_operations", 1e11},
            {"half_operations", 1e11},
            {"bytes", 1e10},
            {"source", "a test"}};
  }
  void SetFacts(const json& facts) {
    std::ofstream(folder_.path() / "facts.json") << facts.dump();
  }

  // In a process of its own, which the limits on reading end with.
  Answer Run() { return RunOn(folder_.Write()); }
  Answer RunOn(const fs::path& job) {
    const fs::path out = folder_.path() / "out.jsonl";
    const pid_t child = fork();
    if (child == 0) {
      setenv("XDG_CACHE_HOME", (folder_.path() / "cache").c_str(), 1);
      int code = -1;
      {
        std::ofstream lines(out), words(folder_.path() / "err");
        code = RunPlan({job.string(), (folder_.path() / "facts.json").string()},
                       lines, words);
      }
      _exit(code);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Answer answer;
    EXPECT_TRUE(WIFEXITED(status));
    answer.code = WEXITSTATUS(status);
    std::ifstream lines(out);
    for (std::string line; std::getline(lines, line);) {
      answer.lines.push_back(json::parse(line));
    }
    return answer;
  }

  JobFolder folder_{"plan_verb"};
};

TEST_F(PlanVerbTest, ACheckReadsTheDataAlone) {
  SetFacts({{"check", true}});
  EXPECT_EQ(Run().plan(), json({{"warnings", json::array()}}));
  folder_.training()["max_length"] = 4;
  EXPECT_EQ(Run().plan(),
            json({{"warnings",
                   {"training data: 10 of 10 rows cut to max_length 4",
                    "evaluation data: 3 of 3 rows cut to max_length 4"}}}));
}

TEST_F(PlanVerbTest, PrintsStagesAndThePlanAndKeepsTheTokens) {
  const Answer answer = Run();
  ASSERT_EQ(answer.code, 0) << answer.error();
  ASSERT_GT(answer.lines.size(), 2u);
  EXPECT_EQ(answer.lines.front()["stage"], "reading training data");
  const json plan = answer.plan();
  EXPECT_EQ(plan["data"]["train"]["rows"], 10);
  EXPECT_EQ(plan["data"]["eval"]["rows"], 3);
  EXPECT_EQ(plan["steps"]["total_steps"], 8);
  EXPECT_EQ(plan["steps"]["steps_per_epoch"], 5);
  EXPECT_EQ(plan["model"]["gradients"], "explicit step");
  EXPECT_EQ(plan["time"]["source"], "PLAN_SOURCE_ROOFLINE");
  EXPECT_EQ(plan["time"]["rates"], "a test");
  ASSERT_EQ(Run().code, 0);
  const auto kept = fs::recursive_directory_iterator(folder_.path() / "cache" /
                                                     "mpsd" / "tokens");
  EXPECT_NE(kept, fs::recursive_directory_iterator());
  folder_.training()["warmup_ratio"] = 0.25;
  EXPECT_EQ(Run().plan()["steps"]["warmup_steps"], 2);
}

// The device need not be there, and is not opened.
TEST_F(PlanVerbTest, PlansForADeviceThatIsNotHere) {
  folder_.job()["device"] = "mps";
  SetFacts({{"chip", "Apple M2 Max"}, {"gpu_cores", 38}});
  const json plan = Run().plan();
  EXPECT_EQ(plan["model"]["device"], "mps");
  EXPECT_THAT(plan["time"]["rates"].dump(), HasSubstr("Apple M2 Max"));
  folder_.job()["device"] = "auto";
  SetFacts({{"device", "cuda"}, {"chip", "NVIDIA H200"}});
  EXPECT_EQ(Run().plan()["model"]["device"], "cuda");
}

TEST_F(PlanVerbTest, OnTheCpuItMeasuresTheCpu) {
  SetFacts(json::object());
  EXPECT_THAT(Run().plan()["time"]["rates"].dump(), HasSubstr("this CPU"));
}

TEST_F(PlanVerbTest, TextsToClassify) {
  std::ofstream(folder_.path() / "rows.csv")
      << "text,label\ngood,1\nvery bad indeed,0\nfine,1\nawful,0\n";
  folder_.job() = {{"model", Golden("smollm", "model").string()},
                   {"task", "SEQ_CLS"},
                   {"dataset", {{"train", "rows.csv"}}},
                   {"classification", {{"ignore_mismatched_sizes", true}}},
                   {"training", {{"max_length", 32}}},
                   {"device", "cpu"}};
  const Answer answer = Run();
  ASSERT_EQ(answer.code, 0) << answer.error();
  const json plan = answer.plan();
  EXPECT_EQ(plan["data"]["train"]["rows"], 4);
  EXPECT_EQ(plan["data"]["samplings"].size(), 3u);
  EXPECT_EQ(plan["model"]["gradients"], "autograd");
  EXPECT_EQ(plan["model"]["gradients_reason"], "a classifier");
}

TEST_F(PlanVerbTest, AFaultIsAnErrorWithItsCodeAndPlace) {
  std::ofstream(folder_.path() / "train.jsonl") << "{\"text\": 3}\n";
  const Answer answer = Run();
  EXPECT_EQ(answer.code, 1);
  EXPECT_EQ(answer.lines.back()["error"]["code"], "INVALID_ARGUMENT");
  EXPECT_THAT(answer.error(), HasSubstr("train.jsonl"));
  std::ofstream(folder_.path() / "train.jsonl").close();
  EXPECT_THAT(Run().error(), HasSubstr("the file has no rows"));
  fs::remove(folder_.path() / "train.jsonl");
  EXPECT_THAT(Run().error(), HasSubstr("NOT_FOUND"));
  folder_.WriteRows("train.jsonl", 4);
  // A model without a tokenizer.
  const fs::path model = folder_.path() / "model";
  fs::create_directories(model);
  fs::copy(Golden("smollm", "model") / "config.json", model / "config.json");
  folder_.job()["model"] = model.string();
  EXPECT_THAT(Run().error(), HasSubstr("tokenizer"));
  folder_.job()["model"] = "/no/such/model";
  EXPECT_THAT(Run().error(), HasSubstr("/no/such/model"));
  EXPECT_THAT(RunOn(folder_.path() / "none.json").error(),
              HasSubstr("none.json"));
}

// Where the job's weights are is not asked: a plan reads no weights.
TEST_F(PlanVerbTest, NoWeightsAreRead) {
  const fs::path model = folder_.path() / "hollow";
  fs::create_directories(model);
  for (const auto& file : fs::directory_iterator(Golden("smollm", "model"))) {
    if (file.path().extension() == ".safetensors") continue;
    fs::copy(file.path(), model / file.path().filename());
  }
  folder_.job()["model"] = model.string();
  const Answer answer = Run();
  EXPECT_EQ(answer.code, 0) << answer.error();
}

TEST_F(PlanVerbTest, NothingBeyondTheRootsIsReadAndWrongFactsAreNamed) {
  SetFacts({{"read_roots", {"/no/such/root"}}, {"rates", Rates()}});
  const Answer answer = Run();
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.error(), HasSubstr("FAILED_PRECONDITION"));
  SetFacts({{"chip", 3}});
  EXPECT_THAT(Run().error(), HasSubstr("facts.chip"));
  SetFacts({{"device", "abacus"}});
  folder_.job()["device"] = "auto";
  EXPECT_THAT(Run().error(), HasSubstr("facts.device"));
  fs::remove(folder_.path() / "facts.json");
  EXPECT_THAT(Run().error(), HasSubstr("facts.json"));
}

// Each text makes a row or an error, and every line stays JSON of one line.
TEST_F(PlanVerbTest, HostileTexts) {
  const std::string long_word(1 << 20, 'x');
  for (const std::string& text :
       {std::string("\u2028\u0000\u001b[2J", 9), long_word,
        std::string("{\"plan\": 1}\n{\"error\": 2}"),
        std::string(3000, '\n')}) {
    std::ofstream(folder_.path() / "train.jsonl")
        << json{{"text", "two words " + text}}.dump(
               -1, ' ', true, json::error_handler_t::replace)
        << "\n";
    const Answer answer = Run();
    EXPECT_EQ(answer.code, 0) << answer.error();
    EXPECT_LE(answer.plan()["data"]["train"]["longest"], 48);
  }
  std::ofstream(folder_.path() / "train.jsonl")
      << "{\"text\": \"\xff\xfe broken\"}\n";
  EXPECT_EQ(Run().code, 1);
  std::ofstream(folder_.path() / "train.jsonl")
      << std::string(200'000, '[') << "\n";
  EXPECT_EQ(Run().code, 1);
}

constexpr absl::Duration kInterval = absl::Milliseconds(5);
constexpr absl::Duration kLong = absl::Seconds(30);

TEST(PulseTest, BeatsWhileWorkIsDone) {
  std::atomic<int> beats{0};
  Pulse pulse(kInterval, [&] { ++beats; });
  const absl::Time deadline = absl::Now() + kLong;
  while (beats < 3 && absl::Now() < deadline) {
    base::CountWork();
    absl::SleepFor(absl::Milliseconds(1));
  }
  EXPECT_GE(beats, 3);
}

TEST(PulseTest, OneThatStopsHasNone) {
  std::atomic<int> beats{0};
  {
    Pulse pulse(kInterval, [&] { ++beats; });
    absl::SleepFor(40 * kInterval);
  }
  EXPECT_EQ(beats, 0);
}

class ReadLimitsTest : public testing::Test {
 protected:
  ReadLimitsTest() {
    fs::create_directories(job_ / "inputs");
    std::ofstream(folder_ / "secret") << "x";
  }
  // What it sets is the process': lifted for the next test.
  ~ReadLimitsTest() override {
    base::LimitReads(base::ReadRoots({"/"}));
    data::ShowContents(true);
  }

  bool ShownWith(const fs::path& train, const fs::path& eval) {
    std::ofstream(job_ / "job.json")
        << R"({"model": "m", "dataset": {"train": [")" << train.string()
        << R"("], "eval": [")" << eval.string() << R"("]}})";
    LimitToStart({"J", job_ / "job.json", job_ / "out"});
    return data::ContentsShown();
  }

  const fs::path folder_ = FreshFolder("read_limits");
  const fs::path job_ = folder_ / "job";
};

TEST_F(ReadLimitsTest, ContentsOfUploadsAloneAreShown) {
  const fs::path upload = job_ / "inputs/t.jsonl";
  EXPECT_TRUE(ShownWith(upload, job_ / "inputs/up/e.jsonl"));
  EXPECT_FALSE(ShownWith(folder_ / "secret", upload));
  EXPECT_FALSE(ShownWith(upload, folder_ / "secret"));
  EXPECT_FALSE(ShownWith(upload, job_ / "inputs/../../secret"));
  EXPECT_FALSE(ShownWith(upload, job_ / "inputs.csv"));
}

// An upload may be a link to its blob.
TEST_F(ReadLimitsTest, OfAClosedFolderOnlyTheJobsOwnFilesAreOpened) {
  std::ofstream(folder_ / "blob") << "row";
  fs::create_symlink(folder_ / "blob", job_ / "inputs/t.jsonl");
  std::ofstream(job_ / "job.json") << "{}";
  const fs::path link = FreshFolder("read_links") / "secret";
  fs::create_symlink(folder_ / "secret", link);
  wire::Start start{"J", job_ / "job.json", job_ / "out", {"/", job_}};
  start.closed_roots = {folder_.string()};
  LimitToStart(start);
  EXPECT_TRUE(base::ReadFile(job_ / "job.json").ok());
  EXPECT_TRUE(base::ReadFile(job_ / "inputs/t.jsonl").ok());
  EXPECT_FALSE(base::ReadFile(folder_ / "secret").ok());
  EXPECT_FALSE(base::ReadFile(link).ok());
}

// A job that may read any file reads files alone: this test would hang.
TEST_F(ReadLimitsTest, WhatIsNoFileIsNotRead) {
  ASSERT_EQ(mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  fs::create_symlink("/dev/zero", folder_ / "zero");
  LimitToStart({"J", job_ / "job.json", job_ / "out"});
  for (const fs::path& path :
       {folder_ / "pipe", folder_ / "zero", fs::path("/dev/zero"),
        fs::path("/dev/fd/0"), folder_}) {
    EXPECT_FALSE(base::ReadFile(path).ok()) << path;
    EXPECT_FALSE(base::MappedFile::Open(path).ok()) << path;
  }
}

constexpr absl::Duration kOften = absl::Milliseconds(5);

class ReaderWatchTest : public testing::Test {
 protected:
  ReaderWatchTest() { EXPECT_EQ(pipe(ends_), 0); }
  ~ReaderWatchTest() override {
    close(ends_[1]);
    if (ends_[0] >= 0) close(ends_[0]);
  }
  void CloseReader() {
    close(ends_[0]);
    ends_[0] = -1;
  }

  int ends_[2];
  absl::Notification gone_;
};

TEST_F(ReaderWatchTest, ReportsOnceThatTheReaderIsGone) {
  std::atomic<int> calls = 0;
  {
    const ReaderWatch watch(ends_[1], kOften, [&] {
      ++calls;
      gone_.Notify();
    });
    CloseReader();
    EXPECT_TRUE(gone_.WaitForNotificationWithTimeout(absl::Seconds(30)));
    absl::SleepFor(10 * kOften);
  }
  EXPECT_EQ(calls, 1);
}

// A full pipe whose reader is slow has a reader.
TEST_F(ReaderWatchTest, AReaderThatIsThereMayBeSlow) {
  ASSERT_EQ(fcntl(ends_[1], F_SETFL, O_NONBLOCK), 0);
  while (write(ends_[1], "line\n", 5) > 0) {
  }
  const ReaderWatch watch(ends_[1], kOften, [&] { gone_.Notify(); });
  EXPECT_FALSE(gone_.WaitForNotificationWithTimeout(20 * kOften));
}

report::Progress Step(int64_t step) {
  report::Progress report;
  report.step = step;
  report.total_steps = 7;
  report.loss = 1.25;
  report.tokens = 100;
  report.seconds = 0.5;
  return report;
}

TEST(TerminalObserverTest, PrintsEveryNthStepAndTheLast) {
  std::ostringstream out;
  const std::atomic<bool> stop{false};
  TerminalObserver observer(out, stop, 3);
  for (int64_t i = 1; i <= 7; ++i) observer.OnStep(Step(i));
  const std::string text = out.str();
  for (const char* line : {"step 3/7", "step 6/7", "step 7/7"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, testing::Not(HasSubstr("step 2/7")));
  EXPECT_THAT(text, HasSubstr("loss 1.2500"));
  EXPECT_THAT(text, HasSubstr("200 tok/s"));
}

TEST(TerminalObserverTest, SaysThingsOnceAndStopsByItsFlag) {
  std::ostringstream out;
  std::atomic<bool> stop{false};
  TerminalObserver observer(out, stop, 1);
  for (double f : {0.1, 0.5, 0.9}) observer.OnStage("loading model", f);
  for (int i = 0; i < 2; ++i) observer.OnWarning("memory grows");
  EXPECT_EQ(out.str(), "loading model\nwarning: memory grows\n");
  EXPECT_EQ(observer.stop_request(), train::StopRequest::kNone);
  stop = true;
  EXPECT_EQ(observer.stop_request(), train::StopRequest::kPreempt);
}

TEST(RunAloneTest, ExitCodesNameTheBlamedParty) {
  const JobFolder folder("run_alone");
  std::ostringstream out, err;
  EXPECT_EQ(RunAlone(folder.Write().string(), (folder.path() / "out").string(),
                     out, err),
            0);
  EXPECT_THAT(out.str(), HasSubstr("done: 8 steps"));
  EXPECT_THAT(out.str(), HasSubstr("adapter: "));
  EXPECT_EQ(err.str(), "");
  std::ofstream(folder.path() / "train.jsonl") << "{}\n";
  EXPECT_EQ(RunAlone((folder.path() / "job.json").string(),
                     (folder.path() / "out2").string(), out, err),
            2);
  EXPECT_THAT(err.str(), HasSubstr("train.jsonl:1"));
}

}  // namespace
}  // namespace mpsd::worker
