// SPDX-License-Identifier: Apache-2.0
#include "core/train/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "core/base/file.h"
#include "core/ckpt/checkpoint.h"
#include "core/spec/train_spec.h"
#include "core/tensorfile/safetensors.h"
#include "tests/core/job_folder.h"

namespace mpsd::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::JobFolder;
using testing_support::RecordingObserver;

absl::StatusOr<RunResult> Train(const JobFolder& folder, const std::string& out,
                                Observer& observer) {
  auto spec = spec::ParseTrainSpec(*base::ReadFile(folder.Write()), "job.json");
  if (!spec.ok()) return spec.status();
  TrainerOptions options;
  options.out_dir = folder.path() / out;
  options.cache_dir = folder.path();
  Trainer trainer(spec::ResolvePaths(*spec, folder.path().string()), options,
                  observer);
  return trainer.Run();
}

std::string AdapterBytes(const JobFolder& folder, const std::string& out) {
  return *base::ReadFile(folder.path() / out / "adapter" /
                         "adapter_model.safetensors");
}

TEST(TrainerTest, ARunGivesEverythingItPromises) {
  const JobFolder folder("trainer_run");
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 8);
  EXPECT_EQ(observer.steps.size(), 8u);
  ASSERT_EQ(observer.evals.size(), 3u);  // before, in the middle, at the end
  EXPECT_EQ(observer.evals[0].step, 0);
  EXPECT_LT(*result->eval_loss_after, *result->eval_loss_before);
  EXPECT_EQ(observer.checkpoints.size(), 2u);
  const fs::path out = folder.path() / "out";
  for (const char* file :
       {"metrics.jsonl", "eval.jsonl", "run.json", "checkpoints/step-8",
        "adapter/adapter_config.json", "adapter/adapter_model.safetensors"}) {
    EXPECT_TRUE(fs::exists(out / file)) << file;
  }
  for (const report::Progress& step : observer.steps) {
    EXPECT_GT(step.tokens, 0);
    EXPECT_GE(step.padded_tokens, step.tokens);
    EXPECT_GT(step.grad_norm, 0);
  }
}

// With dropout, so that generator states count too.
class ResumeTest : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(ResumeTest, AStoppedRunEndsInTheSameBytes) {
  const auto& [stop_after, packing] = GetParam();
  JobFolder folder("trainer_resume");
  folder.training()["packing"] = packing;
  folder.training()["gradient_accumulation_steps"] = 2;
  RecordingObserver whole;
  ASSERT_TRUE(Train(folder, "whole", whole).ok());
  RecordingObserver first, second;
  first.stop_after = stop_after;
  auto stopped = Train(folder, "parts", first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->stopped, StopRequest::kPreempt);
  EXPECT_EQ(stopped->checkpoint_step, stop_after);
  auto finished = Train(folder, "parts", second);
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(first.steps.size() + second.steps.size(), whole.steps.size());
  EXPECT_EQ(AdapterBytes(folder, "whole"), AdapterBytes(folder, "parts"));
  for (size_t i = 0; i < second.steps.size(); ++i) {
    EXPECT_EQ(second.steps[i].loss, whole.steps[stop_after + i].loss);
  }
}

INSTANTIATE_TEST_SUITE_P(All, ResumeTest,
                         testing::Combine(testing::Values(1, 3, 4, 7),
                                          testing::Bool()));

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
    auto stopped = Train(folder, out, first);
    ASSERT_TRUE(stopped.ok()) << stopped.status();
    if (stopped->stopped == StopRequest::kNone) continue;  // an evaluation's
    EXPECT_LE(first.asked, asked + 1) << "and once for the reason";
    EXPECT_EQ(stopped->checkpoint_step, stopped->steps);
    within += stopped->steps > 0 && stopped->steps < 4;
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

