// SPDX-License-Identifier: Apache-2.0
// Records of jobs: what an attempt was seen to do, and what is kept of it.
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/jobs/job_files.h"
#include "server/rpc/records.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/fake_exported_metrics.h"
#include "tests/server/rpc/api.h"

namespace mpsd::records {
namespace {

namespace fs = std::filesystem;
using jobs::ExitReason;
using jobs::PauseReason;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing_support::Fails;
using testing_support::InProcessDaemon;
using testing_support::IsOk;
using testing_support::Ok;

class RunWatchTest : public testing::Test {
 protected:
  RunWatchTest() {
    RunWatch::Options options;
    options.torch_version = "2.6";
    options.version = "0.1.0";
    watch_ = std::make_unique<RunWatch>(std::move(options), next_, clock_);
  }
  void Start(const std::string& id = "A") {
    jobs::StartedJob job;
    job.id = id;
    job.queue_wait = absl::Seconds(4);
    watch_->JobStarted(job);
  }
  void Step(double seconds) {
    clock_.Advance(absl::Seconds(seconds));
    jobs::Progress progress;
    progress.step = ++step_;
    progress.total_steps = 100;
    progress.seconds = seconds;
    progress.device = "mps";
    watch_->StepFinished("A", progress);
  }
  v1::RunAttempt Take() {
    const std::vector<SeenAttempt> rows = watch_->TakeChanged(true);
    EXPECT_THAT(rows, SizeIs(1));
    v1::RunAttempt attempt;
    if (!rows.empty()) {
      EXPECT_EQ(rows[0].job_id, "A");
      attempt = rows[0].sum;
    }
    return attempt;
  }

