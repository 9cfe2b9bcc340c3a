// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec.h"

#include "core/base/limits.h"
#include "core/spec/job_layers.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::spec {
namespace {

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
    "train_sampling_strategy": "sequential",
    "sample_prompts": ["hi", {"messages": [{"role": "user", "content": "a",
                                            "n": [1, 0.5, null, true]}]}],
    "sample_steps": 3, "sample_max_new_tokens": 9},
  "quantization_config": {"load_in_4bit": true,
    "bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": ["k_proj"],
    "bnb_4bit_compute_dtype": "bfloat16"},
  "device": "cpu", "allow_cpu_fallback": true
})";

TrainSpec Parse(std::string_view json) {
  return ParseTrainSpec(json, "job.json").value();
}

std::string Error(std::string_view json) {
  const auto spec = ParseTrainSpec(json, "job.json");
  EXPECT_TRUE(absl::IsInvalidArgument(spec.status())) << json;
  return std::string(spec.status().message());
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
  std::string fields;  // in addition to model and dataset
  std::string expected;
};

TEST(ParseTrainSpec, ErrorsNameLinePathAndWhatToDo) {
  const ErrorCase cases[] = {
      {R"("training": {"learning_rat": 1})",
       "training.learning_rat: unknown field; did you mean "
       "\"learning_rate\"?"},
      {R"("trainig": {})",
       "trainig: unknown field; did you mean \"training\"?"},
      {R"("learning_rate": 1)",
       "learning_rate: unknown field; did you mean "
       "\"training.learning_rate\"?"},
      {R"("training": {"eval_strategy": "epoch"})",
       "training.eval_strategy: not supported: eval_steps says "
       "when; 0 is the end of every epoch"},
      {R"("lora": {"r": 0})",
       "lora.r: expected an integer >= 1 and <= 65536, found 0"},
      {R"("lora": {"lora_dropout": 1})",
       "lora.lora_dropout: expected a number >= 0 and < 1, found "
       "1"},
      {R"("lora": [8])", "lora: expected an object, found a list"},
      {R"("training": {"learning_rate": "-2e-4"})",
       "training.learning_rate: expected a number > 0, found the "
       "string \"-2e-4\""},
      {R"("training": {"optim": "adafactor"})",
       "training.optim: expected one of \"adamw_torch\", "
       "\"adamw_torch_fused\", \"adamw_hf\", found the string "
       "\"adafactor\""},
      {R"("training": {"max_steps": 0})",
       "training.max_steps: expected an integer > 0, or -1 for no "
       "limit, found 0"},
      {R"("training": {"warmup_steps": 10.5})",
       "training.warmup_steps: expected an integer, or a share of all steps "
       "below 1, found 10.5"},
      {R"("training": {"bf16": "auto"})",
       "training.bf16: expected true or false (mpsd does not choose one; "
       "leave the field out for its default), found the string \"auto\""},
      {R"("training": {"lr_scheduler_type": "cosin"})",
       "training.lr_scheduler_type: expected one of \"linear\", "
       "\"cosine\", \"cosine_with_restarts\", \"polynomial\", "
       "\"constant\", \"constant_with_warmup\", \"inverse_sqrt\", "
       "found the string \"cosin\"; did you mean \"cosine\"?"},
      {R"("classification": {"class_weights": [1, 0]})",
       "classification.class_weights[1]: expected a number > 0, "
       "found 0"},
      {R"("name": "a\u001b[2J")",
       "name: 'a\\x1b[2J' has a line break, another control character or a "
       "mark that turns the direction of writing; leave it out"},
      {"\"name\": \"" + std::string(limits::kNameBytes + 1, 'n') + "\"",
       "name: has 257 bytes, at most 256 are allowed"},
      {R"("training": {"sample_prompts": ["a", {"prompt": 3}]})",
       "training.sample_prompts[1]: expected a text, {\"prompt\": TEXT} or "
       "{\"messages\": [{\"role\": …, \"content\": …}]}, found an object"},
      {R"("training": {"sample_prompts": ""})",
       "training.sample_prompts: expected a list of at most 16 prompts, found "
       "the string \"\""},
      {R"("training": {"sample_prompts": )" +
           nlohmann::json(std::vector<std::string>(17, "a")).dump() + "}",
       "training.sample_prompts: expected a list of at most 16 prompts, found "
       "a list"},
      {R"("training": {"sample_prompts": "a", "sample_max_new_tokens": 513})",
       "training.sample_max_new_tokens: expected an integer >= 1 and <= 512, "
       "found 513"},
      {R"("training": {"sample_steps": 5})",
       "training.sample_steps: needs sample_prompts; add them, or leave this "
       "out"},
      {R"("task": "SEQ_CLS", "training": {"sample_prompts": ["a"]})",
       "training.sample_prompts: is for task CAUSAL_LM; leave it out"},
      {R"("adapter": "")",
       "adapter: expected the path of a PEFT adapter folder, found "
       "the string \"\""}};
  for (const ErrorCase& c : cases) {
    const std::string json =
        "{\"model\": \"m\", \"dataset\": {\"train\": \"t\"},\n" + c.fields +
        "}";
    EXPECT_EQ(Error(json), "job.json:2: " + c.expected);
  }
}

TEST(ParseTrainSpec, TakesNumbersInQuotesAndTheNamesOfAdamW) {
  const TrainSpec spec = Parse(R"({"model": "m", "dataset": {"train": "t"},
      "lora": {"r": "16", "rank_pattern": {"q_proj": "4"}},
      "training": {"learning_rate": "2e-4", "max_steps": "10",
                   "optim": "adamw_torch_fused"}})");
  EXPECT_EQ(spec.lora.r, 16);
  EXPECT_EQ(spec.lora.rank_pattern.begin()->second, 4);
  EXPECT_EQ(spec.training.learning_rate, 2e-4);
  EXPECT_EQ(spec.training.max_steps, 10);
  EXPECT_EQ(ToJson(spec).find("optim"), std::string::npos);
}