TEST(TrainerTest, ACancelWithinAStepEndsAtOnce) {
  JobFolder folder("trainer_cancel_within");
  folder.training()["gradient_accumulation_steps"] = 5;
  folder.training().erase("eval_steps");
  folder.job()["dataset"].erase("eval");
  RecordingObserver observer;
  observer.stop_kind = StopRequest::kCancel;
  observer.stop_when_asked = 2;  // behind the first micro-batch
  auto stopped = Train(folder, "out", observer);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->stopped, StopRequest::kCancel);
  EXPECT_EQ(stopped->checkpoint_step, 0);
  EXPECT_TRUE(observer.steps.empty());
  EXPECT_TRUE(ckpt::ListCheckpoints(folder.path() / "out").empty());
}

// A pause within a step is no part of its time: speed and ETA stay true.
TEST(TrainerTest, AHeldStepCountsNoWaiting) {
  struct Holding : RecordingObserver {
    StopRequest stop_request() override {
      if (++asked == 2) absl::SleepFor(absl::Seconds(2));
      return StopRequest::kNone;
    }
  };
  JobFolder folder("trainer_held");
  folder.training()["gradient_accumulation_steps"] = 5;
  folder.training()["max_steps"] = 1;
  folder.training().erase("eval_steps");
  folder.job()["dataset"].erase("eval");
  Holding observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  EXPECT_GE(observer.asked, 5);
  EXPECT_LT(observer.steps.at(0).seconds, 2);
}

TEST(TrainerTest, AKilledRunGoesBackToItsLastCheckpoint) {
  const JobFolder folder("trainer_killed");
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

TEST(TrainerTest, AnEvaluationBeforeTheFirstCheckpointHasOneLine) {
  JobFolder folder("trainer_eval_once");
  folder.training()["save_steps"] = 0;
  RecordingObserver first, second;
  first.stop_after = 2;
  first.stop_kind = StopRequest::kCancel;  // as good as killed
  ASSERT_TRUE(Train(folder, "out", first).ok());
  ASSERT_TRUE(Train(folder, "out", second).ok());
  std::vector<int64_t> steps;
  std::ifstream evals(folder.path() / "out" / "eval.jsonl");
  for (std::string line; std::getline(evals, line);) {
    steps.push_back(nlohmann::json::parse(line)["step"]);
  }
  EXPECT_THAT(steps, ElementsAre(0, 4, 8));
}

TEST(TrainerTest, AStopWithinAnEvaluationRepeatsTheEvaluation) {
  const JobFolder folder("trainer_eval_stop");
  RecordingObserver first, second;
  first.stop_at_stage = "evaluating";
  auto stopped = Train(folder, "out", first);
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->stopped, StopRequest::kPreempt);
  EXPECT_TRUE(first.evals.empty());
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_EQ(second.evals.front().step, 0);
}

// What the run reads is not hashed by then: no checkpoint asked for it.
TEST(TrainerTest, AStopWithinTheFirstStepsEvaluationKeepsTheStep) {
  JobFolder folder("trainer_first_eval_stop");
  folder.training()["eval_steps"] = 1;
  RecordingObserver first, second;
  first.stop_after = 1;
  auto stopped = Train(folder, "out", first);
  ASSERT_TRUE(stopped.ok()) << stopped.status();
  EXPECT_EQ(stopped->checkpoint_step, 1);
  ASSERT_TRUE(Train(folder, "out", second).ok());
  EXPECT_EQ(second.steps.front().step, 2);
  EXPECT_EQ(second.evals.front().step, 1);
  EXPECT_TRUE(second.warnings().empty());
}

TEST(TrainerTest, AFinishedRunRunsNoStepAgain) {
  const JobFolder folder("trainer_again");
  RecordingObserver first, second;
  ASSERT_TRUE(Train(folder, "out", first).ok());
  const std::string bytes = AdapterBytes(folder, "out");
  auto again = Train(folder, "out", second);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(second.steps.empty());
  EXPECT_EQ(AdapterBytes(folder, "out"), bytes);
}

TEST(TrainerTest, CheckpointsOfAnotherJobAreRefused) {
  JobFolder folder("trainer_other");
  RecordingObserver observer;
  ASSERT_TRUE(Train(folder, "out", observer).ok());
  folder.training()["learning_rate"] = 5e-3;
  auto other = Train(folder, "out", observer);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(other.status().message()),
              HasSubstr("checkpoints of another job"));
}

