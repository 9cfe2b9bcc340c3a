// SPDX-License-Identifier: Apache-2.0
#include "client/import/import_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/spec/train_spec.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

class ImportJobTest : public testing::Test {
 protected:
  absl::StatusOr<ImportedJob> Import(const std::string& text) {
    auto run = ParseRunArguments(text);
    EXPECT_TRUE(run.ok()) << run.status();
    return ImportJob(*run, [](const std::string& path) { return "@" + path; });
  }
  // The job, and its notes in notes_.
  Json Job(const std::string& text) {
    auto job = Import(text);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return {};
    notes_ = job->notes;
    EXPECT_TRUE(spec::ParseTrainSpec(job->spec_json, "job").ok());
    return Json::parse(job->spec_json);
  }
  std::string NoteOn(const std::string& subject) const {
    for (const ImportNote& note : notes_) {
      if (note.subject == subject) return note.text;
    }
    return "";
  }
  std::string Error(const std::string& text) {
    return std::string(Import(text).status().message());
  }

  const std::string kFiles =
      "--model_name_or_path m --train_file t.csv --validation_file e.csv "
      "--test_file p.csv --do_train ";
  std::vector<ImportNote> notes_;
};

TEST_F(ImportJobTest, TheCommandOfTheGuide) {
  const Json job = Job(R"(export TASK_NAME=mrpc
python examples/pytorch/text-classification/run_glue.py \
  --model_name_or_path google-bert/bert-base-cased \
  --task_name $TASK_NAME \
- --use_mps_device \
  --do_train \
  --do_eval \
  --max_seq_length 128 \
  --per_device_train_batch_size 32 \
  --learning_rate 2e-5 \
  --num_train_epochs 3 \
  --output_dir /tmp/$TASK_NAME/ \
  --overwrite_output_dir
)");
  EXPECT_EQ(job, Json::parse(R"({
    "model": "google-bert/bert-base-cased",
    "task": "SEQ_CLS",
    "fine_tune_type": "full",
    "dataset": {"train": "train.tsv", "eval": "dev.tsv", "task_name": "mrpc"},
    "training": {"per_device_train_batch_size": 32, "learning_rate": 2e-5,
                 "num_train_epochs": 3.0, "max_length": 128},
    "device": "mps"})"));
  EXPECT_THAT(NoteOn("--task_name"), HasSubstr("train.tsv, dev.tsv"));
  EXPECT_THAT(NoteOn("--output_dir"), HasSubstr("mpsctl download"));
  EXPECT_NE(NoteOn("--overwrite_output_dir"), "");
  EXPECT_EQ(notes_.size(), 3u);
}

TEST_F(ImportJobTest, FilesAndWhatTheyAreFor) {
  Json dataset = Job(kFiles + "--do_eval --do_predict")["dataset"];
  EXPECT_EQ(dataset["train"], "@t.csv");
  EXPECT_EQ(dataset["eval"], "@e.csv");
  EXPECT_EQ(dataset["predict"], "@p.csv");
  dataset = Job(kFiles + "--eval_strategy epoch")["dataset"];
  EXPECT_EQ(dataset["eval"], "@e.csv");
  EXPECT_FALSE(dataset.contains("predict"));
  EXPECT_THAT(NoteOn("--test_file"), HasSubstr("--do_predict"));
  EXPECT_FALSE(Job(kFiles)["dataset"].contains("eval"));
  EXPECT_THAT(NoteOn("--validation_file"), HasSubstr("--do_eval"));
  EXPECT_THAT(NoteOn("--max_seq_length"), HasSubstr("128"));
}

TEST_F(ImportJobTest, TheTrainingArgumentsOfTheSameName) {
  const Json training = Job(kFiles + R"(--do_eval --do_predict --max_steps 100
      --per_device_eval_batch_size 64 --gradient_accumulation_steps 2
      --lr_scheduler_type cosine --warmup_ratio 0.1 --weight_decay 0.01
      --adam_beta2 0.98 --max_grad_norm 0.5 --gradient_checkpointing --bf16 True
      --seed 7 --save_total_limit 2 --logging_steps 10
      --load_best_model_at_end --metric_for_best_model eval_f1
      --greater_is_better yes --max_seq_length 64 --eval_strategy steps
      --eval_steps 20 --save_steps 20)")["training"];
  EXPECT_EQ(training, Json::parse(R"({"max_steps": 100,
      "per_device_eval_batch_size": 64, "gradient_accumulation_steps": 2,
      "lr_scheduler_type": "cosine", "warmup_ratio": 0.1, "weight_decay": 0.01,
      "adam_beta2": 0.98, "max_grad_norm": 0.5, "gradient_checkpointing": true,
      "bf16": true, "seed": 7, "save_total_limit": 2, "logging_steps": 10,
      "load_best_model_at_end": true, "metric_for_best_model": "eval_f1",
      "greater_is_better": true, "max_length": 64, "eval_steps": 20,
      "save_steps": 20})"));
  EXPECT_TRUE(notes_.empty()) << notes_[0].subject;
}