TEST(ParseNewSpec, ANameOfANewJobCanBeSeen) {
  const std::string begin =
      "{\"model\": \"m\", \"dataset\": {\"train\": \"t\"},\n";
  const std::string blank = begin + R"("name": " \u200b\u2800"})";
  EXPECT_EQ(std::string(ParseNewSpec(blank, "job.json").status().message()),
            "job.json:2: name: has only spaces or invisible characters; choose "
            "another, or leave the field out");
  // The stored spec of an earlier job.
  EXPECT_FALSE(Parse(blank).name.empty());
  EXPECT_TRUE(ParseNewSpec(begin + R"("name": "n"})", "job.json").ok());
}

TEST(ParseTrainSpec, ReportsEveryFaultAtOnce) {
  EXPECT_EQ(Error("{\n\"dataset\": {\"eval\": 3},\n\"lora\": {\"r\": \"x\"},\n"
                  "\"training\": {\"seed\": -1,\n\"sead\": 1}\n}"),
            "job.json:1: model: missing; expected a model folder or the id of "
            "a model in the local Hugging Face cache\n"
            "job.json:2: dataset.train: missing; expected a file or a "
            "list of them\n"
            "job.json:2: dataset.eval: expected a file or a list of "
            "them, found 3\n"
            "job.json:3: lora.r: expected an integer >= 1 and <= 65536, found "
            "the string "
            "\"x\"\n"
            "job.json:4: training.seed: expected an integer >= 0, found -1\n"
            "job.json:5: training.sead: unknown field; did you mean "
            "\"seed\"?");
}

TEST(ParseTrainSpec, WantsAnObjectInWhichASchemaHasNoEffect) {
  EXPECT_EQ(Error("[]"),
            "job.json:1: expected an object with \"model\" and \"dataset\", "
            "found a list");
  EXPECT_THAT(Error("{"), HasSubstr("job.json:1: not valid JSON"));
  EXPECT_EQ(Error("{}").substr(0, 18), "job.json:1: model:");
  EXPECT_THAT(Error("{\"model\": \"m\"}"), HasSubstr("dataset.train: missing"));
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
  const std::string base = FreshFolder("resolve_paths");
  fs::create_directories(base + "/models/smol");
  const TrainSpec spec = ResolvePaths(Parse(kFull), base + "/./");
  EXPECT_EQ(spec.model,
            fs::path(base + "/models/smol").lexically_normal().string());
  EXPECT_EQ(spec.dataset.train[0],
            fs::path(base + "/a.jsonl").lexically_normal().string());
  EXPECT_EQ(spec.dataset.train[1], "/data/b.jsonl");
  EXPECT_TRUE(fs::path(spec.dataset.eval[0]).is_absolute());
  EXPECT_TRUE(fs::path(spec.adapter).is_absolute());
  TrainSpec id = Parse(kMinimal);
  id.model = "owner/name";
  EXPECT_EQ(ResolvePaths(id, base).model, "owner/name");
  EXPECT_EQ(ResolvePaths(id, base).adapter, "");
}

