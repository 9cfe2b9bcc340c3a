// SPDX-License-Identifier: Apache-2.0
#include "core/spec/train_spec_rules.h"

#include <gtest/gtest.h>

#include "core/base/limits.h"

namespace mpsd::spec {
namespace {

// The error of a job with these files to evaluate and further fields.
std::string Error(const std::string& eval, const std::string& fields) {
  const std::string json =
      "{\"model\": \"m\", \"dataset\": {\"train\": \"t\", "
      "\"eval\": " +
      eval + "},\n" + fields + "}";
  return std::string(ParseTrainSpec(json, "j").status().message());
}

std::string Training(const std::string& fields) {
  return "\"training\": {" + fields + "}";
}

TEST(CheckRules, EvaluationNeedsAnEvalSet) {
  for (const std::string field :
       {"\"eval_steps\": 5", "\"load_best_model_at_end\": true",
        "\"early_stopping_patience\": 2"}) {
    const std::string name = field.substr(1, field.find(':') - 2);
    EXPECT_EQ(Error("[]", Training(field)),
              "j:2: training." + name +
                  ": needs evaluations, and there is no dataset.eval; name its "
                  "files, set dataset.validation_split, or leave this out");
  }
  EXPECT_EQ(Error("\"e\"", Training("\"eval_steps\": 5, "
                                    "\"early_stopping_patience\": 2")),
            "");
}

std::string JobError(const std::string& fields,
                     const std::string& dataset = "") {
  const std::string json = "{\"model\": \"m\", \"dataset\": {\"train\": \"t\"" +
                           dataset + "}" + (fields.empty() ? "" : ", ") +
                           fields + "}";
  return std::string(ParseTrainSpec(json, "j").status().message());
}

TEST(CheckRules, ASplitIsAnEvalSet) {
  EXPECT_EQ(
      JobError(Training("\"eval_steps\": 5"), ", \"validation_split\": 0.1"),
      "");
  EXPECT_EQ(JobError("", ", \"validation_split\": 0.1, \"eval\": \"e\""),
            "j:1: dataset.validation_split: cannot stand beside dataset.eval; "
            "leave one of them out");
}

TEST(CheckRules, AResultIsNamedByAWholeId) {
  const std::string id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
  EXPECT_EQ(JobError(R"("adapter": "job:)" + id + "\""), "");
  EXPECT_EQ(JobError(R"("adapter": "job:5FAV")"),
            "j:1: adapter: expected \"job:\" and the 26 characters of a job's "
            "id (`mpsctl list` shows them), found \"job:5FAV\"; a folder of "
            "such a name is \"./job:5FAV\"");
  const auto model = [](const std::string& name) {
    const std::string json =
        "{\"model\": \"" + name + "\", \"dataset\": {\"train\": \"t\"}}";
    return std::string(ParseTrainSpec(json, "j").status().message());
  };
  EXPECT_EQ(model("job:" + id), "");
  EXPECT_EQ(model("job:../x").substr(0, 27), "j:1: model: expected \"job:\"");
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

TEST(CheckRules, FieldsBelongToTheirTask) {
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
}

TEST(CheckRules, RowsAreSaidToBeOneThing) {
  EXPECT_EQ(JobError("", R"(, "messages_column": "chat")"), "");
  EXPECT_EQ(JobError("", R"(, "prompt_column": "q", "completion_column": "a")"),
            "");
  EXPECT_EQ(JobError("", R"(, "text_columns": "t")"), "");
  EXPECT_EQ(JobError("", R"(, "format": "alpaca_chat")"), "");
  EXPECT_EQ(
      JobError("", R"(, "prompt_column": "q", "text_columns": "t")"),
      "j:1: dataset.text_columns: cannot stand beside prompt_column: each "
      "says what the rows are; leave one of them out");
  EXPECT_EQ(JobError("", R"(, "messages_column": "q", "format": "alpaca")"),
            "j:1: dataset.format: cannot stand beside messages_column: each "
            "says what the rows are; leave one of them out");
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

TEST(CheckRules, LabelsAgreeWithTheirWeights) {
  auto error = [](const std::string& section) {
    return JobError(R"("task": "SEQ_CLS", "classification": )" + section);
  };
  EXPECT_EQ(error(R"({"label_names": ["a", "a"]})"),
            "j:1: classification.label_names: the same name is there twice");
  EXPECT_EQ(error(R"({"label_names": ["a"]})"),
            "j:1: classification.label_names: a single label leaves nothing "
            "to tell apart; expected two or more");
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

TEST(CheckRules, OneLossMaskAtMost) {
  EXPECT_EQ(Error("[]", Training("\"assistant_only_loss\": true,\n"
                                 "\"completion_only_loss\": true")),
            "j:3: training.completion_only_loss: contradicts "
            "assistant_only_loss: the first is for prompt/completion rows, "
            "the second for messages; set one of them");
  EXPECT_EQ(Error("[]", Training("\"assistant_only_loss\": true, "
                                 "\"completion_only_loss\": false")),
            "");
}

TEST(CheckRules, LayersNeedTargetsByName) {
  const std::string expected =
      "j:2: lora.layers_to_transform: cannot be used when target_modules is a "
      "string (as in PEFT); give target_modules as a list of names";
  EXPECT_EQ(Error("[]",
                  "\"lora\": {\"target_modules\": \"all-linear\", "
                  "\"layers_to_transform\": [0]}"),
            expected);
  EXPECT_EQ(Error("[]",
                  "\"lora\": {\"target_modules\": \".*q_proj\", "
                  "\"layers_to_transform\": 0}"),
            expected);
  EXPECT_EQ(Error("[]", "\"lora\": {\"layers_to_transform\": [0]}"), "");
}

TEST(CheckRules, RegularExpressionsMustCompile) {
  EXPECT_EQ(Error("[]", "\"lora\": {\"target_modules\": \"(?<=a)q_proj\"}"),
            "j:2: lora.target_modules: the regular expression "
            "\"(?<=a)q_proj\" has the group \"(?<\", which is not supported");
  EXPECT_EQ(Error("[]", "\"lora\": {\"rank_pattern\": {\"q\\\\p\": 2}}"),
            "j:2: lora.rank_pattern: the regular expression \"q\\p\" has "
            "\"\\p\", which is not supported");
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
            "j:1: quantization_config.load_in_8bit: cannot stand beside "
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
            "j:1: quantization_config: is for fine_tune_type \"lora\": weights "
            "in few bits cannot be trained; leave it out");
}

TEST(CheckRules, GroupingByLengthIsAgainstPadding) {
  const std::string grouped = R"("train_sampling_strategy": "group_by_length")";
  EXPECT_EQ(JobError(Training(grouped)), "");
  EXPECT_EQ(JobError(Training(grouped + R"(, "packing": true)")),
            "j:1: training.train_sampling_strategy: \"group_by_length\" is "
            "against padding, and packed rows have none; leave one of them "
            "out");
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

}  // namespace
}  // namespace mpsd::spec
