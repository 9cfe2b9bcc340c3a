// SPDX-License-Identifier: Apache-2.0
#include "client/show.h"

#include <cmath>

#include "tests/client/client_fixture.h"
#include "tests/client/some_records.h"

namespace mpsd::client {
namespace {

using ShowTest = ClientTest;

TEST_F(ShowTest, Running) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  (*job.mutable_labels())["team"] = "nlp";
  job.set_attempt(2);
  job.set_message("worker crashed with signal 9");
  job.set_exit_reason("Crashed");
  SetTime(job.mutable_start_time(), absl::Minutes(2));
  v1::Progress& progress = *job.mutable_progress();
  progress.set_step(5);
  progress.set_total_steps(20);
  progress.set_epoch(0.25);
  progress.set_loss(2.5);
  progress.set_learning_rate(5e-5);
  progress.set_grad_norm(1.25);
  progress.set_step_seconds(0.5);
  progress.set_tokens_per_second(1234);
  progress.set_eta_seconds(80);
  progress.set_device_utilization_ratio(0.934);
  progress.mutable_memory()->set_current_allocated_bytes(3'000'000'000);
  progress.mutable_memory()->set_footprint_bytes(4'000'000'000);
  job.set_eval_loss_before(2.75);
  job.set_eval_loss_after(2.25);
  EXPECT_THAT(
      RunVerb({"show", kId}),
      Prints("Job 01KAH0000000000000000000AA\n"
             "  name          moods\n"
             "  state         RUNNING\n"
             "  owner         ann\n"
             "  labels        team=nlp\n"
             "  priority      0\n"
             "  created       2026-01-02 03:01:05\n"
             "  started       2026-01-02 03:02:05, attempt 2\n"
             "  step          5/20 (25%), epoch 0.25\n"
             "  loss          2.5000\n"
             "  learning rate 5e-05\n"
             "  grad norm     1.25\n"
             "  speed         0.5s a step, 1,234 tokens/s, device 93% busy, "
             "ETA 1m20s\n"
             "  memory        3.0 GB allocated, 4.0 GB worker footprint\n"
             "  eval loss     2.7500 before, 2.2500 latest\n"
             "  last exit     Crashed\n"
             "  message       worker crashed with signal 9\n"
             "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n"));
}

TEST_F(ShowTest, PausedAndOnTheCpu) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  v1::Progress& progress = *job.mutable_progress();
  progress.set_total_steps(20);
  progress.mutable_memory()->set_peak_allocated_bytes(5'000'000'000);
  (*progress.mutable_cpu_fallback_ops())["aten::linalg_eig"] = 3;
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  job.mutable_pause()->set_held(true);
  SetTime(job.mutable_pause()->mutable_since(), absl::Minutes(2));
  const std::string out = RunVerb({"show", kId}).out;
  for (const char* line :
       {"  paused        held for 2m00s: on battery or in Low Power Mode\n",
        "  memory        5.0 GB at most\n",
        "  on the CPU    aten::linalg_eig 3 times\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
  const auto json = ParseJson(Out({"show", kId, "--json"}));
  EXPECT_EQ(json["pause"]["reasons"], nlohmann::json::array({"BATTERY"}));
}

TEST_F(ShowTest, WarningsAreListed) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  job.add_warnings("memory grows\x1b[2J");
  job.add_warnings("in 3 rows\nthe prompt");
  const std::string out = RunVerb({"show", kId}).out;
  EXPECT_THAT(out, HasSubstr("  warning       memory grows\\x1b[2J\n"
                             "  warning       in 3 rows the prompt\n"));
  const auto json = ParseJson(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["warnings"], nlohmann::json::array({"memory grows\x1b[2J",
                                                     "in 3 rows\nthe prompt"}));
}

TEST_F(ShowTest, QueuedHeldAndTriedBefore) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_queue_position(2);
  SetTime(job.mutable_not_before(), -absl::Seconds(10));
  EXPECT_THAT(Out({"show", kId}),
              HasSubstr("  state         QUEUED, 2 ahead of it, not before "
                        "2026-01-02 03:04:15\n"));
  job.set_hold("model: '/volumes/m' is away");
  job.set_exit_reason("Interrupted");
  job.set_failures(1);
  job.set_interruptions(2);
  const std::string out = RunVerb({"show", kId}).out;
  for (const char* line :
       {"  waits for     model: '/volumes/m' is away\n",
        "  last exit     Interrupted, 1 failures in a row, 2 interruptions in "
        "a row\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
}

TEST_F(ShowTest, Succeeded) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  SetTime(job.mutable_start_time(), absl::Seconds(90));
  SetTime(job.mutable_end_time(), absl::Seconds(10));
  job.set_train_loss(1.75);
  job.set_output_path("/state/adapter");
  job.set_output_kind(v1::OUTPUT_KIND_ADAPTER);
  const std::string out = RunVerb({"show", kId}).out;
  for (const char* line :
       {"  ended         2026-01-02 03:03:55, after 1m20s\n",
        "  train loss    1.7500 mean\n", "  adapter       /state/adapter\n",
        "Fetch the adapter with `mpsctl download "}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
}

TEST_F(ShowTest, AClassifier) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  (*job.mutable_metrics())["accuracy"] = 0.75;
  job.set_output_path("/state/model");
  job.set_output_kind(v1::OUTPUT_KIND_MODEL);
  job.set_confusion_matrix_json(R"({"labels": ["no"], "matrix": [[3]]})");
  job.set_spec_json(R"({"model": "m", "task": "SEQ_CLS", "dataset":
      {"train": "t.csv", "predict": "p.csv"}})");
  EXPECT_THAT(
      Out({"show", kId}),
      EndsWith(
          "  model         /state/model\n"
          "  metric     final\n"
          "  accuracy  0.7500\n"
          "  true \\ predicted  no\n"
          "  no                 3\n"
          "Fetch the model with `mpsctl download 01KAH0000000000000000000AA "
          "--output DIR`, its predictions with `mpsctl download "
          "01KAH0000000000000000000AA --predictions --output DIR`.\n"));
}

TEST_F(ShowTest, AStudySaysItsKindAndWhatItFound) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  job.set_kind(v1::JOB_KIND_DEVICE_COMPARISON);
  job.set_output_path("/state/out");
  job.set_output_kind(v1::OUTPUT_KIND_STUDY);
  v1::StudyResult& result = runbook().study_result;
  result.set_verdict(v1::VERDICT_FAIL);
  result.mutable_device_comparison()->set_decision(
      v1::DEVICE_DECISION_STAY_ON_CPU);
  result.add_findings()->set_name("memory.growth");
  const std::string out = Out({"show", kId});
  for (const char* line :
       {"  kind          device comparison\n", "  result        /state/out\n",
        "Decision: stay on ", "memory.growth", "Verdict: fail\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
  const auto json = ParseJson(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["result"]["verdict"], "FAIL");
  EXPECT_EQ(json["result"]["device_comparison"]["decision"], "STAY_ON_CPU");
}

TEST_F(ShowTest, AStudyIsShownWithoutAResultThatCannotBeRead) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_SMOKE);
  Fail("GetStudyResult", StatusCode::PERMISSION_DENIED, "ann's job\x1b[2J");
  EXPECT_THAT(
      RunVerb({"show", kId}),
      Ends(0, AllOf(HasSubstr("SUCCEEDED"), Not(HasSubstr("Verdict"))),
           "mpsctl: the study's result cannot be read: ann's job\\x1b[2J\n"));
  const Result shown = RunVerb({"show", kId, "--json"});
  EXPECT_FALSE(ParseJson(shown.out).contains("result"));
  EXPECT_NE(shown.err, "");
}

TEST_F(ShowTest, WhatToDoNextDependsOnTheState) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  EXPECT_THAT(Out({"show", kId}),
              AllOf(HasSubstr("mpsctl logs"), HasSubstr("mpsctl retry")));
  data().jobs[0].set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_THAT(RunVerb({"show", kId}).out, HasSubstr("mpsctl checkpoints"));
}

TEST_F(ShowTest, JsonIsOneObject) {
  AddJob(kId, v1::JOB_STATE_FAILED).set_spec_json(R"({"model": "m"})");
  const std::string out = RunVerb({"show", kId, "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = ParseJson(out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["state"], "FAILED");
  EXPECT_EQ(json["spec"]["model"], "m");
  data().jobs[0].set_spec_json("{\n  \"model\": \"m\"\n}");
  EXPECT_EQ(RunVerb({"show", kId, "--spec"}).out, "{\n  \"model\": \"m\"\n}\n");
}

// What users and workers wrote comes out as text, whoever looks.
TEST_F(ShowTest, NothingOfAJobSteersTheTerminal) {
  constexpr char kEvil[] = "x\x1b[2J\x07\u009b31m\u202e\ny";
  v1::Job& job = AddJob(kId, v1::JOB_STATE_FAILED);
  job.set_name(kEvil);
  job.set_owner(kEvil);
  job.set_message(kEvil);
  job.set_exit_reason(kEvil);
  job.set_output_path(kEvil);
  job.add_warnings(kEvil);
  job.set_spec_json("x\x1b[2J\u202e");
  (*job.mutable_labels())["team"] = kEvil;
  (*job.mutable_metrics())[kEvil] = 1;
  AddEvent(kId).set_note(kEvil);
  AddEvent(kId).set_warning(kEvil);
  v1::StateChanged& state = *AddEvent(kId).mutable_state();
  state.set_state(v1::JOB_STATE_FAILED);
  state.set_message(kEvil);
  v1::Checkpoint checkpoint;
  checkpoint.set_path(kEvil);
  data().checkpoints[kId] = {checkpoint};
  data().info.set_hold(kEvil);
  terminal_.is_tty = true;
  for (const Args& args : {Args{"show", kId},
                           {"show", kId, "--spec"},
                           {"show", kId, "--json"},
                           {"list"},
                           {"list", "--json"},
                           {"watch", kId},
                           {"watch", kId, "--json"},
                           {"checkpoints", kId},
                           {"info"},
                           {"cancel", "01KAH0"}}) {
    const Result result = RunVerb(args);
    // Its own redrawing of the last line.
    std::string text = result.out + result.err;
    for (size_t at; (at = text.find("\x1b[K")) != std::string::npos;) {
      text.erase(at, 3);
    }
    for (const char* steering : {"\x1b", "\x07", "\u009b", "\u202e"}) {
      EXPECT_THAT(text, Not(HasSubstr(steering)))
          << args[0] << " " << args.back();
    }
    // The line would be forged, but for mpsctl's own "you".
    for (size_t at; (at = text.find("\nyou ")) != std::string::npos;) {
      text.erase(at, 5);
    }
    EXPECT_EQ(text.find("\ny"), std::string::npos) << args[0];
  }
  Fail("GetRecord", StatusCode::INTERNAL, "a\x1b[2J");
  EXPECT_EQ(RunVerb({"show", kId}).err.find('\x1b'), std::string::npos);
}

std::string Metrics(const v1::Job& job) {
  std::ostringstream out;
  PrintMetrics(job, out);
  return out.str();
}

std::string Matrix(const std::string& json) {
  std::ostringstream out;
  PrintConfusionMatrix(json, out);
  return out.str();
}

TEST(Metrics, InALine) {
  MetricMap metrics;
  EXPECT_EQ(MetricsText(metrics), "");
  metrics["pearson"] = std::nan("");
  metrics["accuracy"] = 0.875;
  EXPECT_EQ(MetricsText(metrics), "accuracy 0.8750, pearson nan");
}

TEST(Metrics, BesideThoseOfTheBestEvaluation) {
  v1::Job job;
  EXPECT_EQ(Metrics(job), "");
  job.set_state(v1::JOB_STATE_RUNNING);
  (*job.mutable_metrics())["f1"] = 0.5;
  (*job.mutable_metrics())["accuracy"] = 0.25;
  EXPECT_EQ(Metrics(job),
            "  metric    latest\n"
            "  accuracy  0.2500\n"
            "  f1        0.5000\n");
  job.mutable_best_evaluation()->set_step(40);
  (*job.mutable_best_evaluation()->mutable_metrics())["f1"] = 0.75;
  job.set_state(v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(Metrics(job),
            "  metric     final  best, at step 40\n"
            "  accuracy  0.2500                 -\n"
            "  f1        0.5000            0.7500\n");
}

TEST(ConfusionMatrix, TrueDownPredictedAcross) {
  EXPECT_EQ(Matrix(R"({"labels": ["négatif", "positif"],
                       "matrix": [[120, 3], [4, 5]]})"),
            "  true \\ predicted  négatif  positif\n"
            "  négatif               120        3\n"
            "  positif                 4        5\n");
  const std::string text =
      Matrix(R"({"labels": ["\u001b[2J"], "matrix": [[1]]})");
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_NE(text.find("[2J"), std::string::npos);
  for (const char* json : {"", "x", "[]", R"({"labels": [], "matrix": []})",
                           R"({"labels": ["a"], "matrix": [[1, 2]]})",
                           R"({"labels": ["a", "b"], "matrix": [[1, 2]]})",
                           R"({"labels": "a", "matrix": [[1]]})"}) {
    EXPECT_EQ(Matrix(json), "") << json;
  }
}

std::map<std::string, std::string> Rows(const v1::JobRecord& record) {
  std::map<std::string, std::string> rows;
  for (const RecordSection& section :
       DescribeRecord(record, /*results=*/true, absl::UTCTimeZone())) {
    for (const auto& [name, value] : section.rows) {
      rows[section.title + "/" + name] = value;
    }
  }
  return rows;
}

// What a reviewer asks for beside the versions (seed 004, 18): checksums, who
// else used the machine, power, Low Power Mode, heat, round trip, mounts.
TEST(Record, HasEveryFieldWithItsUnit) {
  auto rows = Rows(SomeRecord("A"));
  for (const auto& [name, value] : std::map<std::string, std::string>{
           {"ENVIRONMENT/torch version", "2.6.0"},
           {"ENVIRONMENT/variables OMP_NUM_THREADS", "8"},
           {"ENVIRONMENT/file systems data", "nfs4"},
           {"MEMORY/peak allocated", "4.0 GB"},
           {"FALLBACKS/allowed", "yes"},
           {"FALLBACKS/ops aten::svd", "3"},
           {"DATA/inputs t.jsonl", std::string(64, 'a')},
           {"CONDITIONS/power sources", "mains"},
           {"CONDITIONS/low power mode", "no"},
           {"CONDITIONS/least battery", "85 %"},
           {"CONDITIONS/thermal levels", "nominal, heavy"},
           {"PAUSES/count", "2"},
           {"DURATIONS/steady step", "0.25s"},
           {"DURATIONS/round trip", "0.0213s"},
           {"RESULTS/state", "SUCCEEDED"},
           {"RESULTS/eval loss", "1.2500"}}) {
    EXPECT_EQ(rows[name], value) << name;
  }
}

TEST(Record, WhatIsNotKnownHasNoMadeUpValue) {
  v1::JobRecord record;
  record.set_kind(v1::JOB_KIND_TRAINING);
  record.mutable_environment();
  record.mutable_conditions();
  record.mutable_memory()->set_peak_footprint_bytes(70'000'000);
  record.mutable_durations();
  auto rows = Rows(record);
  for (const char* name :
       {"ENVIRONMENT/torch version", "ENVIRONMENT/file systems",
        "MEMORY/peak allocated", "CONDITIONS/power sources",
        "CONDITIONS/low power mode", "CONDITIONS/thermal levels",
        "CONDITIONS/user active", "CONDITIONS/most swap",
        "DURATIONS/round trip", "DURATIONS/load", "RESULTS/eval loss"}) {
    ASSERT_TRUE(rows.contains(name)) << name;
    EXPECT_EQ(rows[name], "-") << name;
  }
  // A run on the CPU has its process' memory, which is not the device's.
  EXPECT_EQ(rows["MEMORY/peak footprint"], "70.0 MB");
}

class ShowRecordTest : public ClientTest {
 protected:
  void AddPast(const std::string& id) {
    v1::Job job = PastJob(id);
    job.set_name("moods");
    job.set_state(v1::JOB_STATE_SUCCEEDED);
    job.mutable_create_time()->set_seconds(1767323000);
    job.add_tags("baseline");
    data().past.push_back(job);
    data().records[id] = SomeRecord(id);
  }
};

TEST_F(ShowRecordTest, ADeletedJob) {
  AddPast(kOtherId);
  v1::JobRecord& record = data().records[kOtherId];
  record.set_attempt_count(3);
  for (const char* reason : {"Crashed", "Done"}) {
    v1::RunAttempt& attempt = *record.add_attempts();
    attempt.mutable_start_time()->set_seconds(1767323045);
    attempt.set_exit_reason(reason);
  }
  v1::Finding& finding = *record.add_findings();
  finding.set_name("memory.growth");
  finding.set_verdict(v1::VERDICT_FAIL);
  finding.set_found("31 %");
  v1::JobNote& note = *record.add_notes();
  note.mutable_time()->set_seconds(1767323045);
  note.set_author("eve");
  note.set_text("too\nhot\x1b[2J");
  // By a part of its id, too.
  const std::string out = Out({"show", std::string(kOtherId).substr(20)});
  for (const char* text :
       {"It was deleted", "baseline", "torch version", "2.6.0", "4.0 GB",
        "nominal, heavy", "ATTEMPT", "Crashed", "memory.growth", "NOTES",
        "eve\n  too\n", "\\x1b"}) {
    EXPECT_THAT(out, HasSubstr(text)) << text;
  }
  EXPECT_THAT(out, Not(HasSubstr("\x1b")));
  const auto json = ParseJson(RunVerb({"--json", "show", kOtherId}).out);
  EXPECT_EQ(json["past"], true);
  EXPECT_EQ(json["record"]["environment"]["device"], "mps");
  EXPECT_EQ(json["record"]["notes"][0]["author"], "eve");
}

TEST_F(ShowRecordTest, AJobThatIsThere) {
  AddJob(kId, v1::JOB_STATE_RUNNING);
  data().records[kId] = SomeRecord(kId);
  EXPECT_THAT(
      RunVerb({"show", kId}),
      Prints(AllOf(HasSubstr("CONDITIONS"), HasSubstr("Follow it with"))));
  // A job of somebody else on a daemon with private jobs.
  Fail("GetRecord", StatusCode::NOT_FOUND, "no record");
  EXPECT_THAT(RunVerb({"show", kId}), Prints(Not(HasSubstr("CONDITIONS"))));
  EXPECT_EQ(RunVerb({"show", kOtherId}).code, 4);
}

TEST_F(ShowRecordTest, ListFindsDeletedJobsInOneOrder) {
  v1::Job& old = AddJob(kId, v1::JOB_STATE_FAILED);
  old.mutable_create_time()->set_seconds(1767322000);
  AddPast(kOtherId);
  EXPECT_THAT(RunVerb({"list", "-q"}).out, Not(HasSubstr(kOtherId)));
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--tag", "baseline"}).out,
            std::string(kOtherId) + "\n" + kId + "\n");
  EXPECT_EQ(data().listed.back().tags(0), "baseline");
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--limit", "1"}).out,
            std::string(kOtherId) + "\n");
  EXPECT_EQ(RunVerb({"list", "-q", "--past", "--sort", "create_time"}).out,
            std::string(kId) + "\n" + kOtherId + "\n");
  EXPECT_EQ(RunVerb({"list", "--past", "--count"}).out, "2\n");
  EXPECT_EQ(
      RunVerb({"list", "--past", "--csv", "--columns", "id,past,tags"}).out,
      std::string("id,past,tags\r\n") + kOtherId +
          ",true,\"[\"\"baseline\"\"]\"\r\n" + kId + ",false,[]\r\n");
}

}  // namespace
}  // namespace mpsd::client
