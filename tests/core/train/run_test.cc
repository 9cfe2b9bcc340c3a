// SPDX-License-Identifier: Apache-2.0
#include "core/train/run.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/ckpt/checkpoint.h"
#include "core/generate/prompt_text.h"
#include "core/lora/peft_folder.h"
#include "core/train/classification.h"
#include "core/train/stages.h"
#include "core/train/task_pipeline.h"
#include "tests/core/job_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/core/train/train_jobs.h"

namespace mpsd::train {
namespace {

TEST(RunTest, ARunGivesEverythingItPromises) {
  const JobFolder folder("run_run");
  RecordingObserver observer;
  auto result = Train(folder, "out", observer).value();
  EXPECT_EQ(result.steps, 8);
  EXPECT_EQ(observer.steps.size(), 8u);
  ASSERT_EQ(observer.evals.size(), 3u);  // before, in the middle, at the end
  EXPECT_EQ(observer.evals[0].step, 0);
  EXPECT_LT(*result.eval_loss_after, *result.eval_loss_before);
  EXPECT_EQ(observer.checkpoints.size(), 2u);
  const fs::path out = folder.path() / "out";
  for (const char* file :
       {"metrics.jsonl", "eval.jsonl", "runs", "run.json", "checkpoints/step-8",
        "adapter/adapter_config.json", "adapter/adapter_model.safetensors"}) {
    EXPECT_TRUE(fs::exists(out / file)) << file;
  }
  for (const report::Progress& step : observer.steps) {
    EXPECT_GT(step.tokens, 0);
    EXPECT_GE(step.padded_tokens, step.tokens);
    EXPECT_GT(step.grad_norm, 0);
  }
  // A finished run runs no step again.
  const std::string bytes = AdapterBytes(folder, "out");
  RecordingObserver second;
  ASSERT_THAT(Train(folder, "out", second), IsOk());
  EXPECT_TRUE(second.steps.empty());
  EXPECT_EQ(AdapterBytes(folder, "out"), bytes);
}

TEST(RunTest, ARunWhoseCurvesCannotBeWrittenWarnsAndContinues) {
  const JobFolder folder("run_no_curves");
  fs::create_directories(folder.path() / "out");
  std::ofstream(folder.path() / "out" / "runs") << "a file";
  RecordingObserver observer;
  auto result = Train(folder, "out", observer).value();
  EXPECT_EQ(result.steps, 8);
  EXPECT_THAT(observer.warnings(),
              testing::Contains(HasSubstr("TensorBoard's curves")));
}

TEST(RunTest, AKilledRunGoesBackToItsLastCheckpoint) {
  const JobFolder folder("run_killed");
  RecordingObserver whole;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  RecordingObserver first, second;
  first.stop_after = 6;
  first.stop_kind = StopRequest::kCancel;  // no checkpoint at the stop
  auto stopped = Train(folder, "parts", first);
  EXPECT_EQ(stopped->checkpoint_step, 4);
  ASSERT_TRUE(Train(folder, "parts", second).ok());
  EXPECT_EQ(second.steps.front().step, 5);
  EXPECT_EQ(AdapterBytes(folder, "whole"), AdapterBytes(folder, "parts"));
}

TEST(RunTest, Bf16TrainsWithFp32Adapters) {
  JobFolder folder("run_bf16");
  folder.training()["bf16"] = true;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer).value();
  EXPECT_LT(*result.eval_loss_after, *result.eval_loss_before);
  auto file = *tensorfile::SafetensorsFile::Open(
      folder.path() / "out/adapter/adapter_model.safetensors");
  for (const auto& [name, entry] : file->entries()) {
    EXPECT_EQ(entry.dtype, at::kFloat) << name;
  }
}

struct Case {
  std::function<void(JobFolder&)> spoil;
  absl::StatusCode code;
  const char* message;
};

TEST(OpenTest, WhatDoesNotFitTheModelIsSaidBeforeDataAreRead) {
  const Case cases[] = {
      {[](JobFolder& f) { f.job()["model"] = "/no/such/model"; },
       absl::StatusCode::kNotFound, "/no/such/model"},
      {[](JobFolder& f) { f.job()["lora"]["target_modules"] = {"q_porj"}; },
       absl::StatusCode::kInvalidArgument, "q_porj"},
      {[](JobFolder& f) {
         f.job()["lora"]["rank_pattern"] = {{"q_porj", 2}};
       },
       absl::StatusCode::kInvalidArgument,
       "lora.rank_pattern: \"q_porj\" matches no"},
      {[](JobFolder& f) {
         f.job()["adapter"] = Golden("smollm", "adapter").string();
         f.job()["lora"]["r"] = 2;
       },
       absl::StatusCode::kInvalidArgument, "leave lora out"}};
  for (const Case& c : cases) {
    JobFolder folder("open_refused");
    c.spoil(folder);
    RecordingObserver observer;
    EXPECT_THAT(Train(folder, "out", observer), Fails(c.code, c.message));
    EXPECT_TRUE(observer.stages.empty());
  }
}

TEST(OpenTest, AMissingDeviceSaysWhatItNeeds) {
  if (device::OpenMps().ok()) return;  // a Mac: nothing is missing
  JobFolder folder("open_device");
  folder.job()["device"] = "mps";
  RecordingObserver observer;
  EXPECT_THAT(Train(folder, "out", observer),
              Fails(absl::StatusCode::kFailedPrecondition, "Apple-silicon"));
}

TEST(OpenTest, FieldsThatChangeNothingAreSaid) {
  JobFolder folder("open_idle");
  folder.training()["early_stopping_threshold"] = 0.5;
  folder.training()["max_length"] = 4096;
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_THAT(observer.warnings(),
              testing::IsSupersetOf(
                  {testing::HasSubstr("early_stopping_threshold has no effect"),
                   testing::HasSubstr("max_length is 4096, the model's "
                                      "max_position_embeddings")}));
}

json ConfigOf(const JobFolder& folder, const std::string& out) {
  return json::parse(
      *base::ReadFile(folder.path() / out / "adapter/adapter_config.json"));
}

// As PeftModel.from_pretrained(is_trainable=True) keeps it.
TEST(OpenTest, AStartFromAnAdapterContinuesAndKeepsItsDropout) {
  JobFolder folder("open_start_dropout");
  folder.training()["max_steps"] = 4;
  RecordingObserver observer, with_set, as_it_is, without;
  ASSERT_TRUE(Train(folder, "one", observer).ok());
  folder.job()["adapter"] = (folder.path() / "one" / "adapter").string();
  folder.job().erase("lora");
  ASSERT_TRUE(Train(folder, "kept", as_it_is).ok());
  EXPECT_NEAR(as_it_is.evals.front().eval_loss, observer.evals.back().eval_loss,
              1e-6);
  EXPECT_EQ(ConfigOf(folder, "kept")["lora_dropout"], 0.1);
  folder.job()["lora"] = {{"lora_dropout", 0.1}};
  ASSERT_TRUE(Train(folder, "set", with_set).ok());
  EXPECT_EQ(AdapterBytes(folder, "kept"), AdapterBytes(folder, "set"));
  folder.job()["lora"] = {{"lora_dropout", 0}};
  ASSERT_TRUE(Train(folder, "without", without).ok());
  EXPECT_EQ(ConfigOf(folder, "without")["lora_dropout"], 0.0);
  EXPECT_NE(AdapterBytes(folder, "kept"), AdapterBytes(folder, "without"));
}

class AutoBatchTest : public testing::Test {
 protected:
  AutoBatchTest() {
    folder_.training()["per_device_train_batch_size"] = 2;
    folder_.training()["gradient_accumulation_steps"] = 3;
    folder_.job()["lora"]["lora_dropout"] = 0;
  }
  absl::StatusOr<RunResult> Train(const std::string& out,
                                  RecordingObserver& observer) {
    return train::Train(folder_, out, observer);
  }
  json Choice(const std::string& out) {
    return RunJson(folder_.path() / out)["micro_batch"];
  }
  // Trains the first step of the run `out`, whose next attempt finds that it
  // began with this choice.
  void BeginWith(const std::string& out, int64_t rows, bool checkpointing,
                 bool selective = false) {
    RecordingObserver first;
    first.stop_after = 1;
    ASSERT_TRUE(Train(out, first).ok());
    const auto file = folder_.path() / out / "run.json";
    json run = json::parse(*base::ReadFile(file));
    json& plan = run["micro_batch"];
    plan["rows"] = rows;
    plan["gradient_checkpointing"] = checkpointing;
    plan["recompute_granularity"] = selective ? "selective" : "full";
    ASSERT_TRUE(base::WriteFileAtomic(file, run.dump()).ok());
  }