  fakes::FakeClock clock_;
  fakes::FakeExportedMetrics next_;
  int step_ = 0;
  std::unique_ptr<RunWatch> watch_;
};

TEST_F(RunWatchTest, ReportsTheTimeOfEachPhase) {
  Start();
  watch_->StageBegan("loading model");
  clock_.Advance(absl::Seconds(8));
  Step(5);
  for (int i = 0; i < 20; ++i) Step(i == 7 ? 60 : 1);
  clock_.Advance(absl::Seconds(3));
  jobs::Evaluated evaluated;
  evaluated.seconds = 3;
  watch_->Evaluated("A", "mps", evaluated);
  clock_.Advance(absl::Seconds(2));
  watch_->CheckpointWritten("A", "mps", 2);
  watch_->WorkerExited(ExitReason::kDone);
  const v1::RunAttempt attempt = Take();
  EXPECT_EQ(attempt.exit_reason(), "Done");
  EXPECT_EQ(attempt.device(), "mps");
  EXPECT_EQ(attempt.torch_version(), "2.6");
  EXPECT_EQ(attempt.daemon_version(), "0.1.0");
  EXPECT_EQ(attempt.steps(), 21);
  const v1::RunDurations& took = attempt.durations();
  EXPECT_DOUBLE_EQ(took.queue_seconds(), 4);
  EXPECT_DOUBLE_EQ(took.load_seconds(), 8);
  EXPECT_DOUBLE_EQ(took.first_step_seconds(), 5);
  EXPECT_DOUBLE_EQ(took.steady_step_seconds(), 1);  // the slow one is no rule
  EXPECT_DOUBLE_EQ(took.train_seconds(), 5 + 19 + 60);
  EXPECT_DOUBLE_EQ(took.evaluation_seconds(), 3);
  EXPECT_DOUBLE_EQ(took.save_seconds(), 2);
  EXPECT_EQ(attempt.end_time().seconds() - attempt.start_time().seconds(),
            8 + 5 + 19 + 60 + 3 + 2);
}

TEST_F(RunWatchTest, SeesTheMachine) {
  host::Reading reading;
  reading.power_source = host::PowerSource::kMains;
  reading.thermal = host::Thermal::kNominal;
  watch_->HostRead(reading);  // nothing runs
  Start();
  reading.memory_pressure = host::MemoryPressure::kNormal;
  reading.battery_ratio = 0.9;
  reading.low_power_mode = false;
  reading.swap_used_bytes = 10;
  reading.gpu_utilization_ratio = 0.5;
  reading.gpu_resets = 7;
  reading.user_idle_seconds = 5;
  watch_->HostRead(reading);
  clock_.Advance(absl::Seconds(5));
  reading.power_source = host::PowerSource::kBattery;
  reading.thermal = host::Thermal::kHeavy;
  reading.battery_ratio = 0.4;
  reading.low_power_mode = true;
  reading.swap_used_bytes = 90;
  reading.gpu_utilization_ratio = 1.0;
  reading.gpu_resets = 8;
  watch_->HostRead(reading);
  clock_.Advance(absl::Hours(9));  // the machine slept
  reading.low_power_mode = false;
  reading.swap_used_bytes = 20;
  watch_->HostRead(reading);
  clock_.Advance(absl::Seconds(5));
  reading.user_idle_seconds = 500;
  watch_->HostRead(reading);
  const v1::RunAttempt attempt = Take();
  const v1::RunConditions& seen = attempt.conditions();
  EXPECT_EQ(seen.readings(), 4);
  EXPECT_THAT(seen.power_sources(), ElementsAre("mains", "battery"));
  EXPECT_THAT(seen.thermal_levels(), ElementsAre("nominal", "heavy"));
  EXPECT_THAT(seen.memory_pressures(), ElementsAre("normal"));
  EXPECT_DOUBLE_EQ(seen.least_battery_ratio(), 0.4);
  EXPECT_TRUE(seen.low_power_mode());
  EXPECT_EQ(seen.first_swap_bytes(), 10);
  EXPECT_EQ(seen.most_swap_bytes(), 90);
  EXPECT_DOUBLE_EQ(seen.user_active_seconds(), 65);
  EXPECT_DOUBLE_EQ(seen.gpu_utilization_ratio(), 0.875);
  EXPECT_EQ(seen.gpu_resets(), 1);
  EXPECT_THAT(next_.readings, SizeIs(5));
}

TEST_F(RunWatchTest, CountsPausesByReason) {
  Start();
  Step(1);
  watch_->Paused({PauseReason::kBattery});
  watch_->WorkerHalts(true);
  clock_.Advance(absl::Seconds(10));
  watch_->Paused({PauseReason::kBattery, PauseReason::kThermal});
  clock_.Advance(absl::Seconds(20));
  watch_->Paused({});
  clock_.Advance(absl::Seconds(1));
  watch_->WorkerHalts(false);
  clock_.Advance(absl::Seconds(100));
  watch_->Paused({PauseReason::kUserActive});
  watch_->WorkerHalts(true);
  clock_.Advance(absl::Seconds(5));
  watch_->WorkerExited(ExitReason::kPreempted);
  const v1::RunAttempt attempt = Take();
  const v1::RunPauses& pauses = attempt.pauses();
  EXPECT_EQ(pauses.count(), 2);
  EXPECT_DOUBLE_EQ(pauses.seconds(), 36);
  EXPECT_DOUBLE_EQ(pauses.seconds_by_reason().at("battery"), 31);
  EXPECT_DOUBLE_EQ(pauses.seconds_by_reason().at("thermal"), 21);
  EXPECT_DOUBLE_EQ(pauses.seconds_by_reason().at("user_active"), 5);
}

TEST_F(RunWatchTest, AnActiveRunIsReportedFromTimeToTime) {
  Start();
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
  Step(1);
  EXPECT_THAT(watch_->TakeChanged(), IsEmpty());
  Step(10);
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
  EXPECT_THAT(watch_->TakeChanged(true), IsEmpty());
  watch_->WorkerExited(ExitReason::kDone);
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
}

TEST_F(RunWatchTest, WhatCouldNotBeStoredComesAgain) {
  Start();
  Step(1);
  std::vector<SeenAttempt> rows = watch_->TakeChanged(true);
  watch_->Return(std::move(rows));
  rows = watch_->TakeChanged();
  EXPECT_THAT(rows, SizeIs(1));
  watch_->WorkerExited(ExitReason::kDone);
  // What is newer wins.
  watch_->Return(std::move(rows));
  rows = watch_->TakeChanged();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].sum.exit_reason(), "Done");
  watch_->Return(std::move(rows));
  EXPECT_THAT(watch_->TakeChanged(), SizeIs(1));
}

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

