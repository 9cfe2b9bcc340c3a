// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

namespace mpsd::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kMinimal[] =
    R"({"model": "m", "dataset": {"train": "train.jsonl"}})";

constexpr char kFull[] = R"({
  "name": "moods",
  "model": "models/smol",
  "task": "CAUSAL_LM",
  "dataset": {"train": ["a.jsonl", "/data/b.jsonl"], "eval": "e.jsonl"},
  "adapter": "old/adapter",
  "lora": {"r": 16, "lora_alpha": 32, "lora_dropout": 0.05,
           "target_modules": ["q_proj", "lm_head"], "use_rslora": true,
           "layers_to_transform": [0, 3],
           "rank_pattern": {"v_proj": 4, "q_proj": 2},
           "alpha_pattern": {"k_proj": 0.5}, "modules_to_save": ["norm"]},
  "training": {"num_train_epochs": 1.5, "max_steps": 100,
    "per_device_train_batch_size": 2, "per_device_eval_batch_size": 3,
    "gradient_accumulation_steps": 4, "learning_rate": 2e-4,
    "lr_scheduler_type": "cosine", "warmup_steps": 5, "warmup_ratio": 0.1,
    "weight_decay": 0.01, "adam_beta1": 0.8, "adam_beta2": 0.95,
    "adam_epsilon": 1e-6, "max_grad_norm": 0, "max_length": 512,
    "packing": true, "padding_free": false, "assistant_only_loss": true,
    "completion_only_loss": false, "gradient_checkpointing": true,
    "bf16": true, "seed": 7, "eval_steps": 10, "save_steps": 20,
    "save_total_limit": 2, "logging_steps": 5, "load_best_model_at_end": true,
    "early_stopping_patience": 3, "auto_find_batch_size": true,
    "train_sampling_strategy": "sequential"},
  "quantization_config": {"load_in_4bit": true,
    "bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": ["k_proj"],
    "bnb_4bit_compute_dtype": "bfloat16"},
  "device": "cpu", "allow_cpu_fallback": true
})";

TrainSpec Parse(std::string_view json) {
  auto spec = ParseTrainSpec(json, "job.json");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.value_or(TrainSpec());
}

std::string Error(std::string_view json) {
  const auto spec = ParseTrainSpec(json, "job.json");
  EXPECT_EQ(spec.status().code(), absl::StatusCode::kInvalidArgument) << json;
  return std::string(spec.status().message());
}

TEST(TrainingSpecTest, TwoFieldsSayOneThingOfRecomputation) {
  TrainingSpec training;
  EXPECT_EQ(training.recompute(), Recompute::kNone);
  training.recompute_granularity = Recompute::kSelective;
  EXPECT_EQ(training.recompute(), Recompute::kNone);
  training.gradient_checkpointing = true;
  EXPECT_EQ(training.recompute(), Recompute::kSelective);
  for (const Recompute recompute :
       {Recompute::kFull, Recompute::kSelective, Recompute::kNone}) {
    training.set_recompute(recompute);
    EXPECT_EQ(training.recompute(), recompute);
    EXPECT_NE(training.recompute_granularity, Recompute::kNone);
  }
}

TEST(ParseTrainSpec, FillsInEveryDefault) {
  TrainSpec expected;
  expected.model = "m";
  expected.dataset.train = {"train.jsonl"};
  EXPECT_EQ(Parse(kMinimal), expected);
}

