// SPDX-License-Identifier: Apache-2.0
#include "client/offline.h"

#include <sys/stat.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/submit.h"
#include "core/base/file.h"
#include "core/spec/job_schema.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/targets.h"
#include "core/spec/train_spec.h"
#include "tests/client/client_fixture.h"

// deploy/recipes: every one is a job, and its memory in the README is what the
// daemon would say of it.

namespace mpsd::client {
namespace {

using Json = nlohmann::json;

class ImportTest : public ClientTest {
 protected:
  ImportTest() { daemon_->Stop(); }  // no daemon is asked

  Result Import(const std::string& line) {
    return RunBare({"import", Write("run.sh", line)});
  }
  // The job of a line that is taken; its notes are in notes_.
  Json Job(const std::string& line) {
    const Result result = Import(line);
    EXPECT_EQ(result.code, 0) << result.err;
    notes_ = result.err;
    EXPECT_TRUE(spec::ParseTrainSpec(result.out, "job").ok()) << result.out;
    return Json::parse(result.out, nullptr, false);
  }
  // The error about a line that is refused.
  std::string Error(const std::string& line) {
    const Result result = Import(line);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_EQ(result.out, "");
    return result.err;
  }

  const std::string kGlue =
      "run_glue.py --model_name_or_path m --train_file t.csv "
      "--validation_file e.csv --test_file p.csv --do_train ";
  const std::string kSft =
      "trl sft --model_name_or_path Qwen/Qwen3-0.6B --dataset_name org/set ";
  std::string notes_;
};

TEST_F(ImportTest, TheCommandOfTheGuide) {
  const Json job = Job(R"(cd transformers
# the guide's
python examples/pytorch/text-classification/run_glue.py \
  --model_name_or_path google-bert/bert-base-cased \
  --task_name "mrpc" \
  --use_mps_device \
  --do_train \
  --do_eval \
  --max_seq_length 128 \
  --per_device_train_batch_size 32 \
  --learning-rate=2e-5 \
  --num_train_epochs 3 \
  --output_dir /tmp/mrpc/ \
  --overwrite_output_dir
echo done --seed 7
)");
  EXPECT_EQ(job, Json::parse(R"({
    "model": "google-bert/bert-base-cased",
    "task": "SEQ_CLS",
    "fine_tune_type": "full",
    "dataset": {"train": "train.tsv", "eval": "dev.tsv", "task_name": "mrpc"},
    "training": {"per_device_train_batch_size": 32, "learning_rate": 2e-5,
                 "num_train_epochs": 3, "max_length": 128},
    "device": "mps"})"));
  EXPECT_EQ(
      notes_,
      "note: put GLUE's train.tsv, dev.tsv and test.tsv next to job.json\n");
}

TEST_F(ImportTest, ALineOfTrlSftTrainsALanguageModel) {
  Json job = Job(
      kSft +
      "--dataset_config en --learning_rate 2.0e-4 --num_train_epochs 1 "
      "--packing --bf16 True --gradient_checkpointing --eos_token '<|im_end|>' "
      "--eval_strategy steps --eval_steps 100 --use_peft --lora_r 32 "
      "--lora_target_modules q_proj v_proj --load_in_4bit "
      "--output_dir Qwen3-SFT --push_to_hub");
  EXPECT_EQ(job, Json::parse(R"({
    "model": "Qwen/Qwen3-0.6B",
    "task": "CAUSAL_LM",
    "fine_tune_type": "lora",
    "dataset": {"train": "train.jsonl", "eval": "test.jsonl"},
    "lora": {"r": 32, "lora_alpha": 32, "lora_dropout": 0.05,
             "target_modules": ["q_proj", "v_proj"]},
    "quantization_config": {"load_in_4bit": true},
    "training": {"learning_rate": 2e-4, "gradient_checkpointing": true,
                 "num_train_epochs": 1, "packing": true, "bf16": true,
                 "eos_token": "<|im_end|>", "eval_steps": 100}})"));
  EXPECT_THAT(notes_, HasSubstr("load_dataset('org/set', 'en')"));
  EXPECT_THAT(notes_, Not(HasSubstr("bfloat16")));
  // What TRL does where the line does not say.
  job = Job("accelerate launch trl/scripts/sft.py" + kSft.substr(7));
  EXPECT_EQ(job["fine_tune_type"], "full");
  EXPECT_EQ(job["training"], Json::parse(R"({"learning_rate": 2e-5,
      "gradient_checkpointing": true})"));
  EXPECT_EQ(job["dataset"], Json::parse(R"({"train": "train.jsonl"})"));
  EXPECT_THAT(notes_, AllOf(HasSubstr("bfloat16"), HasSubstr("one process")));
  EXPECT_EQ(
      Job(kSft +
          "--use_peft --lora_target_modules all-linear")["lora"]
                                                        ["target_modules"],
      "all-linear");
}

TEST_F(ImportTest, FilesAndWhatTheyAreFor) {
  Json dataset = Job(kGlue + "--do_eval --do_predict")["dataset"];
  EXPECT_EQ(dataset, Json::parse(R"({"train": "t.csv", "eval": "e.csv",
      "predict": "p.csv"})"));
  dataset = Job(kGlue + "--eval_strategy epoch --do_predict False")["dataset"];
  EXPECT_EQ(dataset, Json::parse(R"({"train": "t.csv", "eval": "e.csv"})"));
  EXPECT_FALSE(Job(kGlue)["dataset"].contains("eval"));
  EXPECT_EQ(Job("run_glue.py --model_name_or_path m --task_name mnli "
                "--do_eval")["dataset"]["eval"],
            "dev_matched.tsv");
}

TEST_F(ImportTest, TheTrainingArgumentsOfTheSameName) {
  EXPECT_EQ(Job(kGlue + R"(--do_eval --max_steps 100 \
      --per_device_eval_batch_size 64 --gradient_accumulation_steps 2 \
      --lr_scheduler_type cosine --warmup_ratio 0.1 --weight_decay 0.01 \
      --adam_beta2 0.98 --max_grad_norm 0.5 --gradient_checkpointing \
      --seed 1 --seed 7 --save_total_limit 2 --logging_steps 10 \
      --load_best_model_at_end --metric_for_best_model eval_f1 \
      --greater_is_better true --eval_strategy steps --eval_steps 20 \
      --optim adamw_torch --save_steps 20)")["training"],
            Json::parse(R"({"max_steps": 100,
      "per_device_eval_batch_size": 64, "gradient_accumulation_steps": 2,
      "lr_scheduler_type": "cosine", "warmup_ratio": 0.1, "weight_decay": 0.01,
      "adam_beta2": 0.98, "max_grad_norm": 0.5, "gradient_checkpointing": true,
      "seed": 7, "save_total_limit": 2, "logging_steps": 10,
      "load_best_model_at_end": true, "metric_for_best_model": "eval_f1",
      "greater_is_better": true, "max_length": 128, "eval_steps": 20,
      "save_steps": 20})"));
  const auto training = [&](const std::string& more) {
    return Job(kGlue + more)["training"];
  };
  EXPECT_EQ(training("--eval_strategy steps")["eval_steps"], 500);
  EXPECT_EQ(training("--eval_strategy steps --logging_steps 9")["eval_steps"],
            9);
  EXPECT_FALSE(
      training("--eval_strategy epoch --eval_steps 7").contains("eval_steps"));
  EXPECT_EQ(training("--save_strategy no")["save_steps"], 0);
  EXPECT_FALSE(training("--save_strategy epoch").contains("save_steps"));
  EXPECT_THAT(notes_, HasSubstr("save_steps"));
}

// The fields of all flags are those of job.json.
TEST_F(ImportTest, EveryFlagIsTaken) {
  Job(kGlue +
      "--run_name n --max_train_samples 1 --max_eval_samples 1 --do_predict "
      "--max_predict_samples 1 --ignore_mismatched_sizes --adam_beta1 0.9 "
      "--adam_epsilon 1e-8 --warmup_steps 2 --auto_find_batch_size --use_cpu");
  Job(kSft +
      "--dataset_text_field t --chat_template_path c --max_length 8 "
      "--padding_free --completion_only_loss --use_peft --lora_alpha 8 "
      "--lora_dropout 0.1 --use_rslora --lora_modules_to_save lm_head "
      "--load_in_4bit --use_bnb_nested_quant");
  EXPECT_EQ(Job(kSft + "--assistant_only_loss --use_peft --load_in_8bit")
                ["quantization_config"]["load_in_8bit"],
            true);
}

TEST_F(ImportTest, WhatHasNoFieldIsRefusedWithTheNearestRecipe) {
  EXPECT_EQ(Error(kGlue + "--fp16 --deepspeed d.json"),
            "mpsctl: job.json has no field for --deepspeed, --fp16; `mpsctl "
            "init DATA` writes a job.json for your data, and "
            "deploy/recipes/mrpc-bert.json is one to copy\n");
  EXPECT_THAT(Error(kGlue + "--use_peft"), HasSubstr("--use_peft"));
  EXPECT_THAT(Error(kSft + "--task_name mrpc"),
              HasSubstr("deploy/recipes/chat-lora-7b.json"));
  EXPECT_THAT(Error(kSft + "--optim adafactor"), HasSubstr("AdamW"));
  const std::pair<const char*, const char*> others[] = {
      {"trl dpo --model_name_or_path m", "chat-lora-7b.json"},
      {"python run_clm.py --x", "chat-lora-7b.json"},
      {"python run_image_classification.py --train_dir pets", "vit.json"},
      {"python run_classification.py", "issue-classifier.json"},
      {"# run_glue.py\necho hello", "mrpc-bert.json"},
      {"", "README.md"},
  };
  for (const auto& [line, recipe] : others) {
    EXPECT_THAT(Error(line), HasSubstr(std::string("not a command line of ")));
    EXPECT_THAT(Error(line), HasSubstr(std::string("recipes/") + recipe));
  }
}

TEST_F(ImportTest, Errors) {
  EXPECT_THAT(Error("run_glue.py --train_file t"),
              HasSubstr("--model_name_or_path"));
  EXPECT_THAT(Error("run_glue.py --model_name_or_path m"),
              HasSubstr("training data"));
  EXPECT_THAT(Error(kGlue + "--learning_rate fast"),
              HasSubstr("--learning_rate: expected a number, found 'fast'"));
  EXPECT_THAT(Error(kGlue + "--max_steps 1.5"), HasSubstr("max_steps"));
  EXPECT_THAT(Error(kGlue + "--bf16 maybe"),
              HasSubstr("--bf16: expected true or false"));
  EXPECT_THAT(Error(kGlue + "--load_best_model_at_end"),
              HasSubstr("load_best_model_at_end"));
  EXPECT_THAT(Error(kGlue + "--task_name mprc"), HasSubstr("mrpc"));
  EXPECT_THAT(Error(kGlue + "--run_name 'm"), HasSubstr("quote"));
  EXPECT_THAT(Error(kGlue + "--task_name $TASK"), HasSubstr("not expanded"));
  EXPECT_EQ(RunBare({"import", "/absent.args"}).code, 2);
}

class MergeTest : public ClientTest {
 protected:
  // A program that writes its arguments to a file and then does `end`.
  std::string Worker(const std::string& end) {
    const std::string path =
        Write("worker", "#!/bin/sh\necho \"$@\" >" +
                            (folder_ / "said").string() + "\n" + end + "\n");
    chmod(path.c_str(), 0755);
    return path;
  }
};

TEST_F(MergeTest, RunsTheWorkerWithWhatItWasGiven) {
  EXPECT_THAT(
      RunBare({"merge", "adapter", "-o", "out", "--worker", Worker("exit 0")}),
      Prints());
  EXPECT_EQ(Read(folder_ / "said"), "--merge --adapter adapter --out out\n");
  EXPECT_EQ(RunBare({"merge", "a b", "-o", "out", "--model", "org/model",
                     "--dtype", "bfloat16", "--max-shard-size", "2GB",
                     "--worker", Worker("exit 0")})
                .code,
            0);
  EXPECT_EQ(Read(folder_ / "said"),
            "--merge --adapter a b --out out --model org/model --dtype "
            "bfloat16 --max-shard-size 2GB\n");
}

TEST_F(MergeTest, EndsAsTheWorkerDoes) {
  const auto code = [this](const std::string& end) {
    return RunBare({"merge", "a", "-o", "b", "--worker", Worker(end)}).code;
  };
  EXPECT_EQ(code("exit 2"), 2);
  EXPECT_EQ(code("exit 1"), 6);
  EXPECT_EQ(code("kill -9 $$"), 6);
}

TEST_F(MergeTest, WithoutAWorkerItSaysWhereToRun) {
  EXPECT_THAT(RunBare({"merge", "adapter", "-o", "out", "--worker",
                       (folder_ / "nowhere").string()}),
              Fails(2, HasSubstr("run it where mpsd is installed")));
}

TEST_F(MergeTest, RefusesADtypeThatThereIsNot) {
  EXPECT_EQ(RunBare({"merge", "adapter", "-o", "out", "--dtype", "int8"}).code,
            2);
}

using SchemaTest = ClientTest;

TEST_F(SchemaTest, IsPrintedWithoutADaemon) {
  daemon_->Stop();
  const Result result = RunVerb({"schema"});
  EXPECT_THAT(
      result,
      Ends(0, AllOf(StartsWith("{\n  \"$schema\": "), EndsWith("}\n")), ""));
  EXPECT_EQ(nlohmann::ordered_json::parse(result.out), spec::JobSchema());
  EXPECT_THAT(RunVerb({"schema", "--json"}),
              Prints(spec::JobSchema().dump() + "\n"));
  EXPECT_THAT(RunVerb({"schema", "--markdown"}), Prints(JobReference()));
}

TEST_F(SchemaTest, AJobMayNameIt) {
  Write("t.jsonl", "row");
  const auto job = PrepareJob({Write("job.json", R"({"$schema": "./s.json",
      "model": "org/id", "dataset": {"train": "t.jsonl"}})")});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->files.size(), 1u);
  EXPECT_TRUE(job->warnings.empty());
}

// MPSD_WRITE_REFERENCE=1 writes it there instead.
TEST(JobReference, IsTheOneOfTheReadme) {
  const std::filesystem::path path =
      std::filesystem::path(MPSD_TEST_SOURCE_DIR) / "client/README.md";
  const std::string readme = *base::ReadFile(path);
  const std::string begin = "<!-- reference begins -->\n\n";
  const size_t before = readme.find(begin);
  ASSERT_NE(before, std::string::npos);
  const size_t start = before + begin.size();
  const size_t to = readme.find("\n<!-- reference ends -->\n", start - 1);
  ASSERT_NE(to, std::string::npos);
  if (std::getenv("MPSD_WRITE_REFERENCE") != nullptr) {
    const std::string text =
        readme.substr(0, start) + JobReference() + readme.substr(to);
    ASSERT_TRUE(base::WriteFileAtomic(path, text).ok());
    return;
  }
  EXPECT_EQ(readme.substr(start, to - start), JobReference())
      << "Write it anew: MPSD_WRITE_REFERENCE=1 client_test "
         "--gtest_filter=JobReference.IsTheOneOfTheReadme";
}

namespace fs = std::filesystem;
using testing::HasSubstr;

const fs::path kRoot = MPSD_TEST_SOURCE_DIR;
const fs::path kFolder = kRoot / "deploy/recipes";

std::string Read(const fs::path& path) {
  auto text = base::ReadFile(path);
  EXPECT_TRUE(text.ok()) << text.status();
  return text.ok() ? *text : "";
}

std::vector<std::string> Recipes() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".json")
      names.push_back(entry.path().stem());
  }
  return names;
}