class MakeRecordTest : public testing::Test {
 protected:
  MakeRecordTest() {
    fs::create_directories(folder_ / "out");
    jobs::Job& job = sources_.job;
    job.id = "01J00000000000000000000001";
    job.name = "tiny";
    job.owner = "ada";
    job.state = jobs::State::kSucceeded;
    job.exit_reason = jobs::ExitReason::kDone;
    job.model = "Qwen/Qwen2.5-0.5B";
    job.labels = {{"team", "nlp"}};
    job.create_time = kNow;
    job.start_time = kNow + absl::Seconds(10);
    job.end_time = kNow + absl::Seconds(70);
    job.attempt = 1;
    job.request_hash = std::string(64, 'e');
    job.spec_json =
        R"({"model": "m", "dataset": {"train": ["t.jsonl"]},
            "training": {"per_device_train_batch_size": 4,
                         "gradient_accumulation_steps": 2,
                         "max_length": 64}})";
    job.eval_loss_before = 3;
    job.eval_loss_after = 1.5;
    job.train_loss = 2;
    job.metrics = {{"accuracy", 0.75}, {"undefined", std::nan("")}};
    job.output_path = (folder_ / "out").string();
    sources_.folder = folder_;
    sources_.output_dir = folder_ / "out";
  }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }

  const fs::path folder_ = testing_support::FreshFolder("record");
  RecordSources sources_;
};

TEST_F(MakeRecordTest, FilesGiveTheRest) {
  Write("out/run.json", R"({"torch_version": "2.6", "device": "mps",
    "processor": "Apple M2", "operating_system": "macOS 15",
    "train": {"sha256": ")" +
                            std::string(64, 'b') + R"("},
    "memory": {"peak_allocated_bytes": 5000}, "cpu_fallback_ops": {"aten::x": 2}})");
  jobs::SubmitRequest request;
  request.round_trip_seconds = 0.25;
  request.spec_json = "{\r\n  \"model\": \"as submitted\"}";
  for (int i = 0; i < 150; ++i) {
    request.inputs.push_back({absl::StrCat("f", i), std::string(64, 'd')});
  }
  Write(jobs::RequestFile::kFile, jobs::RequestFile::Encode(request));
  jobs::Progress progress;
  progress.step = 8;
  progress.total_steps = 8;
  progress.memory.footprint_bytes = 9000;
  progress.memory.peak_allocated_bytes = 4000;
  sources_.job.progress = progress;
  const v1::JobRecord record = MakeRecord(sources_);
  EXPECT_EQ(record.environment().torch_version(), "2.6");
  EXPECT_EQ(record.memory().peak_allocated_bytes(), 5000);
  EXPECT_EQ(record.memory().footprint_bytes(), 9000);
  EXPECT_FALSE(record.memory().has_peak_footprint_bytes());
  EXPECT_DOUBLE_EQ(record.durations().round_trip_seconds(), 0.25);
  EXPECT_EQ(record.steps(), 8);
  EXPECT_EQ(record.shape().total_steps(), 8);
  EXPECT_EQ(record.spec_json(), R"({"model":"as submitted"})");
  EXPECT_EQ(record.data().input_count(), 150);
  EXPECT_EQ(record.data().inputs_size(), 100);
  EXPECT_THAT(record.run_json(), HasSubstr(R"("torch_version":"2.6")"));
}

// The process' memory is separate from the device's, and the larger of what
// the run wrote down and what mpsd saw of its steps counts.
TEST_F(MakeRecordTest, TheFootprintIsTheProcess) {
  v1::RunAttempt attempt;
  attempt.set_peak_footprint_bytes(8000);
  sources_.attempts = {attempt.SerializeAsString()};
  v1::JobRecord record = MakeRecord(sources_);
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 8000);
  EXPECT_FALSE(record.memory().has_peak_allocated_bytes());
  Write("out/run.json", R"({"device": "cpu", "memory": {
    "peak_allocated_bytes": null, "peak_footprint_bytes": 12000}})");
  record = MakeRecord(sources_);
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 12000);
  Write("out/run.json", R"({"memory": {"peak_footprint_bytes": 5000}})");
  record = MakeRecord(sources_);
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 8000);
}