// The values that TrainingArguments, SFTConfig and LoraConfig have; the
// exceptions (eval_steps 0, save_steps at 500, logging_steps 1, max_length
// 1024) are those of train_spec.h.
TEST(ToJson, WritesTheDocumentedDefaultsInOrder) {
  EXPECT_EQ(
      ToJson(Parse(kMinimal)),
      R"({"name":null,"model":"m","model_id":null,"task":"CAUSAL_LM",)"
      R"("fine_tune_type":"lora","from_scratch":false,)"
      R"("dataset":{"train":["train.jsonl"],"eval":[],"predict":[],)"
      R"("validation_split":0.0,"task_name":null,"text_columns":[],)"
      R"("messages_column":null,"prompt_column":null,)"
      R"("completion_column":null,"format":null,)"
      R"("label_column":null,"image_column":null,"max_train_samples":null,)"
      R"("max_eval_samples":null,"max_predict_samples":null},)"
      R"("classification":{"problem_type":null,"label_names":[],)"
      R"("class_weights":[],"ignore_mismatched_sizes":false},)"
      R"("augmentation":{"random_resized_crop":true,"crop_scale_min":0.08,)"
      R"("crop_scale_max":1.0,"crop_ratio_min":0.75,)"
      R"("crop_ratio_max":1.3333333333333333,"horizontal_flip":0.5},)"
      R"("quantization_config":{"load_in_4bit":false,"load_in_8bit":false,)"
      R"("bnb_4bit_quant_type":"nf4","bnb_4bit_use_double_quant":false,)"
      R"("bnb_4bit_compute_dtype":null,"llm_int8_skip_modules":[]},)"
      R"("adapter":null,)"
      R"("lora":{"r":8,"lora_alpha":8.0,"lora_dropout":null,)"
      R"("target_modules":null,"use_rslora":false,)"
      R"("layers_to_transform":null,"rank_pattern":{},"alpha_pattern":{},)"
      R"("modules_to_save":[]},)"
      R"("training":{"num_train_epochs":3.0,"max_steps":-1,)"
      R"("per_device_train_batch_size":8,"per_device_eval_batch_size":8,)"
      R"("gradient_accumulation_steps":1,"learning_rate":5e-05,)"
      R"("lr_scheduler_type":"linear","warmup_steps":0,"warmup_ratio":0.0,)"
      R"("weight_decay":0.0,"adam_beta1":0.9,"adam_beta2":0.999,)"
      R"("adam_epsilon":1e-08,"max_grad_norm":1.0,"max_length":1024,)"
      R"("packing":false,"padding_free":null,)"
      R"("train_sampling_strategy":"random",)"
      R"("auto_find_batch_size":false,"assistant_only_loss":null,)"
      R"("completion_only_loss":null,"chat_template_path":null,)"
      R"("eos_token":null,"gradient_checkpointing":false,)"
      R"("recompute_granularity":"full",)"
      R"("bf16":false,"seed":42,"eval_steps":0,"save_steps":500,)"
      R"("save_total_limit":null,"logging_steps":1,)"
      R"("load_best_model_at_end":false,"metric_for_best_model":null,)"
      R"("greater_is_better":null,"early_stopping_patience":null,)"
      R"("early_stopping_threshold":0.0},)"
      R"("device":"auto","gradients":"auto","allow_cpu_fallback":false})");
}

TEST(ParseTrainSpec, ReadsEveryField) {
  const TrainSpec spec = Parse(kFull);
  EXPECT_EQ(spec.name, "moods");
  EXPECT_EQ(spec.model, "models/smol");
  EXPECT_THAT(spec.dataset.train, ElementsAre("a.jsonl", "/data/b.jsonl"));
  EXPECT_THAT(spec.dataset.eval, ElementsAre("e.jsonl"));
  EXPECT_EQ(spec.adapter, "old/adapter");
  EXPECT_EQ(spec.device, DeviceChoice::kCpu);
  EXPECT_TRUE(spec.training.auto_find_batch_size);
  EXPECT_EQ(spec.training.train_sampling_strategy, "sequential");
  EXPECT_TRUE(spec.quantization_config.load_in_4bit);
  EXPECT_TRUE(spec.quantization_config.bnb_4bit_use_double_quant);
  EXPECT_EQ(spec.quantization_config.bnb_4bit_compute_dtype, "bfloat16");
  EXPECT_THAT(spec.quantization_config.llm_int8_skip_modules,
              ElementsAre("k_proj"));
  EXPECT_TRUE(spec.allow_cpu_fallback);
  EXPECT_EQ(spec.lora.r, 16);
  EXPECT_EQ(spec.lora.lora_alpha, 32);
  EXPECT_EQ(spec.lora.rank_pattern,
            (PatternMap<int64_t>{{"v_proj", 4}, {"q_proj", 2}}));
  EXPECT_EQ(spec.training.learning_rate, 2e-4);
  EXPECT_EQ(spec.training.max_steps, 100);
  EXPECT_EQ(spec.training.lr_scheduler_type, "cosine");
  EXPECT_EQ(spec.training.assistant_only_loss, true);
  EXPECT_EQ(spec.training.completion_only_loss, false);
  EXPECT_EQ(spec.training.early_stopping_patience, 3);
}

TEST(ToJson, ParsesBackToAnEqualSpec) {
  for (const char* json : {kMinimal, kFull}) {
    const TrainSpec spec = Parse(json);
    EXPECT_EQ(Parse(ToJson(spec)), spec);
    EXPECT_EQ(ToJson(Parse(ToJson(spec))), ToJson(spec));
  }
  TrainSpec spec = Parse(kMinimal);
  spec.lora.target_modules = LoraSpec::AllLinear();
  EXPECT_EQ(Parse(ToJson(spec)), spec);
  spec.lora.target_modules = std::string(".*\\.(q|v)_proj");
  EXPECT_EQ(Parse(ToJson(spec)), spec);
}

struct ErrorCase {
  std::string fields;  // beside model and dataset
  std::string expected;
};