  JobFolder folder_{"auto_batch"};
};

// The same rows and the same gradient, up to rounding.
void ExpectSameSteps(const std::vector<report::Progress>& steps,
                     const std::vector<report::Progress>& expected) {
  ASSERT_EQ(steps.size(), expected.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    const report::Progress &a = steps[i], &b = expected[i];
    EXPECT_NEAR(a.loss, b.loss, 1e-5) << i;
    EXPECT_NEAR(a.grad_norm, b.grad_norm, 1e-4 * b.grad_norm) << i;
    EXPECT_EQ(a.tokens, b.tokens);
    EXPECT_EQ(a.label_tokens, b.label_tokens);
  }
}

TEST_F(AutoBatchTest, TheRunIsTheSameForEveryChoice) {
  RecordingObserver as_stated;
  ASSERT_TRUE(Train("stated", as_stated).ok());
  EXPECT_TRUE(Choice("stated").is_null());
  folder_.training()["auto_find_batch_size"] = true;
  RecordingObserver tried;
  ASSERT_THAT(Train("tried", tried), IsOk());
  EXPECT_EQ(Choice("tried")["from"], "trial");
  EXPECT_FALSE(Choice("tried")["trials"].empty());
  struct Way {
    int64_t rows;
    bool checkpointing, selective;
  };
  for (const auto& [rows, checkpointing, selective] : {Way{1, true, false},
                                                       {2, true, true},
                                                       {3, false, false},
                                                       {6, true, false}}) {
    const std::string out = "rows" + std::to_string(rows);
    BeginWith(out, rows, checkpointing, selective);
    RecordingObserver observer;
    ASSERT_TRUE(Train(out, observer).ok());
    EXPECT_EQ(Choice(out)["from"], "resumed");
    EXPECT_EQ(Choice(out)["rows"], rows);
    EXPECT_EQ(Choice(out)["accumulation"], 6 / rows);
    EXPECT_EQ(Choice(out)["gradient_checkpointing"], checkpointing);
    EXPECT_EQ(Choice(out).value("recompute_granularity", "none"),
              !checkpointing ? "none" : (selective ? "selective" : "full"));
    ExpectSameSteps(observer.steps,
                    {as_stated.steps.begin() + 1, as_stated.steps.end()});
  }
}

TEST_F(AutoBatchTest, ShortRowsSideBySideTrainTheSame) {
  folder_.training()["padding_free"] = false;
  RecordingObserver padded, separate;
  ASSERT_TRUE(Train("padded", padded).ok());
  folder_.training()["padding_free"] = true;
  ASSERT_TRUE(Train("separate", separate).ok());
  ExpectSameSteps(separate.steps, padded.steps);
  int64_t before = 0, after = 0;
  for (const auto& step : padded.steps) before += *step.padded_tokens;
  for (const auto& step : separate.steps) after += *step.padded_tokens;
  EXPECT_LT(after, before);
}

TEST_F(AutoBatchTest, AResumedRunKeepsToWhatItBeganWith) {
  folder_.training()["auto_find_batch_size"] = true;
  folder_.job()["lora"]["lora_dropout"] = 0.1;  // masks depend on the choice
  BeginWith("whole", 3, false);
  fs::copy(folder_.path() / "whole", folder_.path() / "parts",
           fs::copy_options::recursive);
  RecordingObserver whole, part, rest;
  ASSERT_TRUE(Train("whole", whole).ok());
  part.stop_after = 3;
  ASSERT_TRUE(Train("parts", part).ok());
  ASSERT_TRUE(Train("parts", rest).ok());
  EXPECT_EQ(Choice("parts")["from"], "resumed");
  EXPECT_EQ(Choice("parts")["rows"], 3);
  EXPECT_EQ(AdapterBytes(folder_, "parts"), AdapterBytes(folder_, "whole"));
}

TEST(PrepareTest, EpochsSetTheLengthWhenMaxStepsDoesNot) {
  JobFolder folder("prepare_epochs");
  folder.training().erase("max_steps");
  folder.training()["num_train_epochs"] = 1.5;
  folder.training()["eval_steps"] = 0;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer).value();
  EXPECT_EQ(result.steps, 8);  // ceil(1.5 · ceil(10 rows / 2))
  std::vector<int64_t> eval_steps;
  for (const auto& eval : observer.evals) eval_steps.push_back(eval.step);
  EXPECT_THAT(eval_steps, ElementsAre(0, 5, 8));
  EXPECT_DOUBLE_EQ(observer.steps.back().epoch, 1.6);
}