TEST_F(MakeRecordTest, ADeletedJobIsListedByItsRecord) {
  jobs::Progress progress;
  progress.step = 8;
  progress.total_steps = 9;
  sources_.job.progress = progress;
  sources_.job.device_time = absl::Seconds(5);
  const v1::Job job = JobOf(MakeRecord(sources_));
  EXPECT_TRUE(job.past());
  EXPECT_EQ(job.id(), sources_.job.id);
  EXPECT_EQ(job.name(), "tiny");
  EXPECT_EQ(job.owner(), "ada");
  EXPECT_EQ(job.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job.exit_reason(), "Done");
  EXPECT_EQ(job.labels().at("team"), "nlp");
  EXPECT_EQ(job.end_time().seconds(), absl::ToUnixSeconds(kNow) + 70);
  EXPECT_DOUBLE_EQ(job.eval_loss_after(), 1.5);
  EXPECT_DOUBLE_EQ(job.metrics().at("accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(job.device_seconds(), 5);
  EXPECT_EQ(job.progress().step(), 8);
  EXPECT_EQ(job.progress().total_steps(), 9);
  const std::string texts = TextsOf(MakeRecord(sources_));
  for (const char* text : {"tiny", "ada", "Qwen", "team", "nlp"}) {
    EXPECT_THAT(texts, HasSubstr(text));
  }
}

TEST_F(MakeRecordTest, FilesThatMakeNoSenseLeaveOutTheirPart) {
  for (const std::string& junk :
       {std::string("{"), std::string("[1]"), std::string(5 << 20, 'x')}) {
    Write("out/run.json", junk);
    Write("out/result.json", junk);
    Write("request.json", junk);
    sources_.job.kind = jobs::JobKind::kSmoke;
    const v1::JobRecord record = MakeRecord(sources_);
    EXPECT_EQ(record.verdict(), v1::VERDICT_UNSPECIFIED);
    EXPECT_EQ(record.environment().device(), "");
    EXPECT_DOUBLE_EQ(record.eval_loss(), 1.5);
  }
  // A pipe in the place of a file does not block.
  fs::remove(folder_ / "out/run.json");
  ASSERT_EQ(mkfifo((folder_ / "out/run.json").c_str(), 0600), 0);
  EXPECT_EQ(MakeRecord(sources_).environment().device(), "");
}

TEST_F(MakeRecordTest, AStudyReportsItsVerdict) {
  sources_.job.kind = jobs::JobKind::kSmoke;
  std::string findings;
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&findings, i ? "," : "",
                    R"({"name": "memory.growth", "verdict": "VERDICT_FAIL",
                        "found": "31 %"})");
  }
  Write("out/result.json", absl::StrCat(R"({"verdict": "VERDICT_FAIL",
    "of_a_newer_worker": 1, "findings": [)",
                                        findings, "]}"));
  const v1::JobRecord record = MakeRecord(sources_);
  EXPECT_EQ(record.verdict(), v1::VERDICT_FAIL);
  EXPECT_EQ(record.findings_size(), 50);
  // One that failed has no result, in spite of what an earlier attempt left.
  sources_.job.state = jobs::State::kFailed;
  EXPECT_EQ(MakeRecord(sources_).verdict(), v1::VERDICT_UNSPECIFIED);
}

