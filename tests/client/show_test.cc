// SPDX-License-Identifier: Apache-2.0
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

class ShowTest : public ClientTest {};

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
  const Result result = RunVerb({"show", kId});
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.out,
            "Job 01KAH0000000000000000000AA\n"
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
            "Follow it with `mpsctl watch 01KAH0000000000000000000AA`.\n");
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
}

TEST_F(ShowTest, WarningsAreListed) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  job.add_warnings("memory grows\x1b[2J");
  job.add_warnings("in 3 rows\nthe prompt");
  const std::string out = RunVerb({"show", kId}).out;
  EXPECT_NE(out.find("  warning       memory grows\\x1b[2J\n"
                     "  warning       in 3 rows the prompt\n"),
            std::string::npos)
      << out;
  const auto json = nlohmann::json::parse(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["warnings"], nlohmann::json::array({"memory grows\x1b[2J",
                                                     "in 3 rows\nthe prompt"}));
}

TEST_F(ShowTest, JsonHasTheReasonsByName) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_RUNNING);
  job.mutable_pause()->add_reasons(v1::PAUSE_REASON_BATTERY);
  const auto json = nlohmann::json::parse(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["pause"]["reasons"], nlohmann::json::array({"BATTERY"}));
}

TEST_F(ShowTest, Queued) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
  job.set_queue_position(2);
  SetTime(job.mutable_not_before(), -absl::Seconds(10));
  EXPECT_NE(RunVerb({"show", kId})
                .out.find("  state         QUEUED, 2 ahead of it, not before "
                          "2026-01-02 03:04:15\n"),
            std::string::npos);
}

TEST_F(ShowTest, HeldAndTriedBefore) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_QUEUED);
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
  const std::string out = RunVerb({"show", kId}).out;
  const std::string end =
      "  model         /state/model\n"
      "  metric     final\n"
      "  accuracy  0.7500\n"
      "  true \\ predicted  no\n"
      "  no                 3\n"
      "Fetch the model with `mpsctl download 01KAH0000000000000000000AA "
      "--output DIR`, its predictions with `mpsctl download "
      "01KAH0000000000000000000AA --predictions --output DIR`.\n";
  EXPECT_TRUE(out.ends_with(end)) << out;
}

TEST_F(ShowTest, AStudySaysItsKindAndWhatItFound) {
  v1::Job& job = AddJob(kId, v1::JOB_STATE_SUCCEEDED);
  job.set_kind(v1::JOB_KIND_DEVICE_COMPARISON);
  job.set_output_path("/state/out");
  job.set_output_kind(v1::OUTPUT_KIND_STUDY);
  v1::StudyResult& result = daemon_->runbook().study_result;
  result.set_verdict(v1::VERDICT_FAIL);
  result.mutable_device_comparison()->set_decision(
      v1::DEVICE_DECISION_STAY_ON_CPU);
  result.add_findings()->set_name("memory.growth");
  const Result shown = RunVerb({"show", kId});
  EXPECT_EQ(shown.code, 0) << shown.err;
  const std::string& out = shown.out;
  for (const char* line :
       {"  kind          device comparison\n", "  result        /state/out\n",
        "Decision: stay on cpu", "memory.growth", "Verdict: fail\n"}) {
    EXPECT_NE(out.find(line), std::string::npos) << out;
  }
  const auto json = nlohmann::json::parse(RunVerb({"show", kId, "--json"}).out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["result"]["verdict"], "FAIL");
  EXPECT_EQ(json["result"]["device_comparison"]["decision"], "STAY_ON_CPU");
}

TEST_F(ShowTest, AStudyIsShownWithoutAResultThatCannotBeRead) {
  AddJob(kId, v1::JOB_STATE_SUCCEEDED).set_kind(v1::JOB_KIND_SMOKE);
  data().fail["GetStudyResult"] = {grpc::StatusCode::PERMISSION_DENIED,
                                   "ann's job\x1b[2J"};
  Result shown = RunVerb({"show", kId});
  EXPECT_EQ(shown.code, 0);
  EXPECT_NE(shown.out.find("SUCCEEDED"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.out.find("Verdict"), std::string::npos) << shown.out;
  EXPECT_EQ(shown.err,
            "mpsctl: what it found cannot be read: ann's job\\x1b[2J\n");
  shown = RunVerb({"show", kId, "--json"});
  EXPECT_FALSE(nlohmann::json::parse(shown.out).contains("result"));
  EXPECT_NE(shown.err, "");
}

TEST_F(ShowTest, WhatToDoNextDependsOnTheState) {
  AddJob(kId, v1::JOB_STATE_FAILED);
  EXPECT_NE(RunVerb({"show", kId}).out.find("mpsctl logs"), std::string::npos);
  EXPECT_NE(RunVerb({"show", kId}).out.find("mpsctl retry"), std::string::npos);
  data().jobs[0].set_state(v1::JOB_STATE_CANCELLED);
  EXPECT_NE(RunVerb({"show", kId}).out.find("mpsctl checkpoints"),
            std::string::npos);
}

TEST_F(ShowTest, JsonIsOneObject) {
  AddJob(kId, v1::JOB_STATE_FAILED).set_spec_json(R"({"model": "m"})");
  const std::string out = RunVerb({"show", kId, "--json"}).out;
  EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 1);
  const auto json = nlohmann::json::parse(out);
  EXPECT_EQ(json["id"], kId);
  EXPECT_EQ(json["state"], "FAILED");
  EXPECT_EQ(json["spec"]["model"], "m");
}

TEST_F(ShowTest, SpecCanBeSubmittedAgain) {
  AddJob(kId, v1::JOB_STATE_FAILED).set_spec_json("{\n  \"model\": \"m\"\n}");
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
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"show", kId},
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
      EXPECT_EQ(text.find(steering), std::string::npos)
          << args[0] << " " << args.back();
    }
    // The line would be forged, but for mpsctl's own "you".
    for (size_t at; (at = text.find("\nyou ")) != std::string::npos;) {
      text.erase(at, 5);
    }
    EXPECT_EQ(text.find("\ny"), std::string::npos) << args[0];
  }
  data().fail["GetRecord"] =
      grpc::Status(grpc::StatusCode::INTERNAL, "a\x1b[2J");
  EXPECT_EQ(RunVerb({"show", kId}).err.find('\x1b'), std::string::npos);
}

}  // namespace
}  // namespace mpsd::client
