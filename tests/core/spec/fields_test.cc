// SPDX-License-Identifier: Apache-2.0
#include "core/spec/fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>

#include "core/spec/idle_fields.h"

namespace mpsd::spec {

namespace {

// Reads one field of `json` with `read` and gives the error, "" without one.
template <typename Read>
std::string ErrorOf(std::string_view json, Read read) {
  const JsonNode root = ParseJson(json, "f").value();
  Findings findings;
  FieldReader reader(&root, "t", findings);
  read(reader);
  reader.Finish();
  return std::string(findings.ToStatus("f").message());
}

TEST(Range, SaysWhatItHolds) {
  EXPECT_EQ(Range().Text(), "");
  EXPECT_EQ(Range::AtLeast(1).Text(), " >= 1");
  EXPECT_EQ(Range::Above(0).Text(), " > 0");
  EXPECT_EQ(Range::Between(0, 1).Text(), " >= 0 and <= 1");
  EXPECT_EQ(Range::From0Below1().Text(), " >= 0 and < 1");
  EXPECT_TRUE(Range::From0Below1().Holds(0));
  EXPECT_FALSE(Range::From0Below1().Holds(1));
  EXPECT_FALSE(Range::Above(0).Holds(0));
  EXPECT_TRUE(Range::Between(0, 1).Holds(1));
}

TEST(FieldReader, ChecksIntegers) {
  int64_t value = 7;
  const auto read = [&](FieldReader& f) {
    f.Integer("n", value, Range::AtLeast(1), "a hint");
  };
  EXPECT_EQ(ErrorOf("{\"n\": 3}", read), "");
  EXPECT_EQ(value, 3);
  EXPECT_EQ(ErrorOf("{}", read), "");
  for (const auto& [json, found] :
       std::vector<std::pair<std::string, std::string>>{
           {"0", "0"},
           {"2.0", "2.0"},
           {"\"8\"", "the string \"8\""},
           {"true", "true"},
           {"null", "null"},
           {"1e30", "1e+30"}}) {
    EXPECT_EQ(
        ErrorOf("{\"n\": " + json + "}", read),
        "f:1: t.n: expected an integer >= 1, found " + found + "; a hint");
  }
  EXPECT_EQ(value, 3);
}

TEST(FieldReader, NullIsAbsentForAnOptional) {
  std::optional<int64_t> integer;
  std::optional<bool> boolean;
  std::optional<double> number;
  EXPECT_EQ(ErrorOf("{\"i\": null, \"b\": null, \"d\": null}",
                    [&](FieldReader& f) {
                      f.Integer("i", integer, Range());
                      f.Bool("b", boolean);
                      f.Number("d", number, Range());
                    }),
            "");
  EXPECT_FALSE(integer || boolean || number);
}

TEST(FieldReader, ChecksBoolsAndNumbers) {
  bool flag = true;
  const auto read = [&](FieldReader& f) { f.Bool("b", flag); };
  EXPECT_EQ(ErrorOf("{\"b\": 1}", read),
            "f:1: t.b: expected true or false, found 1");
  EXPECT_EQ(ErrorOf("{\"b\": null}", read),
            "f:1: t.b: expected true or false, found null");
  double number = 1;
  EXPECT_EQ(
      ErrorOf("{\"d\": \"2e-4\"}",
              [&](FieldReader& f) { f.Number("d", number, Range::Above(0)); }),
      "f:1: t.d: expected a number > 0, found the string \"2e-4\"");
}

TEST(FieldReader, ReadsListsOfTextOrOneText) {
  std::vector<std::string> files;
  const auto read = [&](FieldReader& f) {
    f.Texts("x", files, "a file or a list of them", /*required=*/true);
  };
  EXPECT_EQ(ErrorOf("{\"x\": \"a\"}", read), "");
  EXPECT_EQ(files, std::vector<std::string>{"a"});
  EXPECT_EQ(ErrorOf("{\"x\": [\"a\", \"b\"]}", read), "");
  EXPECT_EQ(files.size(), 2u);
  EXPECT_EQ(ErrorOf("{}", read),
            "f:1: t.x: missing; expected a file or a list of them");
  EXPECT_EQ(ErrorOf("{\"x\": []}", read),
            "f:1: t.x: expected a file or a list of them, at least one, found "
            "a list");
  EXPECT_EQ(ErrorOf("{\"x\": [\"a\",\n3, \"\"]}", read),
            "f:2: t.x[1]: expected a non-empty string, found 3\n"
            "f:2: t.x[2]: expected a non-empty string, found the string \"\"");
  EXPECT_EQ(ErrorOf("{\"x\": {}}", read),
            "f:1: t.x: expected a file or a list of them, found an object");
}

TEST(FieldReader, ReadsIntegerListsAndPatterns) {
  std::optional<std::vector<int64_t>> layers;
  const auto read = [&](FieldReader& f) {
    f.Integers("l", layers, Range::AtLeast(0));
  };
  EXPECT_EQ(ErrorOf("{\"l\": 3}", read), "");
  EXPECT_EQ(layers, std::vector<int64_t>{3});
  EXPECT_EQ(ErrorOf("{\"l\": [1, -1]}", read),
            "f:1: t.l[1]: expected an integer >= 0, found -1");
  PatternMap<int64_t> ranks;
  EXPECT_EQ(ErrorOf("{\"p\": {\"z\": 1, \"a.b\": 0, \"c\": 2}}",
                    [&](FieldReader& f) {
                      f.Patterns("p", ranks, Range::AtLeast(1));
                    }),
            "f:1: t.p[\"a.b\"]: expected an integer >= 1, found 0");
  EXPECT_EQ(ranks, (PatternMap<int64_t>{{"z", 1}, {"c", 2}}));
}

TEST(FieldReader, ReadsTargets) {
  LoraSpec::Targets targets;
  const auto read = [&](FieldReader& f) { f.Targets("x", targets); };
  EXPECT_EQ(ErrorOf("{\"x\": \"All-Linear\"}", read), "");
  EXPECT_TRUE(std::holds_alternative<LoraSpec::AllLinear>(targets));
  EXPECT_EQ(ErrorOf("{\"x\": \".*q_proj\"}", read), "");
  EXPECT_EQ(std::get<std::string>(targets), ".*q_proj");
  EXPECT_EQ(ErrorOf("{\"x\": [\"q_proj\"]}", read), "");
  EXPECT_EQ(ErrorOf("{\"x\": []}", read),
            "f:1: t.x: expected a list of one or more non-empty module names, "
            "found a list");
  EXPECT_EQ(ErrorOf("{\"x\": 3}", read),
            "f:1: t.x: expected a list of module names, a regular expression "
            "over full module names, or \"all-linear\", found 3");
}

TEST(FieldReader, IgnoresAStringAndReportsSectionsThatAreNoObject) {
  const auto read = [](FieldReader& f) { f.Ignored("$x"); };
  for (const char* json :
       {"{}", R"({"$x": "./a.json"})", R"({"$x": ""})", R"({"$x": null})"}) {
    EXPECT_EQ(ErrorOf(json, read), "") << json;
  }
  EXPECT_EQ(ErrorOf(R"({"$x": 3})", read),
            "f:1: t.$x: expected a string, found 3");
  EXPECT_EQ(
      ErrorOf("{\"s\": 3}", [&](FieldReader& f) { f.Section("s").Finish(); }),
      "f:1: t.s: expected an object, found 3");
}

TEST(FieldWriter, WritesAbsentOptionalsAsNull) {
  FieldWriter::Json json;
  FieldWriter writer(json);
  writer.Integer("i", std::optional<int64_t>(), Range());
  writer.Text("t", "", "");
  writer.Patterns("p", PatternMap<double>{{"z", 1.5}, {"a", 2}}, Range());
  EXPECT_EQ(json.dump(), R"({"i":null,"t":null,"p":{"z":1.5,"a":2.0}})");
}

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A job that the rules take, with `patch` in it.
TrainSpec Job(const char* patch) {
  json job = {{"model", "m"}, {"dataset", {{"train", "a.jsonl"}}}};
  job.merge_patch(json::parse(patch));
  return ParseTrainSpec(job.dump(), "job.json").value();
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
  // Every row has its case.
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