TEST_F(MakeRecordTest, HostileTextsAreHarmlessAndBounded) {
  sources_.job.name = "\x1b[2J\xff";
  sources_.job.message = std::string(100'000, 'm') + "\xff";
  sources_.job.spec_json = std::string(70 << 10, ' ') + "{}";
  sources_.job.warnings.assign(50, std::string(2000, 'w'));
  const v1::JobRecord record = MakeRecord(sources_);
  EXPECT_EQ(record.name(), "\\x1b[2J\\xff");
  EXPECT_LE(record.message().size(), 2000u);
  EXPECT_EQ(record.spec_json(), "");
  EXPECT_THAT(record.warnings(), SizeIs(10));
  EXPECT_LE(TextsOf(record).size(), 16u << 10);
  EXPECT_LE(record.ByteSizeLong(), 16u << 10);
}

std::string Hash(char digit) { return std::string(64, digit); }

v1::JobRecord Read(const std::string& text) {
  v1::JobRecord record;
  ReadManifest(text, record);
  return record;
}

TEST(ReadManifest, HoldsTheEnvironmentOfARun) {
  const v1::JobRecord record =
      Read(absl::StrCat(R"({
    "mpsd_version": "0.1.0", "torch_version": "2.6.0",
    "operating_system": "macOS 15.1", "processor": "Apple M2",
    "device": "mps", "device_description": "Apple M2, 8 cores",
    "environment": {"OMP_NUM_THREADS": "8", "ODD": 3},
    "attention": {"training": {"forward": "flash", "backward": "blocked"},
                  "evaluation": null},
    "gradients": "explicit", "dtype": "bfloat16",
    "model": {"name": "m", "sha256": {"a.safetensors": ")",
                        Hash('a'), R"("}},
    "train": {"sha256": ")",
                        Hash('b'), R"(", "rows": 100, "tokens": 5000},
    "eval": {"sha256": ")",
                        Hash('c'), R"("},
    "micro_batch": {"rows": 4, "accumulation": 2},
    "trainable_parameters": 12345, "total_steps": 50, "max_length": 32,
    "memory": {"peak_allocated_bytes": 7000, "peak_driver_allocated_bytes": null,
               "peak_footprint_bytes": 9000},
    "cpu_fallback_ops": {"aten::svd": 3}})"));
  const v1::RunEnvironment& environment = record.environment();
  EXPECT_EQ(environment.torch_version(), "2.6.0");
  EXPECT_EQ(environment.worker_version(), "0.1.0");
  EXPECT_EQ(environment.operating_system(), "macOS 15.1");
  EXPECT_EQ(environment.processor(), "Apple M2");
  EXPECT_EQ(environment.device(), "mps");
  EXPECT_EQ(environment.dtype(), "bfloat16");
  EXPECT_EQ(environment.attention(), "blocked, flash");
  EXPECT_EQ(environment.gradients(), "explicit");
  ASSERT_EQ(environment.variables_size(), 1);
  EXPECT_EQ(environment.variables().at("OMP_NUM_THREADS"), "8");
  EXPECT_EQ(record.data().train_sha256(), Hash('b'));
  EXPECT_EQ(record.data().eval_sha256(), Hash('c'));
  EXPECT_EQ(record.data().rows(), 100);
  EXPECT_EQ(record.data().tokens(), 5000);
  EXPECT_EQ(record.data().model_sha256().at("a.safetensors"), Hash('a'));
  EXPECT_EQ(record.shape().chosen_batch_size(), 4);
  EXPECT_EQ(record.shape().trainable_parameters(), 12345);
  EXPECT_EQ(record.shape().max_length(), 32) << "job.json has 64";
  EXPECT_EQ(record.shape().total_steps(), 50);
  EXPECT_EQ(record.memory().peak_allocated_bytes(), 7000);
  EXPECT_FALSE(record.memory().has_peak_driver_allocated_bytes());
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 9000);
  EXPECT_EQ(record.fallbacks().ops().at("aten::svd"), 3);
}

