// SPDX-License-Identifier: Apache-2.0
#include "server/planner/plan_maker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/file.h"
#include "server/jobs/job_files.h"
#include "tests/server/planner/planner_fixture.h"

namespace mpsd::planner {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class PlanLinesTest : public testing::Test {
 protected:
  void ExpectBroken(const std::string& bytes, const std::string& why) {
    PlanLines lines([](const std::string&) {});
    EXPECT_EQ(lines.Take(bytes).code(), absl::StatusCode::kInternal) << bytes;
    EXPECT_THAT(std::string(lines.Result().status().message()), HasSubstr(why));
    EXPECT_EQ(lines.Take("{\"plan\": {}}\n").code(),
              absl::StatusCode::kInternal)
        << "broken is broken";
  }

  std::vector<std::string> stages_;
  PlanLines lines_{
      [this](std::string stage) { stages_.push_back(std::move(stage)); }};
};

TEST_F(PlanLinesTest, BelievesNothingElse) {
  for (const std::string& bytes :
       {std::string("\xff\xfe\n"), std::string("[]\n"), std::string("\n"),
        std::string(100'000, '[') + "\n"}) {
    ExpectBroken(bytes, "not print a JSON object");
  }
  ExpectBroken("{}\n", "neither a stage nor a plan");
  ExpectBroken("{\"plan\": 7}\n", "neither a stage nor a plan");
  ExpectBroken("{\"stage\": 7}\n", "neither a stage nor a plan");
  ExpectBroken("{\"plan\": {}}\n{\"plan\": {}}\n", "continued after its plan");
  PlanLines lines([](const std::string&) {});
  EXPECT_TRUE(lines.Take("{\"error\": {\"code\": 7}}\n").ok());
  EXPECT_EQ(lines.Result().status().code(), absl::StatusCode::kInternal);
}

TEST_F(PlanLinesTest, ALineAndAnOutputHaveAnEnd) {
  const std::string part(1 << 20, 'x');
  size_t sent = 0;
  while (lines_.Take(part).ok()) sent += part.size();
  EXPECT_EQ(sent, kLineBytes);
  EXPECT_THAT(std::string(lines_.Result().status().message()),
              HasSubstr("printed a line of more than"));

  PlanLines many([](const std::string&) {});
  const std::string line =
      "{\"stage\": \"" + std::string((1 << 20) - 14, 'x') + "\"}\n";
  for (sent = 0; many.Take(line).ok();) sent += line.size();
  EXPECT_LE(sent, kOutputBytes);
  EXPECT_GT(sent, kOutputBytes / 2);
}

TEST_F(PlanLinesTest, WithoutALastLineThereIsNoPlan) {
  ASSERT_TRUE(lines_.Take("{\"stage\": \"a\"}\n{\"plan\": {}}").ok());
  EXPECT_FALSE(lines_.done());
  EXPECT_THAT(std::string(lines_.Result().status().message()),
              HasSubstr("ended without a plan"));
}

TEST(PlanRun, ASlowWatcherMissesStagesAndNotThePlan) {
  PlanRun run("id", "ada", [] {});
  run.Start([](PlanRun& own) -> absl::StatusOr<FinishedPlan> {
    for (int i = 0; i < 100'000; ++i) own.TellStage(std::to_string(i));
    return FinishedPlan{"{}", {}};
  });
  run.Join();
  int stages = 0;
  for (; !(*run.Next())->plan.has_value(); ++stages) {
  }
  EXPECT_LE(stages, 32);
  EXPECT_GT(stages, 0);
}

// One blob, that of the fixture.
class OneBlob final : public jobs::Blobs {
 public:
  explicit OneBlob(std::string path) : path_(std::move(path)) {}
  bool Has(const std::string& sha256) override {
    return sha256 == std::string(64, 'a');
  }
  std::string PathOf(const std::string&) const override { return path_; }

 private:
  const std::string path_;
};

class PlanMakerTest : public PlannerFixture {
 protected:
  PlanMakerTest() {
    options_.worker_path = std::string(MPSD_TEST_BINARY_DIR) + "/fake_worker";
    options_.plans_dir = state_ / "plans";
    options_.machine_bytes = int64_t{8} << 30;
  }
  void Make() {
    maker_ = std::make_unique<PlanMaker>(
        options_,
        PlanMaker::Dependencies{board_, files_, blobs_, base::Clock::Real()});
  }
  PlanRequest Request(const std::string& mode, const std::string& user = "ada",
                      const std::string& more = "") {
    PlanRequest request;
    request.submission.spec_json = Spec("fake:" + mode, more);
    request.submission.inputs = {{"train.jsonl", std::string(64, 'a')}};
    request.submission.owner = user;
    return request;
  }
  // The plan, or why there is no plan.
  absl::StatusOr<FinishedPlan> Plan(const PlanRequest& request) {
    if (!maker_) Make();
    return Await(maker_->Plan(request, [] {}));
  }
  absl::StatusOr<FinishedPlan> Await(
      absl::StatusOr<std::unique_ptr<PlanWatch>> watch) {
    if (!watch.ok()) return watch.status();
    while (true) {
      auto news = (*watch)->Next();
      if (!news.ok()) return news.status();
      if (!*news) {
        absl::SleepFor(absl::Milliseconds(5));
      } else if ((*news)->plan) {
        return *(*news)->plan;
      } else {
        stages_.push_back((*news)->stage);
      }
    }
  }
  // What the fake worker reports of itself under `name`.
  static std::string Found(const FinishedPlan& plan, const std::string& name) {
    const json parsed = json::parse(plan.json);
    for (const json& finding : parsed["findings"]) {
      if (finding["name"] == name) return finding["found"];
    }
    return "";
  }
  // Waits until no plan has a folder.
  void ExpectNoFolders() {
    for (int i = 0; i < 12000 && Folders() > 0; ++i) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    EXPECT_EQ(Folders(), 0);
  }
  int Folders() const {
    std::error_code error;
    return static_cast<int>(
        std::distance(fs::directory_iterator(options_.plans_dir, error), {}));
  }
  void AwaitFolder() {
    for (int i = 0; i < 12000 && Folders() == 0; ++i) {
      absl::SleepFor(absl::Milliseconds(5));
    }
    ASSERT_GT(Folders(), 0);
  }

  PlanMaker::Options options_;
  OneBlob blobs_{blob()};
  std::unique_ptr<PlanMaker> maker_;
  std::vector<std::string> stages_;
};

TEST_F(PlanMakerTest, MakesAPlanInAFolderOfItsOwn) {
  options_.read_roots = {"/models"};
  options_.closed_roots = {"/state"};
  options_.chip = "Apple M9";
  options_.cpu_cores = 3;
  PlanRequest request = Request("ok");
  request.thresholds = {{"memory.share", 0.5}};
  const absl::StatusOr<FinishedPlan> plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(stages_, testing::ElementsAre("checking the job",
                                            "placing its files", "tokenizing"));
  EXPECT_EQ(Found(*plan, "fake.inputs"), "1");
  const std::string job = Found(*plan, "fake.job");
  EXPECT_THAT(job, HasSubstr(options_.plans_dir.string()));
  const fs::path own =
      options_.plans_dir /
      *fs::path(job).lexically_relative(options_.plans_dir).begin();
  EXPECT_EQ(Found(*plan, "fake.tmpdir"), (own / "tmp").string());
  const json facts = json::parse(Found(*plan, "fake.facts"));
  EXPECT_EQ(facts["memory_bytes"], int64_t{8} << 30);
  EXPECT_EQ(facts["memory_limit_bytes"], int64_t{8} << 30);
  EXPECT_EQ(facts["chip"], "Apple M9");
  EXPECT_EQ(facts["cpu_cores"], 3);
  EXPECT_EQ(facts["thresholds"]["memory.share"], 0.5);
  EXPECT_GT(facts["disk_free_bytes"], 0);
  EXPECT_EQ(facts["read_roots"], json({"/models", own.string()}));
  EXPECT_EQ(facts["closed_roots"], json::array({"/state"}));
  EXPECT_FALSE(facts.contains("device")) << "no worker has reported yet";
  EXPECT_FALSE(facts.contains("pace"));
  EXPECT_FALSE(facts.contains("probe"));
  EXPECT_EQ(plan->queue.jobs_ahead, 0);
  ExpectNoFolders();
  EXPECT_THAT(*store_.Ids(), IsEmpty()) << "a plan is no job";
  EXPECT_TRUE(fs::is_empty(state_ / "jobs"));
}

TEST_F(PlanMakerTest, AJobThatDoesNotFitIsPlannedToo) {
  options_.machine_bytes = 1;
  const absl::StatusOr<FinishedPlan> plan = Plan(Request("ok"));
  ASSERT_TRUE(plan.ok()) << plan.status();
}

TEST_F(PlanMakerTest, KnowsTheDeviceAndThePaceOnIt) {
  options_.chip = "Apple M9";
  board_.view().Change([](jobs::QueueInfo& info) {
    info.device = "mps";
    info.memory.recommended_max_bytes = 5 << 20;
  });
  jobs::Job past = Job("A", jobs::State::kSucceeded);
  past.progress.emplace();
  past.progress->device = "mps";
  past.progress->seconds = 2;
  past.progress->tokens_per_second = 50;
  Put(past);
  json facts = json::parse(Found(*Plan(Request("ok")), "fake.facts"));
  EXPECT_EQ(facts["device"], "mps");
  EXPECT_EQ(facts["memory_limit_bytes"], 5 << 20);
  EXPECT_EQ(facts["pace"]["runs"], 1);
  EXPECT_EQ(facts["pace"]["tokens_per_second"], 50);
  // The job says where it trains.
  facts = json::parse(
      Found(*Plan(Request("ok", "ada", R"(, "device": "cpu")")), "fake.facts"));
  EXPECT_EQ(facts["device"], "cpu");
  EXPECT_EQ(facts["chip"], "Apple M9");
  EXPECT_FALSE(facts.contains("pace"));
  facts = json::parse(Found(
      *Plan(Request("ok", "ada", R"(, "device": "cuda")")), "fake.facts"));
  EXPECT_FALSE(facts.contains("chip")) << "the GPU is another one";
}

TEST_F(PlanMakerTest, ChecksTheRequestAsSubmitDoes) {
  PlanRequest request = Request("ok");
  request.submission.inputs[0].sha256 = std::string(64, 'b');
  EXPECT_TRUE(absl::IsFailedPrecondition(Plan(request).status()));
  request = Request("ok");
  request.submission.may_use_blob = [](const std::string&) { return false; };
  EXPECT_TRUE(absl::IsFailedPrecondition(Plan(request).status()));
  request = Request("ok", "ada", R"(, "trainning": {})");
  EXPECT_TRUE(absl::IsInvalidArgument(Plan(request).status()));
  request = Request("ok");
  request.submission.inputs.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(Plan(request).status()));
  request = Request(
      "ok", "ada",
      R"(, "adapter": ")" + (state_ / "jobs" / "OTHER").string() + R"(")");
  request.submission.may_read_job = [](const std::string&) { return false; };
  EXPECT_TRUE(absl::IsPermissionDenied(Plan(request).status()));
  EXPECT_EQ(Folders(), 0) << "nothing is placed before the check";
}

TEST_F(PlanMakerTest, AResultToBeCannotBeRead) {
  jobs::Job before = Job("01M83D7QP0P8ZPHF2TPZMEST88", jobs::State::kQueued);
  Put(before);
  const absl::Status status =
      Plan(Request("ok", "ada", R"(, "adapter": "job:)" + before.id + R"(")"))
          .status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("has no result yet: plan once it has SUCCEEDED"));
}

TEST_F(PlanMakerTest, NamesFilesAsJobJsonDoes) {
  const absl::Status status = Plan(Request("rejected")).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr("plans")));
  EXPECT_THAT(std::string(status.message()), HasSubstr("e2.csv:2: no label"));
}

TEST_F(PlanMakerTest, ChecksTheDataOfAQueuedJobInItsOwnFolder) {
  const struct {
    const char *mode, *fault, *warning;
    absl::StatusCode code = absl::StatusCode::kOk;
  } cases[] = {{"ok", "", ""},
               {"lost-data", "", "45 of 60 rows dropped"},
               {"bad-data", "../e2.csv:2: no label; org/tiny", ""},
               {"crash-data", "", "", absl::StatusCode::kInternal},
               {"slow-data", "", "", absl::StatusCode::kDeadlineExceeded}};
  jobs::JobIdGenerator ids(base::Clock::Real(), [] { return uint64_t{7}; });
  for (const auto& c : cases) {
    options_.limit = absl::Seconds(c.mode == std::string("slow-data") ? 1 : 60);
    Make();
    jobs::Job job = Job(ids.Next(), jobs::State::kQueued);
    job.model = "org/tiny";
    job.spec_json = Spec(std::string("fake:") + c.mode);
    Put(job);
    ASSERT_TRUE(files_
                    .Create(job.id, job.spec_json, "{}",
                            {{"up/e2.csv", blob(), "../e2.csv"}}, {})
                    .ok());
    const auto check = maker_->Check(job.id, [] { return absl::OkStatus(); });
    EXPECT_EQ(check.status().code(), c.code) << check.status();
    if (!check.ok()) continue;
    EXPECT_EQ(check->fault, c.fault);
    EXPECT_EQ(absl::StrJoin(check->warnings, ""), c.warning);
  }
  EXPECT_EQ(Folders(), 0);
}

TEST_F(PlanMakerTest, AProcessThatGoesWrongIsAnErrorInWordsAndLeavesNothing) {
  const std::pair<const char*, const char*> modes[] = {
      {"garbage", "is no JSON"},
      {"endless", "a line of more than"},
      {"talk-after-done", "continued after its plan"},
      {"crash-abort", "crashed with signal 6; it printed: MPSGraph"},
      {"exit-1", "ended without a plan, exit status 1"},
      {"stderr-flood", "last words"},
      {"hostile", ""}};
  for (const auto& [mode, words] : modes) {
    SCOPED_TRACE(mode);
    const absl::Status status = Plan(Request(mode)).status();
    const std::string message(status.message());
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
    EXPECT_THAT(message, HasSubstr(words));
    EXPECT_THAT(message, Not(HasSubstr("\x1b")));
    // The last words alone.
    EXPECT_LT(message.size(), mode == std::string("hostile")
                                  ? 2 * limits::kMessageBytes
                                  : 6000);
    ExpectNoFolders();
  }
  for (const std::string& stage : stages_) {
    EXPECT_THAT(stage, Not(HasSubstr("\x1b")));
  }
  EXPECT_TRUE(Plan(Request("linger")).ok()) << "it has reported its plan";
  options_.limit = absl::Milliseconds(300);
  Make();
  for (const char* mode : {"hang", "deaf"}) {
    const absl::Status status = Plan(Request(mode)).status();
    EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("longer than 300ms"));
    ExpectNoFolders();
  }
  options_.worker_path = folder_ / "no-worker";
  Make();
  EXPECT_THAT(std::string(Plan(Request("ok")).status().message()),
              HasSubstr("no-worker"));
}

