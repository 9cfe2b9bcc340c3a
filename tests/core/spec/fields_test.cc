// SPDX-License-Identifier: Apache-2.0
#include "core/spec/fields.h"

#include <filesystem>
#include <map>

#include "core/base/file.h"
#include "core/base/limits.h"
#include "core/spec/idle_fields.h"
#include "core/spec/job_schema.h"
#include "core/spec/memory_estimate.h"
#include "core/spec/train_spec_fields.h"
#include "tests/core/spec/schema_validator.h"
#include "tests/core/status_matchers.h"

namespace mpsd::spec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kRoot = MPSD_TEST_SOURCE_DIR;

const Json& Schema() {
  static const Json& schema = *new Json(JobSchema());
  return schema;
}

bool SchemaAccepts(const Json& job) {
  return SchemaValidator::Accepts(Schema(), job);
}

// Whether every field by itself is one that ParseTrainSpec takes. What is wrong
// between fields does not count.
bool ParserAccepts(const Json& job) {
  const JsonNode root = ParseJson(job.dump(), "job.json").value();
  Findings findings;
  TrainSpec spec;
  VisitSpec(FieldReader(&root, "", findings), spec);
  return findings.empty();
}

Json MinimalJob() {
  return {{"model", "m"}, {"dataset", {{"train", "t.jsonl"}}}};
}

// A field of job.json; `section` is "" at the top.
struct Place {
  std::string section, name;
  Json schema = Json::object();
};

std::vector<Place> Places() {
  std::vector<Place> places;
  for (const auto& [name, field] : Schema()["properties"].items()) {
    places.push_back({"", name, field});
    if (!field.contains("properties")) continue;
    for (const auto& [inner, schema] : field["properties"].items()) {
      places.push_back({name, inner, schema});
    }
  }
  return places;
}

Json& At(Json& job, const Place& place) {
  return place.section.empty() ? job[place.name]
                               : job[place.section][place.name];
}

