// SPDX-License-Identifier: Apache-2.0
#include "core/spec/idle_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

namespace mpsd::spec {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A job that the rules take, with `patch` in it.
TrainSpec Job(const char* patch) {
  json job = {{"model", "m"}, {"dataset", {{"train", "a.jsonl"}}}};
  job.merge_patch(json::parse(patch));
  const auto spec = ParseTrainSpec(job.dump(), "job.json");
  EXPECT_TRUE(spec.ok()) << spec.status() << "\n" << job;
  return spec.value_or(TrainSpec());
}

struct Case {
  const char* field;
  const char* idle;     // a job in which it has no effect
  const char* working;  // one in which it has
  const char* reason;   // a part of it
};
constexpr Case kCases[] = {
    {"dataset.max_eval_samples", R"({"dataset": {"max_eval_samples": 5}})",
     R"({"dataset": {"max_eval_samples": 5, "validation_split": 0.1}})",
     "no evaluation"},
    {"dataset.max_predict_samples",
     R"({"task": "SEQ_CLS", "dataset": {"max_predict_samples": 5}})",
     R"({"task": "SEQ_CLS",
         "dataset": {"max_predict_samples": 5, "predict": "p.tsv"}})",
     "no dataset.predict"},
    {"classification.ignore_mismatched_sizes",
     R"({"task": "SEQ_CLS", "fine_tune_type": "full", "from_scratch": true,
         "classification": {"ignore_mismatched_sizes": true}})",
     R"({"task": "SEQ_CLS", "fine_tune_type": "full",
         "classification": {"ignore_mismatched_sizes": true}})",
     "from_scratch"},
    {"augmentation.crop_scale_min",
     R"({"task": "IMAGE_CLS", "augmentation":
         {"random_resized_crop": false, "crop_scale_min": 0.5}})",
     R"({"task": "IMAGE_CLS", "augmentation": {"crop_scale_min": 0.5}})",
     "random_resized_crop"},
    {"augmentation.crop_scale_max",
     R"({"task": "IMAGE_CLS", "augmentation":
         {"random_resized_crop": false, "crop_scale_max": 0.5}})",
     R"({"task": "IMAGE_CLS", "augmentation": {"crop_scale_max": 0.5}})",
     "random_resized_crop"},
    {"augmentation.crop_ratio_min",
     R"({"task": "IMAGE_CLS", "augmentation":
         {"random_resized_crop": false, "crop_ratio_min": 0.5}})",
     R"({"task": "IMAGE_CLS", "augmentation": {"crop_ratio_min": 0.5}})",
     "random_resized_crop"},
    {"augmentation.crop_ratio_max",
     R"({"task": "IMAGE_CLS", "augmentation":
         {"random_resized_crop": false, "crop_ratio_max": 1.5}})",
     R"({"task": "IMAGE_CLS", "augmentation": {"crop_ratio_max": 1.5}})",
     "random_resized_crop"},
    {"quantization_config.bnb_4bit_compute_dtype",
     R"({"quantization_config":
         {"load_in_8bit": true, "bnb_4bit_compute_dtype": "float32"}})",
     R"({"quantization_config":
         {"load_in_4bit": true, "bnb_4bit_compute_dtype": "float32"}})",
     "load_in_4bit"},
    {"training.num_train_epochs",
     R"({"training": {"num_train_epochs": 2, "max_steps": 5}})",
     R"({"training": {"num_train_epochs": 2}})", "max_steps"},
    {"training.warmup_ratio",
     R"({"training": {"warmup_ratio": 0.1, "warmup_steps": 5}})",
     R"({"training": {"warmup_ratio": 0.1}})", "warmup_steps"},
    {"training.warmup_steps or warmup_ratio",
     R"({"training": {"warmup_steps": 5, "lr_scheduler_type": "constant"}})",
     R"({"training":
         {"warmup_steps": 5, "lr_scheduler_type": "constant_with_warmup"}})",
     "constant_with_warmup"},
    {"training.max_length",
     R"({"task": "IMAGE_CLS", "training": {"max_length": 64}})",
     R"({"training": {"max_length": 64}})", "images"},
    {"training.padding_free",
     R"({"training": {"padding_free": true, "packing": true}})",
     R"({"training": {"padding_free": true}})", "packing"},
    {"training.train_sampling_strategy",
     R"({"task": "IMAGE_CLS",
         "training": {"train_sampling_strategy": "group_by_length"}})",
     R"({"training": {"train_sampling_strategy": "group_by_length"}})",
     "images"},
    {"training.recompute_granularity",
     R"({"training": {"recompute_granularity": "selective"}})",
     R"({"training": {"recompute_granularity": "selective",
                      "gradient_checkpointing": true}})",
     "gradient_checkpointing is false"},
    {"training.recompute_granularity",
     R"({"fine_tune_type": "full",
         "training": {"recompute_granularity": "selective",
                      "gradient_checkpointing": true}})",
     R"({"training": {"recompute_granularity": "selective",
                      "gradient_checkpointing": true}})",
     "only language models"},
    {"gradients", R"({"task": "SEQ_CLS", "gradients": "autograd"})",
     R"({"gradients": "autograd"})", "only language models"},
    {"allow_cpu_fallback", R"({"allow_cpu_fallback": true, "device": "cpu"})",
     R"({"allow_cpu_fallback": true})", "mps"},
    {"training.per_device_eval_batch_size",
     R"({"training": {"per_device_eval_batch_size": 4}})",
     R"({"training": {"per_device_eval_batch_size": 4},
         "dataset": {"eval": "e.jsonl"}})",
     "no dataset.eval"},
    {"training.metric_for_best_model",
     R"({"training": {"metric_for_best_model": "loss"}})",
     R"({"training": {"metric_for_best_model": "loss",
                      "early_stopping_patience": 2},
         "dataset": {"eval": "e.jsonl"}})",
     "no evaluation"},
    {"training.metric_for_best_model",
     R"({"training": {"metric_for_best_model": "loss"},
         "dataset": {"eval": "e.jsonl"}})",
     R"({"training": {"metric_for_best_model": "loss",
                      "load_best_model_at_end": true},
         "dataset": {"eval": "e.jsonl"}})",
     "load_best_model_at_end"},
    {"training.greater_is_better",
     R"({"training": {"greater_is_better": true}})",
     R"({"training": {"greater_is_better": true,
                      "load_best_model_at_end": true},
         "dataset": {"eval": "e.jsonl"}})",
     "no evaluation"},
    {"training.greater_is_better",
     R"({"training": {"greater_is_better": true},
         "dataset": {"eval": "e.jsonl"}})",
     R"({"training": {"greater_is_better": true,
                      "early_stopping_patience": 2},
         "dataset": {"eval": "e.jsonl"}})",
     "load_best_model_at_end"},
    {"training.early_stopping_threshold",
     R"({"training": {"early_stopping_threshold": 0.1}})",
     R"({"training": {"early_stopping_threshold": 0.1,
                      "early_stopping_patience": 2},
         "dataset": {"eval": "e.jsonl"}})",
     "early_stopping_patience"},
    {"training.save_total_limit",
     R"({"training": {"save_total_limit": 2, "save_steps": 0}})",
     R"({"training": {"save_total_limit": 2}})", "save_steps is 0"},
};