class ParseTrainSpecErrors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ParseTrainSpecErrors, NameLinePathAndWhatToDo) {
  const std::string json =
      "{\"model\": \"m\", \"dataset\": {\"train\": \"t\"},\n" +
      GetParam().fields + "}";
  EXPECT_EQ(Error(json), "job.json:2: " + GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseTrainSpecErrors,
    ::testing::Values(
        ErrorCase{R"("training": {"learning_rat": 1})",
                  "training.learning_rat: unknown field; did you mean "
                  "\"learning_rate\"?"},
        ErrorCase{R"("trainig": {})",
                  "trainig: unknown field; did you mean \"training\"?"},
        ErrorCase{R"("learning_rate": 1)",
                  "learning_rate: unknown field; did you mean "
                  "\"training.learning_rate\"?"},
        ErrorCase{R"("training": {"lr": 1})",
                  "training.lr: unknown field; did you mean "
                  "\"learning_rate\"?"},
        ErrorCase{R"("lora": {"rank": 8})",
                  "lora.rank: unknown field; did you mean \"r\"?"},
        ErrorCase{R"("training": {"optim": "adafactor"})",
                  "training.optim: not supported: the optimizer is AdamW "
                  "(adamw_torch)"},
        ErrorCase{R"("training": {"eval_strategy": "epoch"})",
                  "training.eval_strategy: not supported: eval_steps says "
                  "when; 0 is the end of every epoch"},
        ErrorCase{R"("lora": {"r": 0})",
                  "lora.r: expected an integer >= 1, found 0"},
        ErrorCase{R"("lora": {"r": 8.5})",
                  "lora.r: expected an integer >= 1, found 8.5"},
        ErrorCase{R"("lora": {"lora_dropout": 1})",
                  "lora.lora_dropout: expected a number >= 0 and < 1, found "
                  "1"},
        ErrorCase{R"("lora": {"lora_alpha": 0})",
                  "lora.lora_alpha: expected a number > 0, found 0"},
        ErrorCase{R"("lora": [8])", "lora: expected an object, found a list"},
        ErrorCase{R"("training": {"learning_rate": "2e-4"})",
                  "training.learning_rate: expected a number > 0, found the "
                  "string \"2e-4\""},
        ErrorCase{R"("training": {"learning_rate": 0})",
                  "training.learning_rate: expected a number > 0, found 0"},
        ErrorCase{R"("training": {"adam_beta2": 1.0})",
                  "training.adam_beta2: expected a number >= 0 and < 1, found "
                  "1.0"},
        ErrorCase{R"("training": {"max_steps": 0})",
                  "training.max_steps: expected an integer > 0, or -1 for no "
                  "limit, found 0"},
        ErrorCase{R"("training": {"warmup_steps": 0.1})",
                  "training.warmup_steps: expected an integer >= 0, found 0.1; "
                  "a share of all steps goes into \"warmup_ratio\""},
        ErrorCase{R"("training": {"warmup_ratio": 2})",
                  "training.warmup_ratio: expected a number >= 0 and <= 1, "
                  "found 2"},
        ErrorCase{R"("training": {"bf16": "yes"})",
                  "training.bf16: expected true or false, found the string "
                  "\"yes\""},
        ErrorCase{R"("training": {"max_length": 1})",
                  "training.max_length: expected an integer >= 2, found 1"},
        ErrorCase{R"("training": {"lr_scheduler_type": "cosin"})",
                  "training.lr_scheduler_type: expected one of \"linear\", "
                  "\"cosine\", \"cosine_with_restarts\", \"polynomial\", "
                  "\"constant\", \"constant_with_warmup\", \"inverse_sqrt\", "
                  "found the string \"cosin\"; did you mean \"cosine\"?"},
        ErrorCase{R"("device": "gpu")",
                  "device: expected one of \"auto\", \"mps\", \"cuda\", "
                  "\"cpu\", found the string \"gpu\"; did you mean \"cpu\"?"},
        ErrorCase{R"("task": "SEQ_CLF")",
                  "task: expected one of \"CAUSAL_LM\", \"SEQ_CLS\", "
                  "\"IMAGE_CLS\", found the string \"SEQ_CLF\"; did you mean "
                  "\"SEQ_CLS\"?"},
        ErrorCase{R"("fine_tune_type": "dora")",
                  "fine_tune_type: expected one of \"lora\", \"full\", "
                  "\"head\", found the string \"dora\"; did you mean "
                  "\"lora\"?"},
        ErrorCase{R"("classification": {"class_weights": [1, 0]})",
                  "classification.class_weights[1]: expected a number > 0, "
                  "found 0"},
        ErrorCase{R"("classification": {"problem_type": "regresion"})",
                  "classification.problem_type: expected one of "
                  "\"single_label_classification\", \"regression\", "
                  "\"multi_label_classification\", found the string "
                  "\"regresion\"; did you mean \"regression\"?"},
        ErrorCase{R"("adapter": "")",
                  "adapter: expected the path of a PEFT adapter folder, found "
                  "the string \"\""}));

TEST(ParseTrainSpec, ReportsEveryFaultAtOnce) {
  EXPECT_EQ(Error("{\n\"dataset\": {\"eval\": 3},\n\"lora\": {\"r\": \"8\"},\n"
                  "\"training\": {\"seed\": -1,\n\"sead\": 1}\n}"),
            "job.json:1: model: missing; expected a model folder or the id of "
            "a model in the local Hugging Face cache\n"
            "job.json:2: dataset.train: missing; expected a file or a "
            "list of them\n"
            "job.json:2: dataset.eval: expected a file or a list of "
            "them, found 3\n"
            "job.json:3: lora.r: expected an integer >= 1, found the string "
            "\"8\"\n"
            "job.json:4: training.seed: expected an integer >= 0, found -1\n"
            "job.json:5: training.sead: unknown field; did you mean "
            "\"seed\"?");
}

TEST(ParseTrainSpec, WantsAnObject) {
  EXPECT_EQ(Error("[]"),
            "job.json:1: expected an object with \"model\" and \"dataset\", "
            "found a list");
  EXPECT_THAT(Error("{"), HasSubstr("job.json:1: not valid JSON"));
  EXPECT_EQ(Error("{}").substr(0, 18), "job.json:1: model:");
  EXPECT_THAT(Error("{\"model\": \"m\"}"), HasSubstr("dataset.train: missing"));
}

TEST(ParseTrainSpec, ASchemaHasNoEffect) {
  const std::string json =
      R"({"$schema": "./job.schema.json", "model": "m",
          "dataset": {"train": "train.jsonl"}})";
  EXPECT_EQ(Parse(json), Parse(kMinimal));
  EXPECT_EQ(ToJson(Parse(json)), ToJson(Parse(kMinimal)));
  EXPECT_THAT(Error(R"({"$schema": 7, "model": "m",
                        "dataset": {"train": "t"}})"),
              HasSubstr("$schema: expected a string, found 7"));
  EXPECT_THAT(Error(R"({"schema": "s", "model": "m",
                        "dataset": {"train": "t"}})"),
              HasSubstr("did you mean \"$schema\"?"));
}