// The error of a job with these fields, and those of its dataset.
std::string JobError(const std::string& fields, const std::string& dataset = "",
                     const std::string& model = "m") {
  const std::string json = "{\"model\": \"" + model +
                           "\", \"dataset\": {\"train\": \"t\"" + dataset +
                           "}" + (fields.empty() ? "" : ", ") + fields + "}";
  return std::string(ParseTrainSpec(json, "j").status().message());
}

std::string Training(const std::string& fields) {
  return "\"training\": {" + fields + "}";
}

TEST(CheckRules, EvaluationNeedsAnEvalSetOrASplit) {
  for (const std::string field :
       {"\"eval_steps\": 5", "\"load_best_model_at_end\": true",
        "\"early_stopping_patience\": 2"}) {
    const std::string name = field.substr(1, field.find(':') - 2);
    EXPECT_EQ(JobError(Training(field)),
              "j:1: training." + name +
                  ": needs evaluations, and there is no dataset.eval; name its "
                  "files, set dataset.validation_split, or leave this out");
  }
  EXPECT_EQ(JobError(Training("\"eval_steps\": 5, "
                              "\"early_stopping_patience\": 2"),
                     ", \"eval\": \"e\""),
            "");
  EXPECT_EQ(
      JobError(Training("\"eval_steps\": 5"), ", \"validation_split\": 0.1"),
      "");
  EXPECT_EQ(JobError("", ", \"validation_split\": 0.1, \"eval\": \"e\""),
            "j:1: dataset.validation_split: cannot be combined with "
            "dataset.eval; leave one of them out");
}

TEST(CheckRules, AResultIsNamedByAWholeId) {
  const std::string id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
  EXPECT_EQ(JobError(R"("adapter": "job:)" + id + "\""), "");
  EXPECT_EQ(JobError(R"("adapter": "job:5FAV")"),
            "j:1: adapter: expected \"job:\" and the 26 characters of a job's "
            "id (`mpsctl list` shows them), found \"job:5FAV\"; a folder of "
            "such a name is \"./job:5FAV\"");
  EXPECT_EQ(JobError("", "", "job:" + id), "");
  EXPECT_EQ(JobError("", "", "job:../x").substr(0, 27),
            "j:1: model: expected \"job:\"");
}

TEST(CheckRules, WhatIsTrainedAgreesWithItself) {
  const std::string full = R"("fine_tune_type": "full")";
  EXPECT_EQ(JobError(full), "");
  EXPECT_EQ(JobError(full + R"(, "lora": {"r": 4})"),
            "j:1: lora: is for fine_tune_type \"lora\"; leave it out");
  EXPECT_EQ(JobError(full + R"(, "adapter": "a")"),
            "j:1: adapter: is for fine_tune_type \"lora\"; leave it out");
  EXPECT_EQ(JobError(R"("fine_tune_type": "head")"),
            "j:1: fine_tune_type: \"head\" is for SEQ_CLS and IMAGE_CLS; "
            "expected \"lora\" or \"full\"");
  EXPECT_EQ(JobError(R"("fine_tune_type": "head", "task": "SEQ_CLS")"), "");
  EXPECT_EQ(JobError(R"("from_scratch": true)"),
            "j:1: from_scratch: needs fine_tune_type \"full\": an adapter or a "
            "head on random weights learns nothing");
}