TEST(IdleWarningsTest, NameEachFieldThatChangesNothing) {
  for (const Case& c : kCases) {
    EXPECT_THAT(
        IdleWarnings(Job(c.idle)),
        ElementsAre(testing::AllOf(
            testing::StartsWith(std::string(c.field) + " has no effect: "),
            HasSubstr(c.reason))))
        << c.idle;
    EXPECT_THAT(IdleWarnings(Job(c.working)), IsEmpty()) << c.working;
  }
}

TEST(IdleWarningsTest, EveryRowHasItsCase) {
  std::map<std::string_view, int> rows;
  for (const IdleField& field : IdleFields()) ++rows[field.field];
  for (const Case& c : kCases) --rows[c.field];
  for (const auto& [field, left] : rows) EXPECT_EQ(left, 0) << field;
}

TEST(IdleWarningsTest, DefaultsAreNotSpokenOf) {
  for (const char* job :
       {"{}", R"({"task": "SEQ_CLS"})", R"({"task": "IMAGE_CLS"})",
        R"({"fine_tune_type": "full", "from_scratch": true})"}) {
    const TrainSpec spec = Job(job);
    EXPECT_THAT(IdleWarnings(spec), IsEmpty()) << job;
    // The daemon writes every default out.
    EXPECT_THAT(IdleWarnings(*ParseTrainSpec(ToJson(spec), "x")), IsEmpty());
  }
}

TEST(ModelWarningsTest, ALengthBeyondThePositionsIsSaid) {
  ModelConfig config;
  config.max_position_embeddings = 64;
  TrainSpec spec = Job(R"({"training": {"max_length": 64}})");
  EXPECT_THAT(ModelWarnings(spec, config), IsEmpty());
  spec.training.max_length = 16'384;
  EXPECT_THAT(ModelWarnings(spec, config),
              ElementsAre(testing::AllOf(HasSubstr("max_length is 16384"),
                                         HasSubstr("embeddings 64:"))));
  spec.task = Task::kSeqCls;
  config.encoder.first_position = 2;
  EXPECT_THAT(ModelWarnings(spec, config),
              ElementsAre(HasSubstr("positions for 62 tokens")));
  spec.training.max_length = TrainingSpec().max_length;
  EXPECT_THAT(ModelWarnings(spec, config), IsEmpty()) << "nobody asked for it";
  spec.task = Task::kImageCls;
  spec.training.max_length = 16'384;
  EXPECT_THAT(ModelWarnings(spec, config), IsEmpty());
}

TEST(ModelWarningsTest, ASkippedModuleMustBeThere) {
  ModelConfig config;
  config.model_type = "llama";
  config.num_hidden_layers = 2;
  config.max_position_embeddings = 4096;
  TrainSpec spec = Job(R"({"quantization_config": {"load_in_4bit": true,
      "llm_int8_skip_modules": ["lm_head", "down_proj", "layers.1", "c_attn"]}})");
  EXPECT_THAT(ModelWarnings(spec, config),
              ElementsAre(HasSubstr("\"c_attn\" has no effect")));
}

}  // namespace
}  // namespace mpsd::spec