// run.json names what ran, a restart's share included.
TEST(PrepareTest, TheAttentionThatRanIsNamed) {
  struct Case {
    std::function<void(JobFolder&)> change;
    const char *forward, *backward;
  };
  const char* const kAten = "scaled_dot_product_attention";
  const Case cases[] = {
      {[](JobFolder&) {}, "flash", "blocked"},
      {[](JobFolder& f) { f.training()["packing"] = true; }, "flash", "flash"},
      {[](JobFolder& f) { f.job()["gradients"] = "autograd"; }, kAten, kAten},
      {[](JobFolder& f) {
         f.job().erase("lora");
         f.job()["fine_tune_type"] = "full";
       },
       "flash", "blocked"},
  };
  for (const Case& c : cases) {
    JobFolder folder("prepare_attention");
    c.change(folder);
    const auto attention = [&] {
      return RunJson(folder.path() / "out")["attention"];
    };
    RecordingObserver first, second, third;
    first.stop_at_stage = "evaluating";  // before the first step
    ASSERT_TRUE(Train(folder, "out", first).ok());
    EXPECT_TRUE(attention()["training"]["forward"].is_null());
    ASSERT_TRUE(Train(folder, "out", second).ok());
    ASSERT_TRUE(Train(folder, "out", third).ok());  // no step again
    EXPECT_EQ(attention()["training"]["forward"], c.forward);
    EXPECT_EQ(attention()["training"]["backward"], c.backward);
    EXPECT_EQ(attention()["evaluation"], kAten);
  }
}