// Values of every type, on both sides of every bound that a field has.
std::vector<Json> Values() {
  std::vector<Json> values = {nullptr, true,         false,       "",
                              "x",     "all-linear", "All-Linear"};
  for (const double fraction : {-0.5, 1e-9, 0.5, 0.999, 1.001, 1.5}) {
    values.push_back(fraction);
  }
  for (const int64_t integer : {-2, -1, 0, 1, 2, 3, 1'000'000'000}) {
    values.push_back(integer);
  }
  const std::vector<Json> simple = values;
  values.push_back(Json::array());
  values.push_back(Json::array({Json::array({1})}));
  values.push_back(Json::object());
  values.push_back({{"a", 1}, {"b", "x"}});
  for (const Json& value : simple) {
    values.push_back(Json::array({value}));
    values.push_back(Json::array({"x", value}));
    values.push_back(Json::array({1, value}));
    values.push_back({{"a", value}});
  }
  return values;
}

// Those that this field may have among its words, too.
std::vector<Json> ValuesOf(const Place& place) {
  std::vector<Json> values = Values();
  if (!place.schema.contains("enum")) return values;
  for (const Json& word : place.schema["enum"]) {
    values.push_back(word);
    values.push_back(Json::array({word}));
    if (word.is_string()) values.push_back(word.get<std::string>() + "x");
  }
  return values;
}

TEST(JobSchema, HasTheFieldsOfTheJobInItsOrder) {
  const Json job = Json::parse(ToJson(TrainSpec()));
  const auto names = [](const Json& object) {
    std::vector<std::string> names;
    for (const auto& [name, _] : object.items()) names.push_back(name);
    return names;
  };
  std::vector<std::string> at_the_top = names(job);
  at_the_top.insert(at_the_top.begin(), "$schema");
  EXPECT_EQ(names(Schema()["properties"]), at_the_top);
  for (const auto& [section, fields] : job.items()) {
    if (!fields.is_object()) continue;
    Json described = Schema()["properties"][section]["properties"];
    described.erase("optim");  // has no effect, as $schema
    EXPECT_EQ(names(described), names(fields));
  }
}

TEST(JobSchema, HasTheDefaultsOfTheJob) {
  Json job = Json::parse(ToJson(TrainSpec()));
  int defaults = 0;
  for (const Place& place : Places()) {
    if (place.schema.contains("properties") || place.name == "$schema" ||
        place.name == "model" || place.name == "train") {
      EXPECT_FALSE(place.schema.contains("default")) << place.name;
      continue;
    }
    const Json value = place.schema.value("default", Json(nullptr));
    EXPECT_EQ(value, At(job, place)) << place.section << "." << place.name;
    defaults += value.is_null() ? 0 : 1;
  }
  EXPECT_GT(defaults, 40);
}

TEST(JobSchema, SaysWhatEveryFieldIsForAndWhatIsRequired) {
  constexpr size_t kMostBytes = 300;
  for (const Place& place : Places()) {
    const std::string about = place.schema["description"];
    EXPECT_THAT(about, EndsWith(".")) << place.name;
    EXPECT_LE(about.size(), kMostBytes) << place.name;
    EXPECT_EQ(about.find_first_of("|\n"), std::string::npos) << place.name;
  }
  EXPECT_EQ(Schema()["required"], Json({"model", "dataset"}));
  EXPECT_EQ(Schema()["properties"]["dataset"]["required"],
            Json::array({"train"}));
  for (const auto& [section, field] : Schema()["properties"].items()) {
    EXPECT_EQ(field.contains("required"), section == "dataset");
  }
  for (const char* job :
       {"{}", R"({"model": "m"})", R"({"model": "m", "dataset": {}})",
        R"({"dataset": {"train": "t"}})", "[]", "null", "3"}) {
    EXPECT_FALSE(SchemaAccepts(Json::parse(job))) << job;
    EXPECT_FALSE(ParseTrainSpec(job, "job.json").ok()) << job;
  }
}

TEST(JobSchema, TakesOfEachFieldWhatTheParserTakes) {
  int taken = 0, refused = 0;
  for (const Place& place : Places()) {
    for (const Json& value : ValuesOf(place)) {
      Json job = MinimalJob();
      At(job, place) = value;
      const bool parser = ParserAccepts(job);
      ASSERT_EQ(SchemaAccepts(job), parser) << job.dump();
      ++(parser ? taken : refused);
    }
  }
  EXPECT_GT(taken, 400);
  EXPECT_GT(refused, 5000);
}

// Transformers', PEFT's and other tools' names that the parser knows only to
// say what is meant, and fields in a section that is not theirs.
TEST(JobSchema, RefusesNamesThatTheParserRefuses) {
  std::vector<Place> wrong;
  for (const char* name :
       {"lr", "batch_size", "max_seq_length", "fp16", "eval_strategy",
        "group_by_length", "report_to", "Learning_rate", "learning-rate",
        "$schema", "x", ""}) {
    wrong.push_back({"training", name});
  }
  for (const char* name : {"rank", "alpha", "bias", "use_dora", "task_type"}) {
    wrong.push_back({"lora", name});
  }
  for (const char* name : {"base_model", "epochs", "schema", "Model", "seed"}) {
    wrong.push_back({"", name});
  }
  for (const Place& place : Places()) {
    if (place.section == "training") wrong.push_back({"lora", place.name});
    if (place.section == "lora") wrong.push_back({"training", place.name});
  }
  for (const Place& place : wrong) {
    Json job = MinimalJob();
    At(job, place) = place.schema.value("default", Json(1));
    EXPECT_FALSE(SchemaAccepts(job)) << job.dump();
    EXPECT_FALSE(ParserAccepts(job)) << job.dump();
  }
}

// The JSON files of the repository that are jobs.
std::vector<fs::path> JobFiles() {
  std::vector<fs::path> files;
  for (const char* folder : {"deploy", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() != ".json") continue;
      const Json json =
          Json::parse(*base::ReadFile(entry.path()), nullptr, false);
      if (json.is_object() && json.contains("model") &&
          json.contains("dataset")) {
        files.push_back(entry.path());
      }
    }
  }
  return files;
}