TEST(CheckRules, FieldsBelongToTheirTaskAndRowsAreOneThing) {
  EXPECT_EQ(JobError("", R"(, "task_name": "mrpc")"),
            "j:1: dataset.task_name: is for task SEQ_CLS; leave it out");
  EXPECT_EQ(JobError("", R"(, "label_column": "y")"),
            "j:1: dataset.label_column: is for task SEQ_CLS and IMAGE_CLS; "
            "leave it out");
  EXPECT_EQ(JobError(R"("task": "SEQ_CLS", "training": {"packing": true})"),
            "j:1: training.packing: is for task CAUSAL_LM; leave it out");
  EXPECT_EQ(
      JobError(R"("task": "SEQ_CLS", "training": {"padding_free": true})"),
      "j:1: training.padding_free: is for task CAUSAL_LM; leave it out");
  EXPECT_EQ(JobError(R"("classification": {"label_names": ["a", "b"]})"),
            "j:1: classification: is for SEQ_CLS and IMAGE_CLS; leave it out");
  EXPECT_EQ(JobError(R"("augmentation": {"horizontal_flip": 0})"),
            "j:1: augmentation: is for IMAGE_CLS; leave it out");
  EXPECT_EQ(
      JobError(R"("task": "SEQ_CLS")", R"(, "text_columns": ["a", "b", "c"])"),
      "j:1: dataset.text_columns: expected one or two columns, found 3");
  EXPECT_EQ(JobError("", R"(, "messages_column": "chat")"), "");
  EXPECT_EQ(JobError("", R"(, "prompt_column": "q", "completion_column": "a")"),
            "");
  EXPECT_EQ(JobError("", R"(, "text_columns": "t")"), "");
  EXPECT_EQ(JobError("", R"(, "format": "alpaca_chat")"), "");
  EXPECT_EQ(JobError("", R"(, "prompt_column": "q", "text_columns": "t")"),
            "j:1: dataset.text_columns: cannot be combined with prompt_column: "
            "each says what the rows are; leave one of them out");
  EXPECT_EQ(JobError("", R"(, "messages_column": "q", "format": "alpaca")"),
            "j:1: dataset.format: cannot be combined with messages_column: "
            "each says what the rows are; leave one of them out");
  EXPECT_EQ(JobError("", R"(, "text_columns": ["a", "b"])"),
            "j:1: dataset.text_columns: a language model's text is in one "
            "column, found 2");
  EXPECT_EQ(JobError(R"("task": "SEQ_CLS")", R"(, "prompt_column": "q")"),
            "j:1: dataset.prompt_column: is for task CAUSAL_LM; leave it out");
  EXPECT_EQ(JobError(R"("task": "SEQ_CLS", "training": {"eos_token": "x"})"),
            "j:1: training.eos_token: is for task CAUSAL_LM; leave it out");
  EXPECT_EQ(
      JobError(R"("task": "SEQ_CLS", "training": {"chat_template_path": "x"})"),
      "j:1: training.chat_template_path: is for task CAUSAL_LM; leave it "
      "out");
}

TEST(CheckRules, PreferencesAreLearntByAdaptersFromPairs) {
  const auto error = [](const std::string& preference,
                        const std::string& rest = "",
                        const std::string& dataset = "") {
    return JobError("\"preference\": {" + preference + "}" + rest, dataset);
  };
  const std::string dpo = R"("trainer": "dpo")";
  EXPECT_EQ(error(dpo), "");
  EXPECT_EQ(error(dpo + R"(, "loss_type": "robust", "label_smoothing": 0.1)"),
            "");
  EXPECT_EQ(error(R"("beta": 0.2)"),
            "j:1: preference: needs \"trainer\": \"dpo\"");
  EXPECT_EQ(error(dpo + R"(, "label_smoothing": 0.1)"),
            "j:1: preference.label_smoothing: needs \"loss_type\": \"robust\", "
            "as in TRL");
  EXPECT_EQ(error(dpo + R"(, "loss_type": "robust", "label_smoothing": 0.5)"),
            "j:1: preference.label_smoothing: expected a number below 0.5");
  EXPECT_EQ(error(dpo, R"(, "fine_tune_type": "full")"),
            "j:1: fine_tune_type: preferences are learnt by adapters; expected "
            "\"lora\"");
  EXPECT_EQ(error(dpo, R"(, "task": "SEQ_CLS")"),
            "j:1: preference: is for CAUSAL_LM; leave it out");
  EXPECT_EQ(error(dpo, R"(, "lora": {"lora_dropout": 0.1})"),
            "j:1: lora.lora_dropout: preferences are learnt without dropout "
            "(TRL's disable_dropout); leave it out");
  EXPECT_EQ(error(dpo, R"(, "training": {"packing": true})"),
            "j:1: training.packing: is for texts: both answers of a pair are "
            "rows of one batch; leave it out");
  EXPECT_EQ(error(dpo, R"(, "training": {"completion_only_loss": true})"),
            "j:1: training.completion_only_loss: the labels of preferences are "
            "their answers; leave it out");
  EXPECT_EQ(error(dpo, "", R"(, "format": "alpaca")"),
            "j:1: dataset.format: preferences are in the columns prompt, "
            "chosen and rejected; leave it out");
}