TEST_F(PlanMakerTest, AProbeHasToBeOfTheSameJob) {
  jobs::Job probe = Job("01M83D7QP0P8ZPHF2TPZMEST88", jobs::State::kSucceeded);
  Put(probe);
  jobs::SubmitRequest probed = Request("probe").submission;
  ASSERT_TRUE(
      files_.Create(probe.id, "{}", jobs::RequestFile::Encode(probed), {}, {})
          .ok());
  PlanRequest request = Request("ok");
  request.probe_id = probe.id;
  request.probe_json = R"({"device": "mps"})";
  const absl::StatusOr<FinishedPlan> plan = Plan(request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(json::parse(Found(*plan, "fake.facts"))["probe"]["device"], "mps");
  request = Request("ok", "ada", R"(, "training": {"max_length": 9})");
  request.probe_id = probe.id;
  request.probe_json = "{}";
  const absl::Status other = Plan(request).status();
  EXPECT_TRUE(absl::IsInvalidArgument(other)) << other;
  EXPECT_THAT(std::string(other.message()),
              HasSubstr("training.max_length was 1024 and is 9"));
}

TEST_F(PlanMakerTest, AUserHasOnePlanAtATimeAndAllHaveTwo) {
  Make();
  auto ada = maker_->Plan(Request("hang", "ada"), [] {});
  ASSERT_TRUE(ada.ok());
  const absl::Status again = Plan(Request("ok", "ada")).status();
  EXPECT_TRUE(absl::IsUnavailable(again));
  EXPECT_THAT(std::string(again.message()),
              HasSubstr("a plan or merge of ada"));
  auto bob = maker_->Plan(Request("hang", "bob"), [] {});
  ASSERT_TRUE(bob.ok());
  const absl::Status third = Plan(Request("ok", "eve")).status();
  EXPECT_TRUE(absl::IsUnavailable(third));
  EXPECT_THAT(std::string(third.message()),
              HasSubstr("makes 2 plans or merges at a time"));
  // A caller that gives a plan up makes room.
  ada->reset();
  absl::StatusOr<FinishedPlan> plan = third;
  for (int i = 0; i < 6000 && absl::IsUnavailable(plan.status()); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
    plan = Plan(Request("ok", "eve"));
  }
  EXPECT_TRUE(plan.ok()) << plan.status();
}

// With a shell script for mpsd-worker: $3 is the adapter, $5 the model, $7 the
// output, $9 the facts.
class MergeTest : public PlanMakerTest {
 protected:
  MergeTest() {
    job_.model = "org/tiny";
    job_.output_path = files_.Folder(job_.id) + "/out/adapter";
    options_.worker_path = folder_ / "worker";
    options_.merges_dir = state_ / "merges";
    options_.closed_roots = {state_};
  }
  absl::StatusOr<FinishedPlan> Merge(const std::string& script,
                                     const std::string& format = "merged") {
    std::ofstream(options_.worker_path) << "#!/bin/sh\n" << script;
    fs::permissions(options_.worker_path, fs::perms::owner_all);
    maker_.reset();
    Make();
    return Await(maker_->Merge(job_, format, "ada", [] {}));
  }
  void ExpectNone(absl::StatusCode code, const std::string& why,
                  const std::string& script = "") {
    const absl::Status status = Merge(script).status();
    EXPECT_EQ(status.code(), code);
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr(why), Not(HasSubstr("\\n"))));
    EXPECT_TRUE(!fs::exists(options_.merges_dir) ||
                fs::is_empty(options_.merges_dir));
  }

  jobs::Job job_ = Job("01KAH0000000000000000000AA", jobs::State::kSucceeded);
};