TEST(ReadManifest, WhatMakesNoSenseIsLeftOut) {
  for (const std::string& text : std::vector<std::string>{
           "", "{", "[]", "3", "\xff\xfe", std::string(100'000, '['),
           R"({"device": ["mps"], "memory": 3, "model": [],
          "train": "x", "environment": [1], "attention": {"training": 7},
          "cpu_fallback_ops": {"a": "b"}, "total_steps": 1.5,
          "micro_batch": null})"}) {
    const v1::JobRecord record = Read(text);
    EXPECT_EQ(record.environment().device(), "");
    EXPECT_FALSE(record.memory().has_peak_allocated_bytes());
    EXPECT_THAT(record.fallbacks().ops(), IsEmpty());
    EXPECT_EQ(record.data().train_sha256(), "");
    EXPECT_EQ(record.shape().total_steps(), 0);
  }
}

TEST(ReadManifest, WhatIsMuchIsCut) {
  std::string variables, files;
  for (int i = 0; i < 1000; ++i) {
    absl::StrAppend(&variables, i ? "," : "", "\"V", i, "\":\"x\"");
    absl::StrAppend(&files, i ? "," : "", "\"f", i, "\":\"", Hash('a'), "\"");
  }
  const v1::JobRecord record = Read(absl::StrCat(
      "{\"environment\":{", variables, "},\"model\":{\"sha256\":{", files,
      "}},\"device\":\"", std::string(10'000, 'x'),
      "\",\"dtype\":\"a\\u001b[2J", "\",\"train\":{\"sha256\":\"short\"}}"));
  EXPECT_EQ(record.environment().variables_size(), 100);
  EXPECT_EQ(record.data().model_sha256_size(), 100);
  EXPECT_LE(record.environment().device().size(), 1024u);
  EXPECT_EQ(record.environment().dtype(), "a\\x1b[2J");
  EXPECT_EQ(record.data().train_sha256(), "");
}

TEST(SumAttempts, AddsUp) {
  v1::RunAttempt first, second;
  v1::RunConditions& before = *first.mutable_conditions();
  before.set_readings(3);
  before.add_power_sources("mains");
  before.set_first_swap_bytes(10);
  before.set_most_swap_bytes(50);
  before.set_low_power_mode(true);
  before.set_gpu_utilization_ratio(0.2);
  before.set_user_active_seconds(5);
  first.mutable_pauses()->set_count(1);
  first.mutable_pauses()->set_seconds(7);
  (*first.mutable_pauses()->mutable_seconds_by_reason())["battery"] = 7;
  first.mutable_durations()->set_queue_seconds(4);
  first.mutable_durations()->set_load_seconds(2);
  first.mutable_durations()->set_evaluation_seconds(1);
  second = first;
  second.mutable_conditions()->set_readings(1);
  second.mutable_conditions()->set_power_sources(0, "battery");
  second.mutable_conditions()->set_first_swap_bytes(70);
  second.mutable_conditions()->set_most_swap_bytes(70);
  second.mutable_conditions()->set_low_power_mode(false);
  second.mutable_conditions()->set_gpu_utilization_ratio(0.6);
  second.mutable_durations()->set_queue_seconds(400);
  second.mutable_durations()->set_load_seconds(3);
  second.set_exit_reason("Done");
  second.set_torch_version("2.6");
  first.set_peak_footprint_bytes(300);
  second.set_peak_footprint_bytes(200);
  v1::JobRecord record;
  SumAttempts({}, record);  // no attempt, no field
  EXPECT_FALSE(record.has_conditions());
  EXPECT_FALSE(record.has_pauses());
  EXPECT_FALSE(record.durations().has_queue_seconds());
  SumAttempts({first.SerializeAsString(), second.SerializeAsString()}, record);
  const v1::RunConditions& seen = record.conditions();
  EXPECT_EQ(seen.readings(), 4);
  EXPECT_THAT(seen.power_sources(), ElementsAre("mains", "battery"));
  EXPECT_EQ(seen.first_swap_bytes(), 10);
  EXPECT_EQ(seen.most_swap_bytes(), 70);
  EXPECT_TRUE(seen.low_power_mode());
  EXPECT_DOUBLE_EQ(seen.gpu_utilization_ratio(), 0.3);
  EXPECT_DOUBLE_EQ(seen.user_active_seconds(), 10);
  EXPECT_FALSE(seen.has_least_battery_ratio());
  EXPECT_EQ(record.pauses().count(), 2);
  EXPECT_DOUBLE_EQ(record.pauses().seconds_by_reason().at("battery"), 14);
  EXPECT_DOUBLE_EQ(record.durations().queue_seconds(), 4);
  EXPECT_DOUBLE_EQ(record.durations().load_seconds(), 3);
  EXPECT_DOUBLE_EQ(record.durations().evaluation_seconds(), 2);
  EXPECT_EQ(record.environment().torch_version(), "2.6");
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 300);
  ASSERT_EQ(record.attempts_size(), 2);
  // The end of the first one is unknown.
  EXPECT_EQ(record.attempts(0).exit_reason(), "Interrupted");
  EXPECT_EQ(record.attempts(1).exit_reason(), "Done");
}

TEST(SumAttempts, TheLastOnesAreShownAndAllAreCounted) {
  v1::RunAttempt attempt;
  attempt.mutable_pauses()->set_count(1);
  std::vector<std::string> many;
  for (int i = 0; i < 100; ++i) {
    attempt.set_steps(i);
    many.push_back(attempt.SerializeAsString());
  }
  many.emplace_back("\xff\xff");  // a damaged row
  v1::JobRecord record;
  SumAttempts(many, record);
  EXPECT_EQ(record.pauses().count(), 100);
  ASSERT_EQ(record.attempts_size(), 31);
  EXPECT_EQ(record.attempts(30).steps(), 99);
}

class JobRecordsTest : public testing::Test {
 protected:
  JobRecordsTest() {
    JobRecords::Options options;
    options.mounts = [this] {
      ++looks_;
      return std::vector<host::Mount>{{"/", "ext4", "/dev/sda1"}};
    };
    options.log = [this](const std::string& line) { log_.push_back(line); };
    records_ = std::make_unique<JobRecords>(
        std::move(options),
        JobRecords::Dependencies{*daemon_.past, *daemon_.job_store,
                                 *daemon_.files, *daemon_.run_watch,
                                 daemon_.clock});
  }
  // A job of ada's that waited for three seconds and has failed.
  std::string Failed() {
    std::string id = daemon_.Submit({.owner = "ada", .name = "moods"});
    daemon_.After(absl::Seconds(3) - absl::Milliseconds(1));
    daemon_.End(ExitReason::kRejected, "a bad row");
    return id;
  }

  InProcessDaemon daemon_;
  int looks_ = 0;
  std::vector<std::string> log_;
  std::unique_ptr<JobRecords> records_;
};

TEST_F(JobRecordsTest, AJobThatRunsHasARecordWhoseFileSystemsAreLookedAtOnce) {
  const std::string id = daemon_.Start();
  const v1::JobRecord record = Ok(records_->Get(id));
  EXPECT_EQ(record.state(), v1::JOB_STATE_RUNNING);
  ASSERT_THAT(record.attempts(), SizeIs(1));
  EXPECT_EQ(record.attempts(0).exit_reason(), "");
  EXPECT_EQ(record.environment().file_systems().at("state"), "ext4");
  EXPECT_FALSE(record.has_end_time());
  for (int i = 0; i < 3; ++i) {
    daemon_.clock.Advance(absl::Minutes(1));
    daemon_.run_watch->HostRead({});
    EXPECT_GT(records_->Tend(), daemon_.clock.Now());
  }
  EXPECT_EQ(looks_, 1);
  EXPECT_THAT(*daemon_.past->Attempts(id), SizeIs(1));
}

TEST_F(JobRecordsTest, ARowThatCannotBeReadLeavesItsOwnerAndTheFault) {
  const std::string id = Failed();
  daemon_.Execute("UPDATE jobs SET warnings = 'no JSON'");
  ASSERT_THAT(daemon_.job_store->Get(id), Fails(absl::StatusCode::kDataLoss));
  ASSERT_THAT(records_->Keep(id), IsOk());
  ASSERT_THAT(daemon_.job_store->Delete(id), IsOk());
  const v1::JobRecord record = Ok(records_->Get(id));
  EXPECT_EQ(record.owner(), "ada");
  EXPECT_NE(record.message(), "");
}

TEST_F(JobRecordsTest, AFaultIsLoggedOnceAndNothingIsLost) {
  const std::string id = Failed();
  daemon_.Execute(
      "CREATE TRIGGER fault BEFORE INSERT ON run_attempts "
      "BEGIN SELECT RAISE(ABORT, 'no room'); END");
  records_->Tend();
  records_->Tend();
  EXPECT_THAT(log_, ElementsAre(HasSubstr("no room")));
  EXPECT_FALSE(records_->Keep(id).ok());
  daemon_.Execute("DROP TRIGGER fault");
  ASSERT_THAT(records_->Keep(id), IsOk());
  EXPECT_THAT(Ok(records_->Get(id)).attempts(), SizeIs(1));
}

}  // namespace
}  // namespace mpsd::records