TEST(TrainerTest, EarlyStoppingEndsARunThatDoesNotImprove) {
  JobFolder folder("trainer_early");
  folder.training()["eval_steps"] = 1;
  folder.training()["save_steps"] = 1;
  folder.training()["max_steps"] = 30;
  folder.training()["learning_rate"] = 1.0;  // makes it worse
  folder.training()["max_grad_norm"] = 0;
  folder.training()["load_best_model_at_end"] = true;
  folder.training()["early_stopping_patience"] = 2;
  folder.training()["save_total_limit"] = 2;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(result->steps, 30);
  // The adapter is the best evaluation's, not the last step's.
  auto best = std::min_element(
      observer.evals.begin() + 1, observer.evals.end(),
      [](const auto& a, const auto& b) { return a.eval_loss < b.eval_loss; });
  EXPECT_EQ(*result->eval_loss_after, best->eval_loss);
  EXPECT_EQ(
      AdapterBytes(folder, "out"),
      *base::ReadFile(ckpt::CheckpointPath(folder.path() / "out", best->step) /
                      "adapter_model.safetensors"));
  EXPECT_LE(ckpt::ListCheckpoints(folder.path() / "out").size(), 2u);
}

TEST(TrainerTest, EpochsSetTheLengthWhenMaxStepsDoesNot) {
  JobFolder folder("trainer_epochs");
  folder.training().erase("max_steps");
  folder.training()["num_train_epochs"] = 1.5;
  folder.training()["eval_steps"] = 0;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->steps, 8);  // ceil(1.5 · ceil(10 rows / 2))
  std::vector<int64_t> eval_steps;
  for (const auto& eval : observer.evals) eval_steps.push_back(eval.step);
  EXPECT_THAT(eval_steps, testing::ElementsAre(0, 5, 8));
  EXPECT_DOUBLE_EQ(observer.steps.back().epoch, 1.6);
}

TEST(TrainerTest, AnAdapterCanBeTheStart) {
  JobFolder folder("trainer_start");
  RecordingObserver first, second;
  ASSERT_TRUE(Train(folder, "one", first).ok());
  folder.job()["adapter"] = (folder.path() / "one" / "adapter").string();
  folder.job().erase("lora");
  ASSERT_TRUE(Train(folder, "two", second).ok());
  EXPECT_NEAR(second.evals.front().eval_loss, first.evals.back().eval_loss,
              1e-6);
}

TEST(TrainerTest, TensorsThatNothingUsedAreSaidAndKept) {
  JobFolder folder("trainer_unused");
  const auto model = folder.path() / "model";
  std::filesystem::copy(testing_support::Golden("smollm", "model"), model);
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
  const auto run = nlohmann::json::parse(
      *base::ReadFile(folder.path() / "out" / "run.json"));
  EXPECT_EQ(run["unused_tensors"]["names"],
            nlohmann::json({"model.layers.0.mystery"}));
  EXPECT_EQ(run["missing_tensors"]["count"], 0);
}