TEST(PrepareTest, AResultNamesItsModelAsTheJobDoes) {
  JobFolder folder("prepare_model_id");
  folder.training()["max_steps"] = 1;
  folder.training()["eval_steps"] = 0;
  const fs::path snapshot =
      folder.path() / "hub" / "models--me--tiny" / "snapshots" / "abc123";
  fs::create_directories(snapshot.parent_path());
  fs::copy(Golden("smollm", "model"), snapshot);
  const fs::path refs = snapshot.parent_path().parent_path() / "refs";
  fs::create_directories(refs);
  std::ofstream(refs / "main") << "abc123";
  RecordingObserver observer;
  const auto name_of = [&](const std::string& out) {
    EXPECT_THAT(Train(folder, out, observer), IsOk());
    const json config = ConfigOf(folder, out);
    return std::pair{config["base_model_name_or_path"], config["revision"]};
  };
  setenv("HF_HUB_CACHE", (folder.path() / "hub").c_str(), 1);
  folder.job()["model"] = "me/tiny";  // by hand
  EXPECT_EQ(name_of("id"), (std::pair<json, json>{"me/tiny", "abc123"}));
  unsetenv("HF_HUB_CACHE");
  const json run = RunJson(folder.path() / "id");
  EXPECT_EQ(run["model"]["folder"], snapshot.string());
  EXPECT_EQ(run["model"]["name"], "me/tiny");
  folder.job()["model"] = snapshot.string();
  EXPECT_EQ(name_of("path"),
            (std::pair<json, json>{snapshot.string(), nullptr}));
  folder.job()["model_id"] = "me/tiny";  // as mpsd hands it on
  EXPECT_EQ(name_of("mpsd"), (std::pair<json, json>{"me/tiny", "abc123"}));
}

