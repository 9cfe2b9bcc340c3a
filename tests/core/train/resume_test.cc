// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <set>

#include "core/ckpt/checkpoint.h"
#include "core/optim/schedule.h"
#include "core/train/run_folder.h"
#include "tests/core/golden_model.h"
#include "tests/core/status_matchers.h"
#include "tests/core/train/train_jobs.h"

// What a run resumes from, and what it does not.

namespace mpsd::train {
namespace {

std::vector<std::string> NamesIn(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Cuts a part of the checkpoint of `step` short.
void Spoil(const fs::path& out, int64_t step,
           const char* part = "optimizer.safetensors") {
  fs::resize_file(ckpt::CheckpointPath(out, step) / part, 3);
}

TEST(DamagedCheckpointTest, ASpoiltCheckpointCostsStepsButNotTheRun) {
  JobFolder folder("trainer_spoilt");
  folder.training()["save_steps"] = 2;
  RecordingObserver whole, first, second;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  first.stop_after = 6;
  ASSERT_TRUE(Train(folder, "parts", first).ok());
  const fs::path out = folder.path() / "parts";
  Spoil(out, 6);
  ASSERT_TRUE(Train(folder, "parts", second).ok());
  EXPECT_EQ(second.steps.front().step, 5);
  EXPECT_EQ(AdapterBytes(folder, "whole"), AdapterBytes(folder, "parts"));
  EXPECT_THAT(second.warnings(),
              ElementsAre(AllOf(HasSubstr("step-6"), HasSubstr("is damaged"),
                                HasSubstr("optimizer.safetensors"),
                                HasSubstr("now step-6.damaged"))));
  EXPECT_TRUE(fs::exists(out / "checkpoints" / "step-6.damaged"));
  // Step 6 is there again when the next report comes.
  EXPECT_THAT(second.checkpoints.front().removed_paths, ElementsAre());
}

TEST(DamagedCheckpointTest, ARunWithoutAWholeCheckpointStartsOver) {
  for (const char* part : {"adapter_model.safetensors", "optimizer.safetensors",
                           "rng.safetensors", "trainer_state.json"}) {
    JobFolder folder("trainer_over");
    RecordingObserver whole, first, second;
    ASSERT_TRUE(Train(folder, "whole", whole).ok());
    first.stop_after = 6;
    ASSERT_TRUE(Train(folder, "parts", first).ok());
    const fs::path out = folder.path() / "parts";
    Spoil(out, 4, part);
    fs::remove(ckpt::CheckpointPath(out, 6) / part);
    ASSERT_THAT(Train(folder, "parts", second), IsOk());
    EXPECT_EQ(second.steps.front().step, 1);
    EXPECT_EQ(second.evals.front().step, 0);
    EXPECT_EQ(AdapterBytes(folder, "whole"), AdapterBytes(folder, "parts"));
    ASSERT_EQ(second.warnings().size(), 3u);
    EXPECT_THAT(second.warnings()[0],
                AllOf(HasSubstr("step-6"), HasSubstr("a file is missing")));
    EXPECT_THAT(second.warnings()[1], HasSubstr("step-4"));
    EXPECT_THAT(second.warnings()[2], HasSubstr("the run starts over"));
    EXPECT_THAT(
        NamesIn(out / "checkpoints"),
        ElementsAre("step-4", "step-4.damaged", "step-6.damaged", "step-8"));
    // One of the two is where it was by then.
    EXPECT_THAT(second.checkpoints.front().removed_paths,
                ElementsAre(ckpt::CheckpointPath(out, 6).string()));
  }
}

// Each stop repeats no step of the one before, with any files in the folder.
TEST(DamagedCheckpointTest, NoSaveRemovesTheCheckpointItHasJustWritten) {
  JobFolder folder("trainer_newest");
  folder.training()["max_steps"] = 30;
  folder.training()["eval_steps"] = 5;
  folder.training()["save_steps"] = 5;
  folder.training()["save_total_limit"] = 1;
  folder.training()["load_best_model_at_end"] = true;
  RecordingObserver first;
  first.stop_after = 5;
  ASSERT_TRUE(Train(folder, "out", first).ok());
  const fs::path out = folder.path() / "out";
  fs::copy(ckpt::CheckpointPath(out, 5), ckpt::CheckpointPath(out, 20));
  Spoil(out, 20);
  RecordingObserver second, third;
  second.stop_after = 7;
  auto stopped = Train(folder, "out", second).value();
  EXPECT_EQ(second.steps.front().step, 6);
  EXPECT_EQ(stopped.checkpoint_step, 7);
  EXPECT_THAT(ckpt::ListCheckpoints(out), ElementsAre(5, 7));
  third.stop_after = 9;
  ASSERT_TRUE(Train(folder, "out", third).ok());
  EXPECT_EQ(third.steps.front().step, 8);
}

// What the daemon keeps as rows: those reported, less those reported as gone.
TEST(DamagedCheckpointTest, WhatIsReportedIsWhatLiesThere) {
  for (const int limit : {1, 2, 3}) {
    JobFolder folder("trainer_rows");
    folder.training()["max_steps"] = 24;
    folder.training()["save_steps"] = 1;
    folder.training()["eval_steps"] = 1;
    folder.training()["learning_rate"] = 0.3;  // better and worse in turn
    folder.training()["save_total_limit"] = limit;
    folder.training()["load_best_model_at_end"] = true;
    RecordingObserver first, second;
    first.stop_after = 13;
    ASSERT_TRUE(Train(folder, "out", first).ok());
    const fs::path out = folder.path() / "out";
    Spoil(out, 13);
    ASSERT_TRUE(Train(folder, "out", second).ok());
    std::set<std::string> rows;
    size_t most_removed = 0;
    for (const auto* observer : {&first, &second}) {
      for (const report::Checkpointed& report : observer->checkpoints) {
        for (const std::string& path : report.removed_paths) {
          rows.erase(fs::path(path).filename().string());
        }
        rows.insert(fs::path(report.path).filename().string());
        most_removed = std::max(most_removed, report.removed_paths.size());
      }
    }
    std::set<std::string> folders;
    for (const int64_t step : ckpt::ListCheckpoints(out)) {
      folders.insert(ckpt::CheckpointPath(out, step).filename().string());
    }
    EXPECT_EQ(rows, folders) << limit;
    EXPECT_LE(folders.size(), std::max(limit, 2));
    if (limit == 1) {
      EXPECT_GT(most_removed, 1u);
    }
  }
}

TEST(DamagedCheckpointTest, ARemovalCutShortIsFinishedAtTheNextStart) {
  JobFolder folder("trainer_sweep");
  RecordingObserver first, second;
  first.stop_after = 4;
  ASSERT_TRUE(Train(folder, "out", first).ok());
  const fs::path checkpoints = folder.path() / "out" / "checkpoints";
  fs::copy(checkpoints / "step-4", checkpoints / ".step-2.removed");
  fs::create_directories(checkpoints / ".step-6.99.1.tmp");
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_THAT(NamesIn(checkpoints), ElementsAre("step-4", "step-8"));
  EXPECT_THAT(second.warnings(), ElementsAre());
}

// A run of JobFolder's job that stopped after step 4, with dropout.
class ResumedJobTest : public testing::Test {
 protected:
  ResumedJobTest() : folder_("resume_test") {
    fs::copy(Golden("smollm", "model"), folder_.path() / "model");
    folder_.job()["model"] = "model";
    folder_.training()["lr_scheduler_type"] = "cosine";
  }
  void Stop() {
    RecordingObserver observer;
    observer.stop_after = 4;
    ASSERT_TRUE(Run("out", observer).ok());
  }
  absl::StatusOr<RunResult> Run(const std::string& out, Observer& observer) {
    return Train(folder_.job(), folder_.path(), out, observer);
  }
  // The error of the run that does not resume.
  std::string Refusal() {
    RecordingObserver observer;
    const absl::Status s = Run("out", observer).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(s)) << s;
    EXPECT_TRUE(observer.steps.empty());
    // It has touched nothing.
    EXPECT_TRUE(fs::exists(ckpt::CheckpointPath(folder_.path() / "out", 4)));
    return std::string(s.message());
  }
  void FlipLastByte(const fs::path& file) {
    std::string bytes = *base::ReadFile(file);
    bytes.back() ^= 1;
    std::ofstream(file) << bytes;
  }

  JobFolder folder_;
};

TEST_F(ResumedJobTest, OtherLoggingSavingAndEvaluatingChangeNoByte) {
  RecordingObserver whole, rest;
  ASSERT_TRUE(Run("whole", whole).ok());
  Stop();
  folder_.job()["name"] = "another name";
  folder_.training()["logging_steps"] = 3;
  folder_.training()["save_steps"] = 5;
  folder_.training()["save_total_limit"] = 2;
  folder_.training()["eval_steps"] = 1;
  folder_.training()["per_device_eval_batch_size"] = 1;
  folder_.training()["early_stopping_patience"] = 30;
  fs::rename(folder_.path() / "model", folder_.path() / "moved");
  folder_.job()["model"] = "moved";
  ASSERT_THAT(Run("out", rest), IsOk());
  EXPECT_EQ(rest.steps.front().step, 5);
  EXPECT_EQ(AdapterBytes(folder_.path() / "whole"),
            AdapterBytes(folder_.path() / "out"));
}

TEST_F(ResumedJobTest, DifferencesAreNamedWithBothValues) {
  Stop();
  folder_.training()["learning_rate"] = 5e-3;
  folder_.job()["lora"]["r"] = 2;
  EXPECT_THAT(
      Refusal(),
      AllOf(HasSubstr("holds checkpoints of another job: "),
            HasSubstr("lora.r is 2, the checkpoint's is 4; "),
            HasSubstr(
                "training.learning_rate is 0.005, the checkpoint's is 0.01"),
            HasSubstr("; choose another folder")));
  FlipLastByte(folder_.path() / "model" / "model.safetensors");
  EXPECT_THAT(Refusal(), HasSubstr("model/model.safetensors is sha256 "));
  std::ofstream(folder_.path() / "train.jsonl", std::ios::app)
      << R"({"text": "one row more"})"
      << "\n";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("tokens.train is sha256 "),
                               Not(HasSubstr("data.train"))));
}

