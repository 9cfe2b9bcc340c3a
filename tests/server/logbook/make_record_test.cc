// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/make_record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/jobs/request_file.h"

namespace mpsd::logbook {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);

class MakeRecordTest : public testing::Test {
 protected:
  MakeRecordTest() {
    folder_ =
        fs::path(testing::TempDir()) / absl::StrCat("mpsd-record-", getpid());
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
    sources_.daemon_version = "0.1.0";
    sources_.daemon_commit = "abc";
  }
  ~MakeRecordTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  FieldValue Value(const v1::Record& record, const std::string& field) {
    return ToRow(record).values[FieldNamed(field) - kRecordFields];
  }

  fs::path folder_;
  RecordSources sources_;
};

TEST_F(MakeRecordTest, ARowWithoutFilesTellsWhatTheRowTells) {
  const v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.id(), sources_.job.id);
  EXPECT_EQ(record.kind(), v1::JOB_KIND_TRAINING);
  EXPECT_EQ(record.state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(record.exit_reason(), "Done");
  EXPECT_EQ(record.owner(), "ada");
  EXPECT_EQ(record.labels().at("team"), "nlp");
  EXPECT_EQ(record.request_hash(), std::string(64, 'e'));
  EXPECT_EQ(record.shape().task(), "CAUSAL_LM");
  EXPECT_EQ(record.shape().batch_size(), 4);
  EXPECT_EQ(record.shape().max_length(), 64);
  EXPECT_DOUBLE_EQ(record.eval_loss(), 1.5);
  EXPECT_DOUBLE_EQ(record.durations().total_seconds(), 70);
  EXPECT_EQ(record.environment().daemon_commit(), "abc");
  // Nobody told these.
  EXPECT_EQ(record.environment().torch_version(), "");
  EXPECT_FALSE(record.memory().has_peak_allocated_bytes());
  EXPECT_FALSE(record.has_conditions());
  EXPECT_FALSE(record.durations().has_round_trip_seconds());
  EXPECT_EQ(record.data().train_sha256(), "");
  EXPECT_EQ(Value(record, "torch"), FieldValue());
  EXPECT_EQ(Value(record, "peak"), FieldValue());
  EXPECT_EQ(Value(record, "footprint"), FieldValue());
  EXPECT_EQ(Value(record, "round_trip"), FieldValue());
  EXPECT_EQ(Value(record, "pauses"), FieldValue());
  EXPECT_EQ(Value(record, "verdict"), FieldValue());
  EXPECT_EQ(Value(record, "batch"), FieldValue(int64_t{8}));
  EXPECT_EQ(Value(record, "eval_loss"), FieldValue(1.5));
  EXPECT_EQ(Value(record, "state"), FieldValue(int64_t{3}));
  EXPECT_EQ(Value(record, "model"), FieldValue("Qwen/Qwen2.5-0.5B"));
}

TEST_F(MakeRecordTest, FilesTellTheRest) {
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
  const v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.environment().torch_version(), "2.6");
  EXPECT_EQ(record.memory().peak_allocated_bytes(), 5000);
  EXPECT_EQ(record.memory().footprint_bytes(), 9000);
  EXPECT_FALSE(record.memory().has_peak_footprint_bytes());
  EXPECT_DOUBLE_EQ(record.durations().round_trip_seconds(), 0.25);
  EXPECT_EQ(Value(record, "round_trip"), FieldValue(0.25));
  EXPECT_EQ(record.steps(), 8);
  EXPECT_EQ(record.shape().total_steps(), 8);
  EXPECT_EQ(record.spec_json(), R"({"model":"as submitted"})");
  EXPECT_EQ(record.data().input_count(), 150);
  EXPECT_EQ(record.data().inputs_size(), 100);
  EXPECT_EQ(Value(record, "platform"), FieldValue("macOS 15 Apple M2"));
  EXPECT_EQ(Value(record, "fallbacks"), FieldValue(int64_t{1}));
  EXPECT_THAT(ToRow(record).texts, HasSubstr("aten::x"));
}

// The process' memory is told apart from the device's, and the larger of what
// the run wrote down and what mpsd saw of its steps counts.
TEST_F(MakeRecordTest, TheFootprintIsTheProcess) {
  v1::RunAttempt attempt;
  attempt.set_peak_footprint_bytes(8000);
  sources_.attempts = {attempt.SerializeAsString()};
  v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 8000);
  EXPECT_EQ(Value(record, "footprint"), FieldValue(int64_t{8000}));
  EXPECT_FALSE(record.memory().has_peak_allocated_bytes());
  EXPECT_EQ(Value(record, "peak"), FieldValue());
  Write("out/run.json", R"({"device": "cpu", "memory": {
    "peak_allocated_bytes": null, "peak_footprint_bytes": 12000}})");
  record = MakeRecord(sources_);
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 12000);
  Write("out/run.json", R"({"memory": {"peak_footprint_bytes": 5000}})");
  record = MakeRecord(sources_);
  EXPECT_EQ(record.memory().peak_footprint_bytes(), 8000);
}

TEST_F(MakeRecordTest, FileSystemsAreToldWhereTheyAreKnown) {
  sources_.job.spec_json = R"({"model": "/models/m",
                               "dataset": {"train": ["/nfs/t.jsonl"]}})";
  EXPECT_THAT(MakeRecord(sources_).environment().file_systems(), IsEmpty());
  sources_.mounts = {{"/", "ext4", "/dev/sda1"},
                     {"/nfs", "nfs4", "server:/x", true}};
  const v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.environment().file_systems().at("state"), "ext4");
  EXPECT_EQ(record.environment().file_systems().at("model"), "ext4");
  EXPECT_EQ(record.environment().file_systems().at("data"), "nfs4");
  // A model of the hub has no path here.
  sources_.job.spec_json =
      R"({"model": "org/m", "dataset": {"train": ["/nfs/t.jsonl"]}})";
  EXPECT_FALSE(
      MakeRecord(sources_).environment().file_systems().contains("model"));
}