TEST(JobSchema, TakesEveryJobOfTheRepositoryAndItsReadmes) {
  const std::vector<fs::path> files = JobFiles();
  EXPECT_GE(files.size(), 9u);
  for (const fs::path& file : files) {
    const std::string text = *base::ReadFile(file);
    const auto spec = ParseTrainSpec(text, file.string()).value();
    EXPECT_TRUE(SchemaAccepts(Json::parse(text))) << file;
    EXPECT_TRUE(SchemaAccepts(Json::parse(ToJson(spec)))) << file;
  }
  for (const char* name : {"README.md", "client/README.md"}) {
    const std::string text = *base::ReadFile(kRoot / name);
    const std::string fence = "```json\n";
    int examples = 0;
    for (size_t at = text.find(fence); at != std::string::npos;
         at = text.find(fence, at)) {
      at += fence.size();
      const Json job = Json::parse(text.substr(at, text.find("```", at) - at));
      EXPECT_TRUE(SchemaAccepts(job)) << name << ": " << job.dump();
      EXPECT_TRUE(ParseTrainSpec(job.dump(), name).ok()) << job.dump();
      ++examples;
    }
    EXPECT_GE(examples, 1) << name;
  }
}

std::string Error(std::string_view json) {
  const auto node = ParseJson(json, "job.json");
  EXPECT_FALSE(node.ok()) << json;
  return node.ok() ? "" : std::string(node.status().message());
}

TEST(ParseJson, KeepsKindsLinesAndOrder) {
  const auto root = *ParseJson(
      "\xEF\xBB\xBF{\"z\": 1,\r\n \"a\": [true,\n null],\n\"s\":\"x\\n\","
      "\n\"d\": 2.5\n}",
      "job.json");
  EXPECT_EQ(root.kind, JsonNode::Kind::kObject);
  ASSERT_EQ(root.members.size(), 4u);
  EXPECT_EQ(root.members[0].name, "z");
  EXPECT_EQ(root.members[0].integer, 1);
  EXPECT_EQ(root.members[0].line, 1);
  const JsonNode& list = root.members[1];
  EXPECT_EQ(list.line, 2);
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_TRUE(list.items[0].boolean);
  EXPECT_EQ(list.items[1].kind, JsonNode::Kind::kNull);
  EXPECT_EQ(list.items[1].line, 3);
  EXPECT_EQ(root.Find("s")->text, "x\n");
  EXPECT_EQ(root.Find("d")->line, 5);
  EXPECT_EQ(root.Find("d")->number, 2.5);
  EXPECT_EQ(root.Find("absent"), nullptr);
}

TEST(ParseJson, NamesTheLineOfASyntaxErrorAndOfANameGivenTwice) {
  EXPECT_THAT(Error("{\n\"a\": 1,\n}"),
              StartsWith("job.json:3: not valid JSON: syntax error"));
  EXPECT_THAT(Error("{\n// no comments\n}"), StartsWith("job.json:2: "));
  EXPECT_THAT(Error("{\"a\": \"\xff\"}"), StartsWith("job.json:1: not valid"));
  EXPECT_THAT(Error("{} x"), StartsWith("job.json:1: not valid JSON"));
  EXPECT_EQ(Error(" \n"), "job.json:1: not valid JSON: it is empty");
  EXPECT_EQ(Error("{\"a\": {\"b\": 1,\n\"b\": 2}}"),
            "job.json:2: not valid JSON: the name \"b\" appears twice in the "
            "same object");
}

std::string ObjectOf(size_t names) {
  std::string text = "{\"0\": 0";
  for (size_t i = 1; i < names; ++i) {
    text += ",\"" + std::to_string(i) + "\": 0";
  }
  return text + "}";
}

TEST(ParseJson, RefusesManyAndLongNamesAndDeepNesting) {
  EXPECT_TRUE(ParseJson(ObjectOf(4096), "").ok());
  EXPECT_EQ(Error(ObjectOf(4097)),
            "job.json:1: not valid JSON: an object of more than 4096 names");
  EXPECT_TRUE(ParseJson(ObjectOf(100'000), "", 100'000).ok());
  EXPECT_FALSE(ParseJson(ObjectOf(100'001), "", 100'000).ok());
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']'), "").ok());
  EXPECT_THAT(Error(std::string(65, '[') + std::string(65, ']')),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(Error(std::string(100000, '[')),
              HasSubstr("nested deeper than 64 levels"));
  const std::string name(limits::kJsonNameBytes, 'n');
  EXPECT_TRUE(ParseJson("{\"" + name + "\": 1}", "").ok());
  EXPECT_EQ(Error("{\"" + name + "n\": 1}"),
            "job.json:1: not valid JSON: a name of 4097 bytes, at most 4096 "
            "are allowed");
}