// The tokens are the data's identity, not the files that they are made of.
TEST_F(ResumedJobTest, OtherFilesOfTheSameTokensResume) {
  Stop();
  const fs::path data = folder_.path() / "train.jsonl";
  std::ofstream(data, std::ios::app) << "\n";
  std::ofstream(folder_.path() / "model" / "chat_template.jinja") << "unused";
  RecordingObserver rest;
  ASSERT_THAT(Run("out", rest), IsOk());
  EXPECT_EQ(rest.steps.front().step, 5);
}

// The template shows the time; the next attempt begins at another, and another
// job's tokens are its own.
TEST_F(ResumedJobTest, ATemplatesTimeIsThatOfTheFirstAttempt) {
  std::ofstream(folder_.path() / "model" / "chat_template.jinja")
      << "{{ strftime_now('%f') }}{% for m in messages %}{% generation %}"
         "{{ m.content }}{% endgeneration %}{{ eos_token }}{% endfor %}";
  folder_.training()["assistant_only_loss"] = true;
  for (const char* name : {"train.jsonl", "eval.jsonl"}) {
    std::ofstream rows(folder_.path() / name);
    for (int i = 0; i < 6; ++i) {
      rows << R"({"messages": [{"role": "assistant", "content": "words"}]})"
           << "\n";
    }
  }
  const auto tokens = [&](const std::string& out, int64_t step) {
    return json::parse(*base::ReadFile(
        ckpt::CheckpointPath(folder_.path() / out, step) /
        "trainer_state.json"))["fingerprint"]["values"]["tokens.train"];
  };
  Stop();
  RecordingObserver rest, other;
  fs::remove_all(folder_.path() / "tokens");  // the cache
  ASSERT_THAT(Run("out", rest), IsOk());
  EXPECT_EQ(rest.steps.front().step, 5);
  EXPECT_EQ(tokens("out", 8), tokens("out", 4));
  ASSERT_THAT(Run("other", other), IsOk());
  EXPECT_NE(tokens("other", 4), tokens("out", 4));
  EXPECT_THAT(other.warnings(),
              Contains(HasSubstr("no label teaches the model to stop")));
}

