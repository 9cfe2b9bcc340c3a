// SPDX-License-Identifier: Apache-2.0
#include "core/spec/job_schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/spec/train_spec.h"
#include "core/spec/train_spec_fields.h"
#include "tests/core/spec/schema_validator.h"

namespace mpsd::spec {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using testing::EndsWith;

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
  Json schema;
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
    EXPECT_EQ(names(Schema()["properties"][section]["properties"]),
              names(fields));
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

TEST(JobSchema, SaysWhatEveryFieldIsFor) {
  constexpr size_t kMostBytes = 300;
  for (const Place& place : Places()) {
    const std::string about = place.schema["description"];
    EXPECT_THAT(about, EndsWith(".")) << place.name;
    EXPECT_LE(about.size(), kMostBytes) << place.name;
    EXPECT_EQ(about.find_first_of("|\n"), std::string::npos) << place.name;
  }
}

TEST(JobSchema, SaysWhatIsRequired) {
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

TEST(JobSchema, TakesWholeJobsThatTheParserTakes) {
  std::mt19937 random(15);
  const std::vector<Place> places = Places();
  const std::vector<Json> values = Values();
  const auto one_of = [&](const auto& list) {
    return list[random() % list.size()];
  };
  int taken = 0;
  for (int i = 0; i < 1500; ++i) {
    Json job = MinimalJob();
    for (size_t fields = 1 + random() % 4; fields > 0; --fields) {
      const Place place = one_of(places);
      const bool section = place.schema.contains("properties");
      if (section ||
          !(place.section.empty() || job[place.section].is_object() ||
            job[place.section].is_null())) {
        continue;
      }
      At(job, place) = random() % 4 == 0 || !place.schema.contains("default")
                           ? one_of(values)
                           : place.schema["default"];
    }
    const bool schema = SchemaAccepts(job);
    ASSERT_EQ(schema, ParserAccepts(job)) << job.dump();
    if (!ParseTrainSpec(job.dump(), "job.json").ok()) continue;
    EXPECT_TRUE(schema) << job.dump();
    ++taken;
  }
  EXPECT_GT(taken, 100);
}

// The two values that no schema can tell from an integer; see JobSchema.
TEST(JobSchema, TakesIntegersThatTheParserRefuses) {
  for (const char* value : {"8.0", "9223372036854775808", "1e30"}) {
    const std::string text =
        std::string(R"({"model": "m", "dataset": {"train": "t"},
                        "lora": {"r": )") +
        value + "}}";
    EXPECT_TRUE(SchemaAccepts(Json::parse(text))) << value;
    EXPECT_FALSE(ParseTrainSpec(text, "job.json").ok()) << value;
  }
}

// Transformers', PEFT's and other tools' names that the parser knows only to
// say what is meant, and fields in a section that is not theirs.
TEST(JobSchema, RefusesNamesThatTheParserRefuses) {
  std::vector<Place> wrong;
  for (const char* name :
       {"lr", "batch_size", "max_seq_length", "optim", "fp16", "eval_strategy",
        "group_by_length", "report_to", "Learning_rate", "learning-rate",
        "$schema", "x", ""}) {
    wrong.push_back({"training", name, Json::object()});
  }
  for (const char* name : {"rank", "alpha", "bias", "use_dora", "task_type"}) {
    wrong.push_back({"lora", name, Json::object()});
  }
  for (const char* name : {"base_model", "epochs", "schema", "Model", "seed"}) {
    wrong.push_back({"", name, Json::object()});
  }
  for (const Place& place : Places()) {
    if (place.section == "training")
      wrong.push_back({"lora", place.name, Json::object()});
    if (place.section == "lora")
      wrong.push_back({"training", place.name, Json::object()});
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

TEST(JobSchema, TakesEveryJobOfTheRepository) {
  const std::vector<fs::path> files = JobFiles();
  EXPECT_GE(files.size(), 9u);
  for (const fs::path& file : files) {
    const std::string text = *base::ReadFile(file);
    const auto spec = ParseTrainSpec(text, file.string());
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_TRUE(SchemaAccepts(Json::parse(text))) << file;
    EXPECT_TRUE(SchemaAccepts(Json::parse(ToJson(*spec)))) << file;
  }
}

TEST(JobSchema, TakesTheExamplesOfTheReadmes) {
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

}  // namespace
}  // namespace mpsd::spec