TEST_F(MergeTest, TheModelStaysAsLongAsItIsWanted) {
  auto made = Merge(
      "/bin/mkdir \"$7\" && echo \"$3 $5\" >\"$7/args\" && "
      "/bin/cat \"$9\" >\"$7/facts\"");
  ASSERT_TRUE(made.ok()) << made.status();
  const fs::path model_folder = made->merged->path() / "model";
  EXPECT_EQ(*base::ReadFile(model_folder / "args"),
            job_.output_path + " " + model().string() + "\n");
  EXPECT_THAT(*base::ReadFile(model_folder / "facts"),
              testing::AllOf(HasSubstr(files_.Folder(job_.id) + "\""),
                             HasSubstr("closed_roots")));
  maker_->Sweep();
  EXPECT_TRUE(fs::exists(model_folder));
  // A slow reader holds one model, not more.
  EXPECT_TRUE(absl::IsUnavailable(
      maker_->Merge(job_, "merged", "ada", [] {}).status()));
  made->merged.reset();
  EXPECT_TRUE(fs::is_empty(options_.merges_dir));
}

TEST_F(MergeTest, AModelThatAJobMadeNeedsNoMerge) {
  job_.output_kind = jobs::OutputKind::kModel;
  const auto made =
      Merge("/bin/mkdir \"$5\" && echo \"$3\" >\"$5/args\"", "gguf-f16");
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(*base::ReadFile(made->merged->path() / "model" / "args"),
            job_.output_path + "\n");
}