// Of 0.1.0 before it wrote digests, tokens and its start.
TEST_F(ResumedJobTest, ACheckpointOfAnEarlierReleaseResumes) {
  RecordingObserver whole, rest;
  ASSERT_TRUE(Run("whole", whole).ok());
  Stop();
  const fs::path out = folder_.path() / "out";
  const fs::path path = ckpt::CheckpointPath(out, 4) / "trainer_state.json";
  auto state = nlohmann::ordered_json::parse(*base::ReadFile(path));
  auto& values = state["fingerprint"]["values"];
  ASSERT_EQ(state.erase("sha256") + values.erase("tokens.train") +
                values.erase("tokens.eval"),
            3u);
  std::ofstream(path) << state.dump();
  json run = RunJson(out);
  ASSERT_EQ(run.erase("started_at"), 1u);
  std::ofstream(out / "run.json") << run.dump();
  const fs::path data = folder_.path() / "train.jsonl";
  const std::string rows = *base::ReadFile(data);
  std::ofstream(data, std::ios::app) << "\n";
  EXPECT_THAT(Refusal(), AllOf(HasSubstr("data.train is sha256 "),
                               Not(HasSubstr("tokens"))));
  std::ofstream(data) << rows;
  ASSERT_THAT(Run("out", rest), IsOk());
  EXPECT_EQ(rest.steps.front().step, 5);
  EXPECT_EQ(AdapterBytes(folder_.path() / "whole"), AdapterBytes(out));
}