TEST(CheckRules, LabelsAgreeWithTheirWeights) {
  auto error = [](const std::string& section) {
    return JobError(R"("task": "SEQ_CLS", "classification": )" + section);
  };
  EXPECT_EQ(error(R"({"label_names": ["a", "a"]})"),
            "j:1: classification.label_names: the same name appears twice");
  EXPECT_EQ(error(R"({"label_names": ["a"]})"),
            "j:1: classification.label_names: a single label leaves nothing to "
            "distinguish; expected two or more");
  EXPECT_EQ(error(R"({"label_names": ["a", "b"], "class_weights": [1]})"),
            "j:1: classification.class_weights: expected one for each of the 2 "
            "label_names, found 1");
  EXPECT_EQ(error(R"({"problem_type": "regression", "class_weights": [1]})"),
            "j:1: classification.class_weights: a regression has no classes; "
            "leave it out");
}

TEST(CheckRules, CropsHaveASize) {
  auto error = [](const std::string& section) {
    return JobError(R"("task": "IMAGE_CLS", "augmentation": )" + section);
  };
  EXPECT_EQ(error(R"({"crop_scale_min": 0.5, "crop_scale_max": 0.2})"),
            "j:1: augmentation.crop_scale_min: expected 0 <= crop_scale_min <= "
            "crop_scale_max, above 0");
  EXPECT_EQ(error(R"({"crop_ratio_min": 2})"),
            "j:1: augmentation.crop_ratio_min: expected crop_ratio_min <= "
            "crop_ratio_max");
}

TEST(CheckRules, TrainingAgreesWithItself) {
  EXPECT_EQ(JobError(Training("\"assistant_only_loss\": true,\n"
                              "\"completion_only_loss\": true")),
            "j:2: training.completion_only_loss: contradicts "
            "assistant_only_loss: the first is for prompt/completion rows, "
            "the second for messages; set one of them");
  EXPECT_EQ(JobError(Training("\"assistant_only_loss\": true, "
                              "\"completion_only_loss\": false")),
            "");
  const std::string grouped = R"("train_sampling_strategy": "group_by_length")";
  EXPECT_EQ(JobError(Training(grouped)), "");
  EXPECT_EQ(JobError(Training(grouped + R"(, "packing": true)")),
            "j:1: training.train_sampling_strategy: \"group_by_length\" "
            "reduces padding, and packed rows have none; leave one of them "
            "out");
}

TEST(CheckRules, LayersNeedTargetsByNameAndRegularExpressionsCompile) {
  const std::string expected =
      "j:1: lora.layers_to_transform: cannot be used when target_modules is a "
      "string (as in PEFT); give target_modules as a list of names";
  EXPECT_EQ(JobError("\"lora\": {\"target_modules\": \"all-linear\", "
                     "\"layers_to_transform\": [0]}"),
            expected);
  EXPECT_EQ(JobError("\"lora\": {\"target_modules\": \".*q_proj\", "
                     "\"layers_to_transform\": 0}"),
            expected);
  EXPECT_EQ(JobError("\"lora\": {\"layers_to_transform\": [0]}"), "");
  EXPECT_EQ(JobError("\"lora\": {\"target_modules\": \"a{,2}q_proj\"}"),
            "j:1: lora.target_modules: the regular expression "
            "\"a{,2}q_proj\" has \"{,\", which is not supported");
  EXPECT_EQ(JobError("\"lora\": {\"rank_pattern\": {\"q\\\\p\": 2}}"),
            "j:1: lora.rank_pattern: the regular expression \"q\\p\" is "
            "wrong at byte 3: malformed \\P or \\p sequence");
}