TEST_F(MergeTest, AnErrorNamesWhatTheUserKnows) {
  constexpr auto kPrecondition = absl::StatusCode::kFailedPrecondition;
  ExpectNone(kPrecondition,
             "the adapter cannot be merged: org/tiny: no weight for the "
             "adapter of job " +
                 job_.id,
             "echo reading; echo \"mpsd-worker: $5: no weight for $3\" >&2\n"
             "exit 2");
  ExpectNone(kPrecondition, "died of signal 9", "kill -9 $$");
  options_.min_free_bytes = std::numeric_limits<int64_t>::max();
  ExpectNone(absl::StatusCode::kResourceExhausted, "--min-free-bytes",
             "exec /bin/sleep 60");
  fs::remove_all(model());
  ExpectNone(kPrecondition, "the model org/tiny that job " + job_.id);
  job_.output_kind = jobs::OutputKind::kModel;
  ExpectNone(kPrecondition, "made no adapter");
}

TEST_F(PlanMakerTest, AnAbandonedPlanLeavesNoProcessAndNoFolder) {
  Make();
  auto watch = maker_->Plan(Request("deaf"), [] {});
  ASSERT_TRUE(watch.ok());
  AwaitFolder();
  watch->reset();
  ExpectNoFolders();
}

TEST_F(PlanMakerTest, EndsWithItsPlans) {
  Make();
  auto watch = maker_->Plan(Request("deaf"), [] {});
  ASSERT_TRUE(watch.ok());
  AwaitFolder();
  maker_.reset();
  EXPECT_EQ(Folders(), 0);
  while ((*watch)->Next().ok()) {
  }
  EXPECT_TRUE(absl::IsCancelled((*watch)->Next().status()));
}

TEST_F(PlanMakerTest, RemovesWhatAKilledDaemonLeft) {
  fs::create_directories(options_.plans_dir / "01OLD" / "jobs");
  fs::create_symlink(state_ / "jobs", options_.plans_dir / "link");
  std::ofstream(state_ / "jobs" / "kept") << "kept";
  Make();
  EXPECT_EQ(Folders(), 0);
  EXPECT_TRUE(fs::exists(state_ / "jobs" / "kept")) << "no link is followed";
}

TEST_F(PlanMakerTest, ASweepLeavesPlansUnderWayAlone) {
  Make();
  auto watch = maker_->Plan(Request("hang"), [] {});
  ASSERT_TRUE(watch.ok());
  AwaitFolder();
  // Only its user may enter.
  EXPECT_EQ(fs::status(options_.plans_dir).permissions(), fs::perms::owner_all);
  fs::create_directories(options_.plans_dir / "01OLD" / "jobs");
  maker_->Sweep();
  EXPECT_FALSE(fs::exists(options_.plans_dir / "01OLD"));
  EXPECT_EQ(Folders(), 1);
}

}  // namespace
}  // namespace mpsd::planner