// Weights next to the model's that are not read.
TEST_F(ResumedJobTest, StrayFilesOfTheModelAreNothingToIt) {
  Stop();
  std::ofstream(folder_.path() / "model" / "other.safetensors") << "x";
  std::ofstream(folder_.path() / "model" / "README.md") << "x";
  RecordingObserver rest;
  EXPECT_TRUE(Run("out", rest).ok());
}

TEST_F(ResumedJobTest, AnotherStartAdapterIsNamed) {
  RecordingObserver observer;
  folder_.training()["max_steps"] = 6;
  ASSERT_TRUE(Run("first", observer).ok());
  folder_.job()["adapter"] = "first/adapter";
  folder_.job().erase("lora");
  Stop();
  FlipLastByte(folder_.path() / "first/adapter/adapter_model.safetensors");
  EXPECT_THAT(Refusal(),
              HasSubstr("adapter/adapter_model.safetensors is sha256 "));
}

// The rates are those of tests/golden/resumed_rates.json: the next one is the
// one that the first length had planned.
TEST_F(ResumedJobTest, ALongerRunResumes) {
  Stop();
  for (const int64_t steps : {12, 6}) {
    folder_.training()["max_steps"] = steps;
    fs::remove_all(folder_.path() / "longer");
    fs::copy(folder_.path() / "out", folder_.path() / "longer",
             fs::copy_options::recursive);
    RecordingObserver rest;
    auto result = Run("longer", rest).value();
    EXPECT_EQ(result.steps, steps);
    ASSERT_EQ(rest.steps.front().step, 5);
    EXPECT_EQ(rest.steps.front().total_steps, steps);
    spec::TrainingSpec training;
    training.learning_rate = 1e-2;
    training.lr_scheduler_type = "cosine";
    EXPECT_EQ(rest.steps.front().learning_rate,
              optim::Schedule::Create(training, 8)->LearningRate(4));
    for (size_t i = 1; i < rest.steps.size(); ++i) {
      EXPECT_EQ(rest.steps[i].learning_rate,
                optim::Schedule::Create(training, steps)->LearningRate(4 + i));
    }
    EXPECT_EQ(RunJson(folder_.path() / "longer")["total_steps"], steps);
  }
}

TEST_F(ResumedJobTest, AFinishedRunTrainsOn) {
  RecordingObserver first, rest;
  ASSERT_TRUE(Run("out", first).ok());
  const std::string before = AdapterBytes(folder_.path() / "out");
  folder_.training()["max_steps"] = 12;
  auto result = Run("out", rest).value();
  EXPECT_EQ(rest.steps.front().step, 9);
  EXPECT_EQ(result.steps, 12);
  EXPECT_NE(AdapterBytes(folder_.path() / "out"), before);
}