TEST(ParseJson, RefusesMoreValuesThanItHolds) {
  std::string list = "[0";
  for (size_t i = 2; i < limits::kJsonValues; ++i) list += ",0";
  // Each a value: the numbers, the list within, the name with its value.
  EXPECT_TRUE(ParseJson(list + ",0]", "").ok());
  EXPECT_TRUE(ParseJson(list + ",[]]", "").ok());
  EXPECT_TRUE(ParseJson("{\"a\": " + list + "]}", "").ok());
  for (const std::string& more : {list + ",0,0]", list + ",0,{}]",
                                  "{\"a\": " + list + ",0], \"b\": 1}"}) {
    EXPECT_EQ(Error(more),
              "job.json:1: not valid JSON: more than 300000 values");
  }
}

TEST(ParseJson, ItsErrorsAreShortAndPrintable) {
  const std::string raw(1 << 20, '\x7f');
  EXPECT_LT(Error("[" + std::string(1 << 20, 'x') + "]").size(), 400u);
  EXPECT_LT(Error("{\"" + raw).size(), 400u);
  EXPECT_EQ(Error("{\"" + raw).find('\x7f'), std::string::npos);
  const std::string twice = "\"" + std::string(4000, '\x7f') + "\": 1";
  EXPECT_LT(Error("{" + twice + "," + twice + "}").size(), 200u);
}

TEST(FieldValue, IsJsonOrElseAText) {
  EXPECT_EQ(FieldValue("1e-4"), Json(1e-4));
  EXPECT_EQ(FieldValue("true"), Json(true));
  EXPECT_EQ(FieldValue("[1]"), Json({1}));
  EXPECT_EQ(FieldValue("linear"), Json("linear"));
  EXPECT_EQ(FieldValue("\"5\""), Json("5"));
  EXPECT_EQ(FieldValue(""), Json(""));
  const std::string deep(limits::kJsonDepth + 1, '[');
  EXPECT_EQ(FieldValue(deep), Json(deep));
}

TEST(SetField, MakesTheObjectsAroundAField) {
  Json spec = {{"lora", nullptr}, {"model", "m"}};
  EXPECT_TRUE(SetField(spec, "lora.r", 8).ok());
  EXPECT_TRUE(SetField(spec, "training.seed", 1).ok());
  EXPECT_TRUE(SetField(spec, "model", "n").ok());
  EXPECT_EQ(spec.dump(),
            R"({"lora":{"r":8},"model":"n","training":{"seed":1}})");
}

TEST(SetField, SaysWhatCannotBe) {
  Json spec = {{"model", "m"}, {"list", {1}}};
  for (const char* field : {"", ".", ".a", "a.", "a..b"}) {
    EXPECT_THAT(SetField(spec, field, 1), Says("expected the path of a field"));
  }
  EXPECT_THAT(SetField(spec, "model.a", 1), Says("'model' is not an object"));
  EXPECT_THAT(SetField(spec, "list.0", 1), Says("'list' is not an object"));
  std::string deep = "a";
  for (int i = 0; i < limits::kJsonDepth; ++i) deep += ".a";
  EXPECT_THAT(SetField(spec, deep, 1), Says("65 parts, at most 64"));
  Json list = {1};
  EXPECT_FALSE(SetField(list, "a", 1).ok());
}

TEST(UnsetField, TakesAFieldOut) {
  Json spec = {{"lora", {{"r", 8}}}, {"model", "m"}};
  EXPECT_TRUE(UnsetField(spec, "lora.r").ok());
  EXPECT_EQ(spec.dump(), R"({"lora":{},"model":"m"})");
  for (const char* field : {"lora.r", "lora.r.x", "nothing", "a.b.c"}) {
    EXPECT_THAT(UnsetField(spec, field), Says("does not set this field"))
        << field;
  }
  EXPECT_THAT(UnsetField(spec, "model.a"), Says("not an object"));
}