TEST_F(MakeRecordTest, FilesThatMakeNoSenseLeaveOutTheirPart) {
  for (const std::string& junk :
       {std::string("{"), std::string("[1]"), std::string(5 << 20, 'x')}) {
    Write("out/run.json", junk);
    Write("out/result.json", junk);
    Write("request.json", junk);
    sources_.job.kind = jobs::JobKind::kSmoke;
    const v1::Record record = MakeRecord(sources_);
    EXPECT_EQ(record.verdict(), v1::VERDICT_UNSPECIFIED);
    EXPECT_EQ(record.environment().device(), "");
    EXPECT_DOUBLE_EQ(record.eval_loss(), 1.5);
  }
  // A pipe in the place of a file holds nobody up.
  fs::remove(folder_ / "out/run.json");
  ASSERT_EQ(mkfifo((folder_ / "out/run.json").c_str(), 0600), 0);
  EXPECT_EQ(MakeRecord(sources_).environment().device(), "");
}

TEST_F(MakeRecordTest, AStudyTellsItsVerdict) {
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
  const v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.verdict(), v1::VERDICT_FAIL);
  EXPECT_EQ(record.findings_size(), 50);
  EXPECT_EQ(Value(record, "verdict"), FieldValue(int64_t{3}));
  EXPECT_THAT(ToRow(record).texts, HasSubstr("memory.growth 31 %"));
  // One that failed has no result, whatever an earlier attempt left.
  sources_.job.state = jobs::State::kFailed;
  EXPECT_EQ(MakeRecord(sources_).verdict(), v1::VERDICT_UNSPECIFIED);
}

TEST_F(MakeRecordTest, EveryEndHasARecord) {
  for (const jobs::State state : {jobs::State::kSucceeded, jobs::State::kFailed,
                                  jobs::State::kCancelled}) {
    sources_.job.state = state;
    const v1::Record record = MakeRecord(sources_);
    EXPECT_EQ(static_cast<int>(record.state()), static_cast<int>(state));
  }
  // A job that never started, whose row says little.
  sources_.job = jobs::Job();
  sources_.job.id = "A";
  sources_.job.state = jobs::State::kCancelled;
  sources_.job.create_time = kNow;
  const v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.attempt_count(), 0);
  EXPECT_EQ(record.end_time().seconds(), record.create_time().seconds());
  EXPECT_FALSE(record.has_start_time());
  EXPECT_EQ(ToRow(record).end_time, kNow);
}

TEST_F(MakeRecordTest, HostileTextsAreHarmlessAndBounded) {
  sources_.job.name = "\x1b[2J\xff";
  sources_.job.message = std::string(100'000, 'm') + "\xff";
  sources_.job.spec_json = std::string(70 << 10, ' ') + "{}";
  sources_.job.warnings.assign(50, std::string(2000, 'w'));
  const v1::Record record = MakeRecord(sources_);
  EXPECT_EQ(record.name(), "\\x1b[2J\\xff");
  EXPECT_LE(record.message().size(), 2000u);
  EXPECT_EQ(record.spec_json(), "");
  EXPECT_THAT(record.warnings(), SizeIs(10));
  const NewRecord row = ToRow(record);
  EXPECT_LE(row.texts.size(), 16u << 10);
  EXPECT_LE(row.body.size(), 16u << 10);
  // SQLite has no NaN.
  EXPECT_FALSE(row.metrics.contains("undefined"));
  EXPECT_DOUBLE_EQ(row.metrics.at("accuracy"), 0.75);
}

TEST_F(MakeRecordTest, WhatIsStoredComesBack) {
  const v1::Record record = MakeRecord(sources_);
  const NewRecord row = ToRow(record);
  StoredRecord stored{7,        row.id,       row.owner,
                      row.body, {"baseline"}, {{kNow, "bob", "a\nb", true}}};
  v1::Record back = FromRow(stored);
  EXPECT_EQ(back.number(), 7);
  EXPECT_EQ(back.tags(0), "baseline");
  EXPECT_EQ(back.notes(0).text(), "a\nb");
  EXPECT_TRUE(back.notes(0).rejected());
  EXPECT_EQ(back.notes(0).time().seconds(), absl::ToUnixSeconds(kNow));
  back.clear_number();
  back.clear_tags();
  back.clear_notes();
  EXPECT_EQ(back.SerializeAsString().size(), record.SerializeAsString().size());
  stored.body = "\xff\xff";
  back = FromRow(stored);
  EXPECT_EQ(back.id(), row.id);
  EXPECT_EQ(back.owner(), "ada");
  EXPECT_THAT(back.notes(), SizeIs(1));
}

TEST_F(MakeRecordTest, AnEntryThatSomebodyWritesIsNoJob) {
  const v1::Record entry = MakeEntry("E", "ada", kNow);
  EXPECT_EQ(entry.kind(), v1::JOB_KIND_UNSPECIFIED);
  EXPECT_EQ(Value(entry, "kind"), FieldValue(int64_t{0}));
  for (const char* field : {"state", "steps", "attempts", "device_time"}) {
    EXPECT_EQ(Value(entry, field), FieldValue()) << field;
  }
  EXPECT_THAT(ToRow(entry).metrics, IsEmpty());
}

}  // namespace
}  // namespace mpsd::logbook