// The same gradient, up to rounding.
TEST_F(ResumedJobTest, TheRowsOfAStepMayBeSplitOtherwise) {
  folder_.job()["lora"]["lora_dropout"] = 0;
  folder_.training()["gradient_accumulation_steps"] = 2;
  RecordingObserver whole, rest;
  ASSERT_TRUE(Run("whole", whole).ok());
  Stop();
  folder_.training()["per_device_train_batch_size"] = 1;
  folder_.training()["gradient_accumulation_steps"] = 4;
  folder_.training()["gradient_checkpointing"] = true;
  ASSERT_THAT(Run("out", rest), IsOk());
  ASSERT_EQ(rest.steps.size(), 4u);
  for (size_t i = 0; i < rest.steps.size(); ++i) {
    EXPECT_NEAR(rest.steps[i].loss, whole.steps[4 + i].loss, 1e-5);
  }
  folder_.training()["gradient_accumulation_steps"] = 2;
  RecordingObserver other;
  EXPECT_THAT(Run("out", other),
              Says("gradient_accumulation_steps is 2, the checkpoint's "
                   "is 4"));
}

TEST_F(ResumedJobTest, AFingerprintThatCannotBeReadIsDamage) {
  Stop();
  const fs::path path =
      ckpt::CheckpointPath(folder_.path() / "out", 4) / "trainer_state.json";
  json state = json::parse(*base::ReadFile(path));
  EXPECT_EQ(state["fingerprint"]["values"]["lora.r"], 4);
  state["fingerprint"] = {{"version", 1}};
  std::ofstream(path) << state.dump();
  RecordingObserver rest;
  ASSERT_TRUE(Run("out", rest).ok());
  EXPECT_EQ(rest.steps.front().step, 1);
  EXPECT_THAT(rest.warnings()[0], HasSubstr("fingerprint cannot be read"));
}

TEST(ManifestTest, HoldsTheWholeSpecAndTheResult) {
  const auto folder = FreshFolder("manifest");
  Manifest manifest;
  manifest.state = "SUCCEEDED";
  manifest.spec.model = "/models/x";
  manifest.spec.training.seed = 11;
  manifest.resumed_at_steps = {4, 9};
  manifest.progress.eval_loss_before = 2.5;
  manifest.environment = {{"PYTORCH_X", "1"}};
  manifest.memory.peak_allocated = 7;
  manifest.cpu_fallback_ops = {{"aten::a", 3}};
  manifest.warnings = {"memory grows", "not UTF-8: \xff"};
  manifest.attention.training = {{"blocked", "flash"}, {"blocked"}};
  ASSERT_TRUE(WriteManifest(folder, manifest).ok());
  const auto json = RunJson(folder);
  EXPECT_EQ(json["state"], "SUCCEEDED");
  EXPECT_EQ(json["seed"], 11);
  EXPECT_EQ(json["spec"]["lora"]["r"], 8);
  EXPECT_EQ(json["spec"]["training"]["adam_beta2"], 0.999);
  EXPECT_EQ(json["result"]["eval_loss_before"], 2.5);
  EXPECT_TRUE(json["result"]["eval_loss_after"].is_null());
  EXPECT_EQ(json["environment"]["PYTORCH_X"], "1");
  EXPECT_EQ(json["memory"]["peak_allocated_bytes"], 7);
  EXPECT_TRUE(json["memory"]["driver_overhead_growth_bytes"].is_null());
  EXPECT_TRUE(json["memory"]["peak_footprint_bytes"].is_null());  // no watch
  EXPECT_EQ(json["warnings"],
            nlohmann::json::array({"memory grows", "not UTF-8: \uFFFD"}));
  EXPECT_EQ(json["attention"]["training"]["forward"], "blocked and flash");
  EXPECT_EQ(json["attention"]["training"]["backward"], "blocked");
  EXPECT_TRUE(json["attention"]["evaluation"].is_null());
  const EarlierAttempts earlier = ReadEarlierAttempts(folder, 12);
  AttentionNames names = earlier.attention;
  EXPECT_EQ(names.training, manifest.attention.training);
  names.Add({{{"flash"}, {"flash"}}, {"tiled"}});
  EXPECT_THAT(names.training.backward, ElementsAre("blocked", "flash"));
  EXPECT_THAT(names.evaluation, ElementsAre("tiled"));
  EXPECT_THAT(earlier.cpu_fallback_ops,
              ElementsAre(testing::Pair("aten::a", 3)));
  EXPECT_THAT(earlier.resumed_at_steps, ElementsAre(4, 9, 12));
  const EarlierAttempts over = ReadEarlierAttempts(folder, 0);
  EXPECT_TRUE(over.cpu_fallback_ops.empty());
  EXPECT_TRUE(over.attention.training.forward.empty());
  EXPECT_THAT(over.resumed_at_steps, ElementsAre(4, 9));
}