using Known = std::set<std::string, std::less<>>;

TEST(UnknownField, NamesTheFieldThatWasMeant) {
  struct Case {
    std::string section, name, expected;
  };
  const Known known = {"learning_rate", "seed", "bf16"};
  const std::vector<Case> cases = {
      {"training", "learning_rat",
       "unknown field; did you mean \"learning_rate\"?"},
      {"training", "learning-rate",
       "unknown field; did you mean \"learning_rate\"?"},
      {"training", "lr", "unknown field; did you mean \"learning_rate\"?"},
      {"training", "rank", "unknown field; did you mean \"lora.r\"?"},
      {"training", "lora_alpha",
       "unknown field; did you mean \"lora.lora_alpha\"?"},
      {"training", "device", "unknown field; did you mean \"device\"?"},
      {"", "batch_size",
       "unknown field; did you mean "
       "\"training.per_device_train_batch_size\"?"},
      {"", "epochs",
       "unknown field; did you mean \"training.num_train_epochs\"?"},
      {"", "packing", "unknown field; did you mean \"training.packing\"?"},
      {"lora", "alpha", "unknown field; did you mean \"lora_alpha\"?"},
      {"training", "max_seq_length",
       "unknown field; did you mean \"max_length\"?"},
      {"training", "fp16",
       "not supported: training in float16 needs loss scaling; use \"bf16\": "
       "true for a smaller base model, adapters and optimizer stay in "
       "float32"},
      {"training", "torch_compile",
       "not supported: mpsd has no such training argument; leave it out"},
      {"lora", "use_dora",
       "not supported: only plain LoRA and rsLoRA (use_rslora) are supported"},
      {"training", "zzz",
       "unknown field; the fields here are bf16, learning_rate, seed"},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(UnknownField(c.section, c.name, known), c.expected) << c.name;
  }
}

constexpr char kId[] = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

TEST(NamedResult, ANameIsJobAndAnIdOf26Letters) {
  EXPECT_TRUE(IsJobId(kId));
  for (const std::string bad :
       {"", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01ARZ3NDEKTSV4RRFFQ69G5FAVV",
        "01arz3ndektsv4rrffq69g5fav", "01ARZ3NDEKTSV4RRFFQ69G5FAI",
        "../../../../../../../etc/x", "01ARZ3NDEKTSV4RRFFQ69G5FA/"}) {
    EXPECT_FALSE(IsJobId(bad)) << bad;
  }
  EXPECT_EQ(JobNamedBy(std::string("job:") + kId), kId);
  for (const std::string other :
       {"", "job", "job:", "job:x", "job:../../etc",
        "Job:01ARZ3NDEKTSV4RRFFQ69G5FAV", " job:01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "job:01ARZ3NDEKTSV4RRFFQ69G5FAV/x", "01ARZ3NDEKTSV4RRFFQ69G5FAV",
        "./job:01ARZ3NDEKTSV4RRFFQ69G5FAV"}) {
    EXPECT_EQ(JobNamedBy(other), "") << other;
  }
  EXPECT_TRUE(NamesResult("job:"));
  EXPECT_TRUE(NamesResult("job:x"));
  EXPECT_FALSE(NamesResult("./job:x"));
  EXPECT_FALSE(NamesResult("jobs/x"));
}

TEST(Findings, ShowTwentyAtMost) {
  Findings findings;
  for (int i = 0; i < 23; ++i) findings.Add(i, "", "x");
  EXPECT_THAT(findings.ToStatus("f"),
              Says(::testing::EndsWith("f:19: x\n… and 3 more")));
}

using nlohmann::json;

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
     R"({"task": "SEQ_CLS",
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
    {"training.sample_max_new_tokens",
     R"({"training": {"sample_max_new_tokens": 9}})",
     R"({"training": {"sample_max_new_tokens": 9, "sample_prompts": "a"}})",
     "no sample_prompts"},
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
  EXPECT_THAT(ModelWarnings(spec, config), IsEmpty()) << "no one asked for it";
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