TEST_F(ImportJobTest, WhenToEvaluateAndToSave) {
  const auto training = [&](const std::string& more) {
    return Job(kFiles + more)["training"];
  };
  EXPECT_EQ(training("--eval_strategy steps")["eval_steps"], 500);
  EXPECT_EQ(
      training("--evaluation_strategy steps --logging_steps 9")["eval_steps"],
      9);
  EXPECT_FALSE(
      training("--eval_strategy epoch --eval_steps 7").contains("eval_steps"));
  EXPECT_EQ(training("--save_strategy no")["save_steps"], 0);
  EXPECT_FALSE(training("--save_strategy epoch").contains("save_steps"));
  EXPECT_THAT(NoteOn("--save_strategy"), HasSubstr("save_steps"));
  EXPECT_FALSE(training("--save_steps 0.1").contains("save_steps"));
  EXPECT_THAT(NoteOn("--save_steps"), HasSubstr("share"));
  EXPECT_EQ(training("--warmup_steps 0.25")["warmup_ratio"], 0.25);
  EXPECT_EQ(training("--warmup_steps 25")["warmup_steps"], 25);
}

TEST_F(ImportJobTest, DataOfTheHub) {
  Json job = Job(
      "python run_classification.py --model_name_or_path m --dataset_name "
      "org/set --dataset_config_name en --do_train --do_eval "
      "--text_column_names sentence --label_column_name mood --do_regression");
  EXPECT_EQ(job["dataset"], Json::parse(R"({"train": "train.jsonl",
      "eval": "validation.jsonl", "text_columns": ["sentence"],
      "label_column": "mood"})"));
  EXPECT_EQ(job["classification"]["problem_type"], "regression");
  EXPECT_THAT(NoteOn("--dataset_name"),
              HasSubstr("load_dataset('org/set', 'en')"));
  EXPECT_EQ(NoteOn("--dataset_config_name"), "");
  Job(kFiles + "--text_column_names a,b");
  EXPECT_THAT(NoteOn("--text_column_names"), HasSubstr("pair"));
}

TEST_F(ImportJobTest, Images) {
  const Json job =
      Job("python run_image_classification.py --train_dir pets --do_train "
          "--do_eval --image_column_name img --per_device_train_batch_size 4");
  EXPECT_EQ(job["task"], "IMAGE_CLS");
  EXPECT_EQ(job["model"], "google/vit-base-patch16-224-in21k");
  EXPECT_EQ(job["dataset"], Json::parse(R"({"train": "@pets",
      "validation_split": 0.15, "image_column": "img"})"));
  EXPECT_FALSE(job["training"].contains("max_length"));
  EXPECT_EQ(
      Job("--train_dir a --validation_dir b --do_train --do_eval")["dataset"]
                                                                  ["eval"],
      "@b");
}

TEST_F(ImportJobTest, WhatHasNoEqualIsListedWithItsReason) {
  Job(kFiles + R"(--do_eval --fp16 --push_to_hub --report_to wandb
      --dataloader_num_workers 4 --optim adafactor --tokenizer_name other)");
  EXPECT_THAT(NoteOn("--fp16"), HasSubstr("--bf16"));
  EXPECT_THAT(NoteOn("--push_to_hub"), HasSubstr("mpsctl download"));
  EXPECT_THAT(NoteOn("--report_to"), HasSubstr("Prometheus"));
  EXPECT_THAT(NoteOn("--dataloader_num_workers"), HasSubstr("not needed"));
  EXPECT_THAT(NoteOn("--optim"), HasSubstr("AdamW"));
  EXPECT_THAT(NoteOn("--tokenizer_name"), HasSubstr("model's folder"));
}

TEST_F(ImportJobTest, WhatIsSwitchedOffNeedsNoWord) {
  Job(kFiles + R"(--do_eval --do_predict --max_seq_length 8 --fp16 False
      --push_to_hub no --report_to none --optim adamw_torch
      --label_smoothing_factor 0.0 --dataloader_num_workers 0)");
  EXPECT_TRUE(notes_.empty()) << notes_[0].subject;
}

TEST_F(ImportJobTest, UnknownNamesGetTheNearest) {
  Job(kFiles + "--lerning_rate 1 --max_sequence_length 8 --frobnicate x");
  EXPECT_EQ(NoteOn("--lerning_rate"),
            "is not known; was --learning_rate meant?");
  EXPECT_EQ(NoteOn("--frobnicate"), "is not known");
}

TEST_F(ImportJobTest, LaunchersAndStraysAreNamed) {
  Job("torchrun --nproc_per_node 8 run_glue.py what " + kFiles);
  EXPECT_THAT(NoteOn("torchrun --nproc_per_node 8"), HasSubstr("one device"));
  EXPECT_NE(NoteOn("what"), "");
}

TEST_F(ImportJobTest, Errors) {
  EXPECT_THAT(Error("--train_file t --do_train"),
              HasSubstr("--model_name_or_path"));
  EXPECT_THAT(Error("--model_name_or_path m"), HasSubstr("--train_file"));
  EXPECT_THAT(Error("--train_file x --image_column_name i --train_dir "
                    "--model_name_or_path m"),
              HasSubstr("--train_dir"));
  EXPECT_THAT(Error(kFiles + "--learning_rate fast"),
              HasSubstr("--learning_rate: expected a number, found 'fast'"));
  EXPECT_THAT(Error(kFiles + "--max_steps 1.5"),
              HasSubstr("--max_steps: expected an integer"));
  EXPECT_THAT(Error(kFiles + "--bf16 maybe"),
              HasSubstr("--bf16: expected true or false"));
  EXPECT_THAT(Error(kFiles + "--load_best_model_at_end"),
              HasSubstr("load_best_model_at_end"));
  EXPECT_THAT(Error(kFiles + "--task_name mprc"), HasSubstr("mrpc"));
}

}  // namespace
}  // namespace mpsd::client