// A loss before training is no result of it.
TEST(ManifestTest, TheResultIsWhatTheStepsGave) {
  const auto folder = FreshFolder("manifest_result");
  Manifest manifest;
  ckpt::TrainerState& state = manifest.progress;
  state.eval_loss = state.eval_loss_before = 2.0;
  state.eval_metrics = {{"perplexity", 7.4}};
  const auto result = [&] {
    EXPECT_TRUE(WriteManifest(folder, manifest).ok());
    return RunJson(folder)["result"];
  };
  EXPECT_TRUE(result()["train_loss"].is_null());
  EXPECT_TRUE(result()["eval_loss_after"].is_null());
  EXPECT_TRUE(result()["eval_metrics"].empty());
  EXPECT_FALSE(result().contains("best"));
  state.step = state.eval_step = state.best_step = 4;
  state.loss_sum = 6;
  state.best_metric = 2.0;
  EXPECT_EQ(result()["train_loss"], 1.5);
  EXPECT_EQ(result()["eval_loss_after"], 2.0);
  EXPECT_EQ(result()["eval_metrics"]["perplexity"], 7.4);
  EXPECT_EQ(result()["best"]["step"], 4);
}

// A file of another kind of network has thousands.
TEST(ManifestTest, ListsTheFirstOfTheTensorsThatNothingUsed) {
  const auto folder = FreshFolder("manifest_tensors");
  Manifest manifest;
  manifest.load_report.missing = {"score.weight"};
  for (int i = 0; i < 5000; ++i) {
    manifest.load_report.unused.push_back("tensor" + std::to_string(i));
  }
  ASSERT_TRUE(WriteManifest(folder, manifest).ok());
  const auto json = RunJson(folder);
  EXPECT_EQ(json["unused_tensors"]["count"], 5000);
  EXPECT_EQ(json["unused_tensors"]["names"].size(), 100u);
  EXPECT_EQ(json["unused_tensors"]["names"][99], "tensor99");
  EXPECT_EQ(json["missing_tensors"],
            nlohmann::json({{"count", 1}, {"names", {"score.weight"}}}));
}

report::Progress Step(int64_t step) {
  report::Progress report;
  report.step = step;
  report.loss = 0.1 + 0.2;
  return report;
}

TEST(RunFolderTest, AResumedRunWritesEveryStepOnce) {
  const auto path = FreshFolder("run_folder");
  {
    auto folder = *RunFolder::Open(path, 0, -1);
    for (int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(folder->Append(Step(i)).ok());
    const report::Evaluated before{0, 3.5, 1, 1, {}};
    const report::Evaluated after{4, 2.5, 1, 1, {{"f1", 0.5}}};
    ASSERT_TRUE(folder->Append(before).ok());
    ASSERT_TRUE(folder->Append(after).ok());
  }
  std::ofstream(path / "metrics.jsonl", std::ios::app) << R"({"step": 6, "lo)";
  {
    auto folder = *RunFolder::Open(path, 3, 0);
    ASSERT_TRUE(folder->Append(Step(4)).ok());
  }
  EXPECT_THAT(StepsIn(path / "metrics.jsonl"), ElementsAre(1, 2, 3, 4));
  const std::string evals = *base::ReadFile(path / "eval.jsonl");
  EXPECT_THAT(evals, HasSubstr("3.5"));
  EXPECT_THAT(evals, testing::Not(HasSubstr("2.5")));
}