spec::TrainSpec SpecOf(const std::string& recipe) {
  const fs::path path = kFolder / (recipe + ".json");
  auto spec = spec::ParseTrainSpec(Read(path), path.filename().string());
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? *spec : spec::TrainSpec();
}

// config.json of the model that the recipe names.
spec::ModelConfig ConfigOf(const std::string& recipe,
                           const spec::TrainSpec& spec) {
  const fs::path path =
      kRoot / "tests/client/testdata/recipes" / (recipe + ".config.json");
  auto config = spec::ParseModelConfig(Read(path), path.filename().string());
  EXPECT_TRUE(config.ok()) << config.status();
  if (!config.ok()) return {};
  const size_t labels = spec.classification.label_names.size();
  if (spec.task != spec::Task::kCausalLm) {
    config->num_labels = labels > 0 ? static_cast<int64_t>(labels) : 2;
  }
  return *config;
}

TEST(Recipes, AreFive) { EXPECT_EQ(Recipes().size(), 5u); }

TEST(Recipes, AreJobsOfTheirModels) {
  for (const std::string& recipe : Recipes()) {
    SCOPED_TRACE(recipe);
    const spec::TrainSpec spec = SpecOf(recipe);
    const spec::ModelConfig config = ConfigOf(recipe, spec);
    EXPECT_FALSE(spec.name.empty());
    EXPECT_TRUE(spec::CheckTask(spec, config).ok())
        << spec::CheckTask(spec, config);
    if (spec.fine_tune_type == spec::FineTuneType::kLora) {
      EXPECT_TRUE(spec::MatchTargets(spec.lora, config).ok());
    }
  }
}

TEST(Recipes, NeedTheMemoryThatTheReadmeNames) {
  const std::string readme = Read(kFolder / "README.md");
  for (const std::string& recipe : Recipes()) {
    const spec::TrainSpec spec = SpecOf(recipe);
    const int64_t bytes =
        spec::EstimateMemory(spec, ConfigOf(recipe, spec)).total_bytes;
    const std::string memory =
        absl::StrFormat("| %.2f GiB |", static_cast<double>(bytes) / (1 << 30));
    const std::string row = absl::StrCat("| [", recipe, ".json](");
    bool found = false;
    for (const absl::string_view piece : absl::StrSplit(readme, '\n')) {
      const std::string line(piece);
      if (!line.starts_with(row)) continue;
      found = true;
      EXPECT_THAT(line, HasSubstr(memory));
    }
    EXPECT_TRUE(found) << "README.md has no row of " << recipe;
  }
}

}  // namespace
}  // namespace mpsd::client