TEST(ParseTrainSpec, RefusesAFieldGivenTwice) {
  EXPECT_EQ(Error("{\"training\": {\"seed\": 1,\n\"seed\": 2}}"),
            "job.json:2: not valid JSON: the name \"seed\" appears twice in "
            "the same object");
}

TEST(VisitPaths, NamesEachFieldThatHasAPath) {
  TrainSpec spec = Parse(kMinimal);
  spec.dataset.train = {"a", "b"};
  spec.dataset.eval = {"c"};
  spec.dataset.predict = {"d"};
  spec.model = "m";
  spec.training.chat_template_path = "t";
  std::string seen;
  VisitPaths(std::as_const(spec),
             [&](const char* field, const std::string& path) {
               seen += std::string(field) + "=" + path + ";";
             });
  EXPECT_EQ(seen,
            "model=m;dataset.train=a;dataset.train=b;dataset.eval=c;"
            "dataset.predict=d;adapter=;training.chat_template_path=t;");
}

TEST(ResolvePaths, MakesPathsAbsoluteButNotIds) {
  const std::string base =
      ::testing::TempDir() + "/resolve_paths-" + std::to_string(getpid());
  std::filesystem::create_directories(base + "/models/smol");
  const TrainSpec spec = ResolvePaths(Parse(kFull), base + "/./");
  EXPECT_EQ(
      spec.model,
      std::filesystem::path(base + "/models/smol").lexically_normal().string());
  EXPECT_EQ(
      spec.dataset.train[0],
      std::filesystem::path(base + "/a.jsonl").lexically_normal().string());
  EXPECT_EQ(spec.dataset.train[1], "/data/b.jsonl");
  EXPECT_TRUE(std::filesystem::path(spec.dataset.eval[0]).is_absolute());
  EXPECT_TRUE(std::filesystem::path(spec.adapter).is_absolute());
  TrainSpec id = Parse(kMinimal);
  id.model = "owner/name";
  EXPECT_EQ(ResolvePaths(id, base).model, "owner/name");
  EXPECT_EQ(ResolvePaths(id, base).adapter, "");
  std::filesystem::remove_all(base);
}

}  // namespace
}  // namespace mpsd::spec