TEST(TrainerTest, FieldsThatChangeNothingAreSaid) {
  JobFolder folder("trainer_idle");
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

// That no row has a prompt is known when they are read.
TEST(TrainerTest, ALossOnCompletionsThatNoRowHasIsSaid) {
  JobFolder folder("trainer_completion");
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

// Submit refuses it; what was queued before it did so is trained.
TEST(TrainerTest, APatternThatMatchesNothingIsSaid) {
  JobFolder folder("trainer_pattern");
  folder.job()["lora"]["rank_pattern"] = {{"q_porj", 2}};
  folder.training()["max_steps"] = 1;
  RecordingObserver observer;
  const auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_THAT(observer.warnings(),
              testing::Contains(testing::HasSubstr(
                  "lora.rank_pattern: \"q_porj\" matches no")));
}

json ConfigOf(const JobFolder& folder, const std::string& out) {
  return json::parse(
      *base::ReadFile(folder.path() / out / "adapter/adapter_config.json"));
}

TEST(TrainerTest, AResultNamesItsModelAsTheJobDoes) {
  JobFolder folder("trainer_model_id");
  folder.training()["max_steps"] = 1;
  folder.training()["eval_steps"] = 0;
  const fs::path snapshot =
      folder.path() / "hub" / "models--me--tiny" / "snapshots" / "abc123";
  fs::create_directories(snapshot.parent_path());
  fs::copy(testing_support::Golden("smollm", "model"), snapshot);
  RecordingObserver observer;
  const auto name_of = [&](const std::string& out) {
    auto result = Train(folder, out, observer);
    EXPECT_TRUE(result.ok()) << result.status();
    const json config = ConfigOf(folder, out);
    return std::pair{config["base_model_name_or_path"], config["revision"]};
  };
  setenv("HF_HUB_CACHE", (folder.path() / "hub").c_str(), 1);
  folder.job()["model"] = "me/tiny";  // by hand
  EXPECT_EQ(name_of("id"), (std::pair<json, json>{"me/tiny", "abc123"}));
  unsetenv("HF_HUB_CACHE");
  const json run =
      json::parse(*base::ReadFile(folder.path() / "id" / "run.json"));
  EXPECT_EQ(run["model"]["folder"], snapshot.string());
  EXPECT_EQ(run["model"]["name"], "me/tiny");
  folder.job()["model"] = snapshot.string();
  EXPECT_EQ(name_of("path"),
            (std::pair<json, json>{snapshot.string(), nullptr}));
  folder.job()["model_id"] = "me/tiny";  // as mpsd hands it on
  EXPECT_EQ(name_of("mpsd"), (std::pair<json, json>{"me/tiny", "abc123"}));
}

// run.json names what ran, a restart's share included.
TEST(TrainerTest, TheAttentionThatRanIsNamed) {
  struct Case {
    std::function<void(JobFolder&)> change;
    const char *forward, *backward;
  };
  const char* const kAten = "scaled_dot_product_attention";
  const Case cases[] = {
      {[](JobFolder&) {}, "flash", "blocked"},
      {[](JobFolder& f) { f.training()["packing"] = true; }, "flash", "flash"},
      {[](JobFolder& f) { f.job()["gradients"] = "autograd"; }, kAten, kAten},
  };
  for (const Case& c : cases) {
    JobFolder folder("trainer_attention");
    c.change(folder);
    const auto attention = [&] {
      return json::parse(
          *base::ReadFile(folder.path() / "out/run.json"))["attention"];
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

// As PeftModel.from_pretrained(is_trainable=True) keeps it.
TEST(TrainerTest, AStartFromAnAdapterKeepsItsDropout) {
  JobFolder folder("trainer_start_dropout");
  folder.training()["max_steps"] = 4;
  RecordingObserver observer, as_told, as_it_is, without;
  ASSERT_TRUE(Train(folder, "one", observer).ok());
  folder.job()["adapter"] = (folder.path() / "one" / "adapter").string();
  folder.job().erase("lora");
  ASSERT_TRUE(Train(folder, "kept", as_it_is).ok());
  EXPECT_EQ(ConfigOf(folder, "kept")["lora_dropout"], 0.1);
  folder.job()["lora"] = {{"lora_dropout", 0.1}};
  ASSERT_TRUE(Train(folder, "told", as_told).ok());
  EXPECT_EQ(AdapterBytes(folder, "kept"), AdapterBytes(folder, "told"));
  folder.job()["lora"] = {{"lora_dropout", 0}};
  ASSERT_TRUE(Train(folder, "without", without).ok());
  EXPECT_EQ(ConfigOf(folder, "without")["lora_dropout"], 0.0);
  EXPECT_NE(AdapterBytes(folder, "kept"), AdapterBytes(folder, "without"));
}

TEST(TrainerTest, Bf16TrainsWithFp32Adapters) {
  JobFolder folder("trainer_bf16");
  folder.training()["bf16"] = true;
  RecordingObserver observer;
  auto result = Train(folder, "out", observer);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_LT(*result->eval_loss_after, *result->eval_loss_before);
  auto file = *tensorfile::SafetensorsFile::Open(
      folder.path() / "out/adapter/adapter_model.safetensors");
  for (const auto& [name, entry] : file->entries()) {
    EXPECT_EQ(entry.dtype, at::kFloat) << name;
  }
}

}  // namespace
}  // namespace mpsd::train