// Step 0 is evaluated again by a run that begins again, and so is a step that
// a stop took from its evaluation.
TEST(RunFolderTest, AnEvaluationThatIsRepeatedHasOneLine) {
  const auto path = FreshFolder("run_folder_evals");
  for (const int64_t seen : {-1, -1, 0}) {
    auto folder = *RunFolder::Open(path, seen > -1 ? 4 : 0, seen);
    const int64_t step = seen > -1 ? 4 : 0;
    ASSERT_TRUE(folder->Append(report::Evaluated{step, 3.5, 1, 1, {}}).ok());
  }
  EXPECT_THAT(StepsIn(path / "eval.jsonl"), ElementsAre(0, 4));
}

TEST(RunFolderTest, LinesHaveTheReportsMembers) {
  report::Progress report = Step(7);
  report.total_steps = 8;
  report.epoch = 0.5;
  report.learning_rate = 2e-4;
  report.grad_norm = 2;
  report.tokens = 60;
  report.padded_tokens = 80;
  report.label_tokens = 30;
  report.seconds = 0.25;
  report.data_wait_seconds = 0.125;
  report.device = "mps";
  report.memory = {1, 2, 3, 4, 5};
  report.cpu_fallback_ops = {{"aten::a", 2}};
  EXPECT_EQ(
      ToJsonLine(report),
      R"({"step":7,"total_steps":8,"epoch":0.5,"loss":0.30000000000000004,)"
      R"("learning_rate":0.0002,"grad_norm":2.0,"tokens":60,)"
      R"("label_tokens":30,"seconds":0.25,"padded_tokens":80,)"
      R"("data_wait_seconds":0.125,"device":"mps","memory":{)"
      R"("current_allocated_bytes":1,"driver_allocated_bytes":2,)"
      R"("recommended_max_bytes":3,"footprint_bytes":4,)"
      R"("peak_allocated_bytes":5},"cpu_fallback_ops":{"aten::a":2}})");
  report.device_utilization_ratio = 0.5;
  EXPECT_THAT(ToJsonLine(report),
              testing::EndsWith(R"(,"device_utilization_ratio":0.5})"));
  report.device_utilization_ratio.reset();
  // As on the CPU.
  report.memory = {};
  report.memory.footprint_bytes = 4;
  report.cpu_fallback_ops.clear();
  EXPECT_THAT(
      ToJsonLine(report),
      testing::EndsWith(R"("device":"mps","memory":{"footprint_bytes":4}})"));
  EXPECT_EQ(ToJsonLine(report::Evaluated{4, 2.5, 9, 0.5, {{"f1", 0.5}}}),
            R"({"step":4,"eval_loss":2.5,"label_tokens":9,"seconds":0.5,)"
            R"("eval_f1":0.5})");
}

std::vector<std::string> EventFiles(const fs::path& path) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(path / "runs")) {
    files.push_back(*base::ReadFile(entry.path()));
  }
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return files;
}

TEST(RunFolderTest, CurvesHaveAFileAnAttempt) {
  const auto path = FreshFolder("run_folder_curves");
  {
    auto folder = *RunFolder::Open(path, 0, -1);
    for (int64_t i = 1; i <= 5; ++i) ASSERT_TRUE(folder->Append(Step(i)).ok());
    ASSERT_TRUE(folder->Append(report::Evaluated{5, 2, 1, 1, {}}).ok());
  }
  // A run without evaluations, too, continues after its checkpoint's step.
  auto folder = *RunFolder::Open(path, 3, -1);
  ASSERT_TRUE(folder->Append(Step(4)).ok());
  const auto files = EventFiles(path);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_THAT(files[1], HasSubstr("eval/loss"));
  // The step 4 (field 2) and a session's start (field 7).
  EXPECT_THAT(files[0], HasSubstr("\x10\x04\x3a\x02\x08\x01"));
  EXPECT_THAT(files[0], HasSubstr("train/loss"));
}

}  // namespace
}  // namespace mpsd::train