// A copy of the golden model whose weights end early.
std::string SpoiltModel() {
  const auto folder = FreshFolder("load_spoilt_model");
  fs::copy(Golden("smollm", "model"), folder,
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const auto file = folder / "model.safetensors";
  fs::resize_file(file, fs::file_size(file) / 2);
  return folder.string();
}

TEST(LoadTest, BadJobsAreRefusedBeforeTheFirstStep) {
  const Case cases[] = {
      {[](JobFolder& f) {
         std::ofstream(f.path() / "train.jsonl", std::ios::app)
             << "{\"txet\": 1}\n";
       },
       absl::StatusCode::kInvalidArgument, "train.jsonl:11"},
      {[](JobFolder& f) {
         std::ofstream(f.path() / "eval.jsonl") << "nonsense\n";
       },
       absl::StatusCode::kInvalidArgument, "eval.jsonl:1"},
      {[](JobFolder& f) { fs::remove(f.path() / "train.jsonl"); },
       absl::StatusCode::kNotFound, "train.jsonl"},
      {[](JobFolder& f) {
         f.job()["adapter"] = Golden("llama2", "adapter").string();
         f.job().erase("lora");
       },
       absl::StatusCode::kInvalidArgument, "has shape"},
      // The data decide which metrics a job has, the weights do not.
      {[](JobFolder& f) {
         f.job()["model"] = SpoiltModel();
         f.training()["metric_for_best_model"] = "acuracy";
       },
       absl::StatusCode::kInvalidArgument, "training.metric_for_best_model"}};
  for (const Case& c : cases) {
    JobFolder folder("load_test");
    c.spoil(folder);
    RecordingObserver observer;
    EXPECT_THAT(Train(folder, "out", observer), Fails(c.code, c.message));
    EXPECT_TRUE(observer.steps.empty());
  }
}

// The base in four and in eight bits learns about what the whole one learns.
TEST(LoadTest, AQuantisedBaseIsTrainedOn) {
  std::vector<double> losses;
  for (const char* kind : {"none", "load_in_8bit", "load_in_4bit"}) {
    JobFolder folder("load_quantised");
    if (kind != std::string("none")) {
      folder.job()["quantization_config"] = {{kind, true}};
    }
    RecordingObserver observer;
    const auto result = Train(folder, "out", observer).value();
    EXPECT_LT(*result.eval_loss_after, *result.eval_loss_before) << kind;
    losses.push_back(*result.eval_loss_before);
  }
  EXPECT_NE(losses[1], losses[0]);
  EXPECT_NEAR(losses[1], losses[0], 0.02 * losses[0]);
  EXPECT_NE(losses[2], losses[0]);
  EXPECT_NEAR(losses[2], losses[0], 0.2 * losses[0]);
}

// They are read side by side: which fault is met first is chance, which one is
// said is not.
TEST(LoadTest, FaultsOfDataAreSaidBeforeThoseOfWeights) {
  const std::string model = SpoiltModel();
  for (const int rows : {10, 3000}) {
    JobFolder folder("load_order");
    folder.job()["model"] = model;
    folder.WriteRows("train.jsonl", rows);
    RecordingObserver observer;
    EXPECT_THAT(Train(folder, "out", observer),
                Fails(absl::StatusCode::kInvalidArgument, "model.safetensors"));
    std::ofstream(folder.path() / "train.jsonl", std::ios::app) << "{\n";
    EXPECT_THAT(Train(folder, "out", observer),
                Fails(absl::StatusCode::kInvalidArgument, "train.jsonl:"));
  }
}

TEST(LoadTest, TensorsThatNothingUsedAreSaidAndKept) {
  JobFolder folder("load_unused");
  const auto model = folder.path() / "model";
  fs::copy(Golden("smollm", "model"), model);
  auto file = *tensorfile::SafetensorsFile::Open(model / "model.safetensors");
  tensorfile::NamedTensors tensors = {
      {"model.layers.0.mystery", at::ones({3})}};
  for (const auto& [name, entry] : file->entries()) {
    tensors.emplace_back(name, *file->Load(name));
  }
  ASSERT_TRUE(
      tensorfile::WriteSafetensors(model / "model.safetensors", tensors).ok());
  folder.job()["model"] = model.string();
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_THAT(observer.warnings(),
              testing::Contains(testing::HasSubstr("model.layers.0.mystery")));
  const auto run = RunJson(folder.path() / "out");
  EXPECT_EQ(run["unused_tensors"]["names"],
            nlohmann::json({"model.layers.0.mystery"}));
  EXPECT_EQ(run["missing_tensors"]["count"], 0);
}

// That no row has a prompt is known when they are read.
TEST(LoadTest, ALossOnCompletionsThatNoRowHasIsSaid) {
  JobFolder folder("load_completion");
  folder.training()["max_steps"] = 1;
  folder.training()["completion_only_loss"] = false;
  const auto warning = testing::Contains(
      testing::HasSubstr("completion_only_loss has no effect: no row"));
  RecordingObserver texts, prompts;
  ASSERT_TRUE(Train(folder, "texts", texts).ok());
  EXPECT_THAT(texts.warnings(), warning);
  std::ofstream(folder.path() / "train.jsonl", std::ios::app)
      << R"({"prompt": "row", "completion": " word1"})"
      << "\n";
  ASSERT_TRUE(Train(folder, "prompts", prompts).ok());
  EXPECT_THAT(prompts.warnings(), testing::Not(warning));
}

// A stop is heard between any two micro-batches, and the step it cuts leaves no
// trace: checkpoints, random numbers and data are those of the step before.
class StopWithinAStepTest : public testing::TestWithParam<const char*> {
 protected:
  // Three micro-batches a step, dropout, no evaluation.
  static void Shape(JobFolder& folder, const std::string& kind) {
    folder.training()["per_device_train_batch_size"] = 1;
    folder.training()["gradient_accumulation_steps"] = 3;
    folder.training()["max_steps"] = 4;
    folder.training()["save_steps"] = 2;
    folder.training()["eval_steps"] = 100;
    folder.WriteRows("train.jsonl", 20);
    if (kind == "packing") folder.training()["packing"] = true;
    if (kind == "autograd") folder.job()["gradients"] = "autograd";
    if (kind == "full") {
      folder.job().erase("lora");
      folder.job()["fine_tune_type"] = "full";
    }
  }
  static std::string Bytes(const JobFolder& folder, const std::string& out) {
    const fs::path model = folder.path() / out / "model/model.safetensors";
    return fs::exists(model) ? *base::ReadFile(model)
                             : AdapterBytes(folder, out);
  }
};

TEST_P(StopWithinAStepTest, EndsInTheSameBytes) {
  JobFolder folder(std::string("trainer_within_") + GetParam());
  Shape(folder, GetParam());
  RecordingObserver whole;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  // Asked before each step and between its micro-batches.
  ASSERT_GE(whole.asked, 9);
  int64_t within = 0;
  for (int64_t asked = 4; asked <= whole.asked; ++asked) {
    SCOPED_TRACE(asked);
    const std::string out = absl::StrCat("parts", asked);
    RecordingObserver first, second;
    first.stop_when_asked = asked;
    auto stopped = Train(folder, out, first).value();
    if (stopped.stopped == StopRequest::kNone) continue;  // an evaluation's
    EXPECT_LE(first.asked, asked + 1) << "and once for the reason";
    EXPECT_EQ(stopped.checkpoint_step, stopped.steps);
    within += stopped.steps > 0 && stopped.steps < 4;
    ASSERT_TRUE(Train(folder, out, second).ok());
    EXPECT_EQ(first.steps.size() + second.steps.size(), whole.steps.size());
    EXPECT_EQ(Bytes(folder, "whole"), Bytes(folder, out));
    if (second.steps.empty()) continue;  // stopped in the last evaluation
    EXPECT_EQ(second.steps.back().loss, whole.steps.back().loss);
  }
  EXPECT_GE(within, 5);
}

INSTANTIATE_TEST_SUITE_P(Kinds, StopWithinAStepTest,
                         testing::Values("rows", "packing", "autograd", "full"),
                         [](const auto& info) { return info.param; });

TEST(LoopTest, ACancelWithinAStepEndsAtOnce) {
  JobFolder folder("loop_cancel_within");
  folder.training()["gradient_accumulation_steps"] = 5;
  folder.training().erase("eval_steps");
  folder.job()["dataset"].erase("eval");
  RecordingObserver observer;
  observer.stop_kind = StopRequest::kCancel;
  observer.stop_when_asked = 2;  // after the first micro-batch
  auto stopped = Train(folder, "out", observer).value();
  EXPECT_EQ(stopped.stopped, StopRequest::kCancel);
  EXPECT_EQ(stopped.checkpoint_step, 0);
  EXPECT_TRUE(observer.steps.empty());
  EXPECT_TRUE(ckpt::ListCheckpoints(folder.path() / "out").empty());
}

// A pause within a step is no part of its time: speed and ETA stay true.
TEST(LoopTest, AHeldStepCountsNoWaiting) {
  struct Holding : RecordingObserver {
    StopRequest stop_request() override {
      if (++asked == 1) begin = Now();
      if (asked == 2) {
        const absl::Duration before = Now();
        absl::SleepFor(absl::Seconds(2));
        slept = Now() - before;
      }
      return StopRequest::kNone;
    }
    void OnStep(const report::Progress& step) override {
      RecordingObserver::OnStep(step);
      whole = Now() - begin;
    }
    static absl::Duration Now() { return base::Clock::Real().Monotonic(); }
    absl::Duration begin, whole, slept;
  };
  JobFolder folder("loop_held");
  folder.training()["gradient_accumulation_steps"] = 5;
  folder.training()["max_steps"] = 1;
  folder.training().erase("eval_steps");
  folder.job()["dataset"].erase("eval");
  Holding observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_GE(observer.asked, 5);
  // However slow the machine is: the first question comes before the step.
  EXPECT_LE(observer.steps.at(0).seconds,
            absl::ToDoubleSeconds(observer.whole - observer.slept));
}

TEST(LoopTest, AnEvaluationBeforeTheFirstCheckpointHasOneLine) {
  JobFolder folder("loop_eval_once");
  folder.training()["save_steps"] = 0;
  RecordingObserver first, second;
  first.stop_after = 2;
  first.stop_kind = StopRequest::kCancel;  // as good as killed
  ASSERT_TRUE(Train(folder, "out", first).ok());
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_THAT(StepsIn(folder.path() / "out/eval.jsonl"), ElementsAre(0, 4, 8));
}

TEST(LoopTest, AStopWithinAnEvaluationRepeatsTheEvaluation) {
  const JobFolder folder("loop_eval_stop");
  RecordingObserver first, second;
  first.stop_at_stage = "evaluating";
  auto stopped = Train(folder, "out", first).value();
  EXPECT_EQ(stopped.stopped, StopRequest::kPreempt);
  EXPECT_TRUE(first.evals.empty());
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_EQ(second.evals.front().step, 0);
}

// What the run reads is not hashed by then: no checkpoint asked for it.
TEST(LoopTest, AStopWithinTheFirstStepsEvaluationKeepsTheStep) {
  JobFolder folder("loop_first_eval_stop");
  folder.training()["eval_steps"] = 1;
  RecordingObserver first, second;
  first.stop_after = 1;
  auto stopped = Train(folder, "out", first).value();
  EXPECT_EQ(stopped.checkpoint_step, 1);
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_EQ(second.steps.front().step, 2);
  EXPECT_EQ(second.evals.front().step, 1);
  EXPECT_TRUE(second.warnings().empty());
}

class SamplesTest : public testing::Test {
 protected:
  static void Ask(JobFolder& folder) {
    folder.training()["sample_prompts"] = {"row word1", {{"prompt", "a row"}}};
    folder.training()["sample_steps"] = 3;
    folder.training()["sample_max_new_tokens"] = 6;
  }
  static std::vector<std::pair<int64_t, std::vector<std::string>>> Said(
      const RecordingObserver& observer) {
    std::vector<std::pair<int64_t, std::vector<std::string>>> said;
    for (const report::Sampled& sampled : observer.samples) {
      said.emplace_back(sampled.step, sampled.completions);
    }
    return said;
  }
  // What a decoder with the adapter in `out`, if any, answers to Ask's prompts.
  static std::vector<std::string> Answers(const fs::path& out) {
    const std::string folder = Golden("smollm", "model").string();
    const auto weights = tensorfile::Weights::Open(folder).value();
    const auto decoder =
        model::Decoder::Load({weights.get()},
                             spec::ReadModelConfig(folder).value(), nullptr)
            .value();
    std::unique_ptr<lora::Adapter> adapter;
    if (!out.empty()) {
      const fs::path path = out / "adapter";
      adapter = lora::Adapter::Attach(
                    *decoder, lora::ReadPeftConfig(path).value(), at::kCPU)
                    .value();
      EXPECT_THAT(adapter->LoadCheckpoint(path), IsOk());
    }
    const auto text = generate::PromptText::Read(folder, {}, false).value();
    generate::Generation generation;
    generation.settings.max_new_tokens = 6;
    text.AddEnd(generation.settings.eos_token_id);
    std::vector<generate::Ids> prompts;
    for (const char* prompt : {"row word1", "a row"}) {
      prompts.push_back(text.Encode({prompt}, 6, 100).value());
    }
    const auto device = device::OpenCpu().value();
    const auto answers =
        generate::AllAnswers(*decoder, *device, generation, prompts,
                             [](double) { return true; })
            .value();
    return {text.Decode(prompts[0], answers[0].ids).value(),
            text.Decode(prompts[1], answers[1].ids).value()};
  }
};

TEST_F(SamplesTest, AreTheModelsAnswersAndChangeNoByte) {
  JobFolder folder("samples_run");
  RecordingObserver plain, asked;
  ASSERT_THAT(Train(folder, "plain", plain), IsOk());
  Ask(folder);
  ASSERT_THAT(Train(folder, "asked", asked), IsOk());
  EXPECT_TRUE(plain.samples.empty());
  EXPECT_FALSE(fs::exists(folder.path() / "plain/samples.jsonl"));
  ASSERT_EQ(asked.steps.size(), plain.steps.size());
  for (size_t i = 0; i < plain.steps.size(); ++i) {
    EXPECT_EQ(asked.steps[i].loss, plain.steps[i].loss);
    EXPECT_EQ(asked.steps[i].grad_norm, plain.steps[i].grad_norm);
  }
  EXPECT_EQ(AdapterBytes(folder, "asked"), AdapterBytes(folder, "plain"));
  const auto said = Said(asked);
  ASSERT_EQ(said.size(), 4u);
  EXPECT_THAT(StepsIn(folder.path() / "asked/samples.jsonl"),
              ElementsAre(0, 3, 6, 8));
  EXPECT_EQ(said[0].second, Answers(""));
  EXPECT_EQ(said[3].second, Answers(folder.path() / "asked"));
  EXPECT_NE(said[0].second, said[3].second) << "the test shows nothing";
}

// However the attempt before was stopped: also within a sample, or killed after
// one of a step that the run repeats.
TEST_F(SamplesTest, AResumedRunRepeatsNone) {
  JobFolder folder("samples_resumed");
  Ask(folder);
  RecordingObserver whole;
  ASSERT_THAT(Train(folder, "whole", whole), IsOk());
  ASSERT_GT(whole.asked, 30);
  const auto check = [&](const std::string& out, RecordingObserver& first) {
    RecordingObserver second, third;
    ASSERT_THAT(Train(folder, out, first), IsOk());
    ASSERT_THAT(Train(folder, out, second), IsOk());
    ASSERT_THAT(Train(folder, out, third), IsOk());
    auto said = Said(first);
    if (first.checkpoints.empty()) said.clear();  // the run starts over
    for (const auto& more : Said(second)) said.push_back(more);
    EXPECT_EQ(said, Said(whole)) << out;
    EXPECT_TRUE(third.samples.empty());
    EXPECT_EQ(AdapterBytes(folder, out), AdapterBytes(folder, "whole"));
  };
  RecordingObserver killed;
  killed.stop_kind = StopRequest::kCancel;
  killed.stop_after = 7;
  check("killed", killed);
  for (int64_t asked = 2; asked < whole.asked; asked += 3) {
    RecordingObserver stopped;
    stopped.stop_when_asked = asked;
    check(absl::StrCat("stopped", asked), stopped);
  }
}

TEST_F(SamplesTest, TheLastIsOfTheBestCheckpoint) {
  JobFolder folder("samples_best");
  Ask(folder);
  folder.training().update({{"load_best_model_at_end", true},
                            {"metric_for_best_model", "loss"},
                            {"greater_is_better", true},  // the first is best
                            {"eval_steps", 2}});
  RecordingObserver observer;
  ASSERT_THAT(Train(folder, "out", observer), IsOk());
  EXPECT_EQ(RunJson(folder.path() / "out")["result"]["result_step"], 2);
  EXPECT_EQ(observer.samples.back().step, 8);
  EXPECT_EQ(observer.samples.back().completions,
            Answers(folder.path() / "out"));
}

// Of equal runs to the byte, wherever they are.
TEST_F(SamplesTest, AreInTheCardOfTheResult) {
  JobFolder folder("samples_card"), other("samples_card_elsewhere");
  for (JobFolder* job : {&folder, &other}) {
    Ask(*job);
    job->training()["seed"] = 3;
    RecordingObserver observer;
    ASSERT_THAT(Train(*job, "out", observer), IsOk());
    for (const std::string& text : {observer.samples.front().completions[0],
                                    observer.samples.back().completions[1]}) {
      EXPECT_THAT(*base::ReadFile(job->path() / "out/adapter/README.md"),
                  HasSubstr("    " + text.substr(0, text.find('\n')) + "\n"));
    }
  }
  const std::string card =
      *base::ReadFile(folder.path() / "out/adapter/README.md");
  EXPECT_EQ(card, *base::ReadFile(other.path() / "out/adapter/README.md"));
  const json run = RunJson(folder.path() / "out");
  for (const std::string& line :
       {"library_name: peft\n" + std::string("pipeline_tag: text-generation\n"),
        "| training | 10 | " + run["train"]["sha256"].get<std::string>() +
            " |\n",
        "| evaluation | 3 | " + run["eval"]["sha256"].get<std::string>() +
            " |\n",
        std::string("| `lora.r` | 4 |\n"),
        std::string("| `lora.target_modules` | all-linear |\n"),
        std::string("| `training.learning_rate` | 0.01 |\n"),
        std::string("| `training.seed` | 3 |\n"),
        std::string("| number type | float32 |\n"),
        std::string("| optimizer steps | 8 |\n"),
        absl::StrFormat("| evaluation loss | %.6g |\n",
                        run["result"]["eval_loss_after"].get<double>()),
        std::string("    row word1\n")}) {
    EXPECT_THAT(card, HasSubstr(line));
  }
}

TEST_F(SamplesTest, PromptsThatAreTooLongAreRefusedBeforeTheFirstStep) {
  JobFolder folder("samples_long");
  Ask(folder);
  folder.training()["sample_prompts"] = {"a row", std::string(100, 'x')};
  RecordingObserver observer;
  EXPECT_THAT(Train(folder, "out", observer).status(),
              Fails(absl::StatusCode::kInvalidArgument,
                    "training.sample_prompts[1]: has "));
  EXPECT_TRUE(observer.steps.empty());
}

TEST(LoopTest, EarlyStoppingEndsARunThatDoesNotImprove) {
  JobFolder folder("loop_early");
  folder.training()["eval_steps"] = 1;
  folder.training()["save_steps"] = 1;
  folder.training()["max_steps"] = 30;
  folder.training()["learning_rate"] = 1.0;
  folder.training()["max_grad_norm"] = 0;
  folder.training()["load_best_model_at_end"] = true;
  folder.training()["early_stopping_patience"] = 2;
  folder.training()["early_stopping_threshold"] = 1000;  // none improves
  folder.training()["save_total_limit"] = 2;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer).value();
  EXPECT_LT(result.steps, 30);
  // The adapter is the best evaluation's, not the last step's.
  auto best = std::min_element(
      observer.evals.begin() + 1, observer.evals.end(),
      [](const auto& a, const auto& b) { return a.eval_loss < b.eval_loss; });
  EXPECT_EQ(*result.eval_loss_after, best->eval_loss);
  EXPECT_EQ(
      AdapterBytes(folder, "out"),
      *base::ReadFile(ckpt::CheckpointPath(folder.path() / "out", best->step) /
                      "adapter_model.safetensors"));
  EXPECT_LE(ckpt::ListCheckpoints(folder.path() / "out").size(), 2u);
}

// What stays: those of save_steps, the last, and the latest best.
TEST(LoopTest, ABestThatNoSaveStepAskedForGoesWithTheNext) {
  JobFolder folder("loop_bests");
  folder.training()["eval_steps"] = 1;
  folder.training()["save_steps"] = 4;
  folder.training()["max_steps"] = 10;
  folder.training()["load_best_model_at_end"] = true;
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  std::set<int64_t> kept = {4, 8, 10}, bests;
  for (const auto& evaluated : observer.evals) {
    if (evaluated.best) bests.insert(evaluated.step);
  }
  kept.insert(*bests.rbegin());
  bests.erase(4);
  bests.erase(8);
  EXPECT_GT(bests.size(), 2u);
  EXPECT_THAT(ckpt::ListCheckpoints(folder.path() / "out"),
              testing::ElementsAreArray(kept));
  size_t removed = 0;
  for (const auto& report : observer.checkpoints) {
    removed += report.removed_paths.size();
  }
  EXPECT_EQ(removed, observer.checkpoints.size() - kept.size());
}

}  // namespace
}  // namespace mpsd::train