TEST(CheckRules, QuantizationAgreesWithItself) {
  const auto error = [](const std::string& fields,
                        const std::string& rest = "") {
    return JobError("\"quantization_config\": {" + fields + "}" + rest);
  };
  const std::string four = R"("load_in_4bit": true)";
  EXPECT_EQ(error(four), "");
  EXPECT_EQ(error(four + R"(, "bnb_4bit_quant_type": "nf4",
                    "bnb_4bit_use_double_quant": true,
                    "bnb_4bit_compute_dtype": "bfloat16")",
                  R"(, "training": {"bf16": true})"),
            "");
  EXPECT_EQ(error(four + R"(, "load_in_8bit": true)"),
            "j:1: quantization_config.load_in_8bit: cannot be combined with "
            "load_in_4bit; leave one of them out");
  EXPECT_EQ(error(four + R"(, "bnb_4bit_compute_dtype": "bfloat16")"),
            "j:1: quantization_config.bnb_4bit_compute_dtype: with "
            "training.bf16 false the job computes in float32; set one to the "
            "other");
  EXPECT_EQ(error(R"("bnb_4bit_use_double_quant": true)"),
            "j:1: quantization_config.bnb_4bit_use_double_quant: needs "
            "load_in_4bit");
  EXPECT_EQ(error(R"("llm_int8_skip_modules": ["q_proj"])"),
            "j:1: quantization_config.llm_int8_skip_modules: needs "
            "load_in_4bit or load_in_8bit");
  EXPECT_EQ(error(four, R"(, "fine_tune_type": "full")"),
            "j:1: quantization_config: is for fine_tune_type \"lora\": "
            "quantized weights cannot be trained; leave it out");
}

TEST(CheckRules, ListsOfModulesHaveABound) {
  const auto list = [](size_t count) {
    std::string text = "[\"m\"";
    for (size_t i = 1; i < count; ++i) text += ", \"m\"";
    return text + "]";
  };
  const auto saved = [&](size_t count) {
    return JobError("\"lora\": {\"modules_to_save\": " + list(count) + "}");
  };
  EXPECT_EQ(saved(limits::kModuleNames), "");
  EXPECT_EQ(saved(limits::kModuleNames + 1),
            "j:1: lora.modules_to_save: has 257 entries, at most 256 are "
            "allowed");
  const auto skipped = [&](size_t count) {
    return JobError(
        "\"quantization_config\": {\"load_in_8bit\": true, "
        "\"llm_int8_skip_modules\": " +
        list(count) + "}");
  };
  EXPECT_EQ(skipped(limits::kModuleNames), "");
  EXPECT_EQ(skipped(limits::kModuleNames + 1),
            "j:1: quantization_config.llm_int8_skip_modules: has 257 entries, "
            "at most 256 are allowed");
}

absl::Status Check(Task task, Family family,
                   std::vector<std::string> architectures = {}) {
  TrainSpec spec;
  spec.task = task;
  ModelConfig config;
  config.family = family;
  config.model_type = "some";
  config.architectures = std::move(architectures);
  return CheckTask(spec, config);
}

TEST(CheckTask, EveryFamilyHasItsTasks) {
  EXPECT_TRUE(Check(Task::kCausalLm, Family::kDecoder).ok());
  EXPECT_TRUE(Check(Task::kSeqCls, Family::kDecoder).ok());
  EXPECT_TRUE(Check(Task::kSeqCls, Family::kEncoder).ok());
  EXPECT_TRUE(Check(Task::kImageCls, Family::kVision).ok());
  EXPECT_THAT(Check(Task::kCausalLm, Family::kEncoder),
              Fails(absl::StatusCode::kInvalidArgument,
                    "type \"some\" is for SEQ_CLS; set task"));
  EXPECT_FALSE(Check(Task::kImageCls, Family::kEncoder).ok());
  EXPECT_FALSE(Check(Task::kSeqCls, Family::kVision).ok());
  EXPECT_FALSE(Check(Task::kImageCls, Family::kDecoder).ok());
  EXPECT_TRUE(
      Check(Task::kCausalLm, Family::kDecoder, {"LlamaForCausalLM"}).ok());
  EXPECT_THAT(Check(Task::kCausalLm, Family::kDecoder, {"LlamaModel"}),
              Fails(absl::StatusCode::kUnimplemented, "\"LlamaModel\""));
  EXPECT_TRUE(Check(Task::kSeqCls, Family::kDecoder, {"LlamaModel"}).ok());
}

TEST(CheckTask, DynamicRopeEndsAtTheModelsPositions) {
  TrainSpec spec;
  ModelConfig config;
  config.max_position_embeddings = 64;
  config.dynamic_rope = true;
  spec.training.max_length = 64;
  EXPECT_TRUE(CheckTask(spec, config).ok());
  spec.training.max_length = 65;
  EXPECT_THAT(CheckTask(spec, config),
              Fails(absl::StatusCode::kUnimplemented,
                    "max_length: 65 is more than the "
                    "max_position_embeddings of the model (64)"));
  config.dynamic_rope = false;
  EXPECT_TRUE(CheckTask(spec, config).ok());
}

}  // namespace
}  // namespace mpsd::spec
