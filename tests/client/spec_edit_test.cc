// SPDX-License-Identifier: Apache-2.0
#include "client/spec_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mpsd::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kSpec[] = R"({"name": "a", "model": "org/id",
  "dataset": {"train": ["t.jsonl"], "eval": "e.jsonl"},
  "training": {"learning_rate": 2e-4, "max_steps": 12345678901234567}})";

std::string Edited(const std::vector<std::string>& set,
                   const std::vector<std::string>& unset = {}) {
  const auto edited = EditSpec(kSpec, set, unset);
  EXPECT_TRUE(edited.ok()) << edited.status();
  return edited.ok() ? nlohmann::json::parse(*edited).dump() : "";
}
std::string Error(const std::vector<std::string>& set,
                  const std::vector<std::string>& unset = {}) {
  const absl::Status status = EditSpec(kSpec, set, unset).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

TEST(EditSpec, PutsValuesIn) {
  EXPECT_EQ(Edited({"training.learning_rate=1e-4", "name=b c", "lora.r=8",
                    "dataset.train=[\"x\",\"y\"]"}),
            R"({"dataset":{"eval":"e.jsonl","train":["x","y"]},)"
            R"("lora":{"r":8},"model":"org/id","name":"b c",)"
            R"("training":{"learning_rate":0.0001,)"
            R"("max_steps":12345678901234567}})");
  // A text that looks like another type is one with quotes.
  EXPECT_THAT(Edited({"name=\"5\""}), HasSubstr(R"("name":"5")"));
  EXPECT_THAT(Edited({"name="}), HasSubstr(R"("name":"")"));
  EXPECT_THAT(Edited({"name=a=b"}), HasSubstr(R"("name":"a=b")"));
  EXPECT_THAT(Edited({"training.bf16=true"}), HasSubstr(R"("bf16":true)"));
}

TEST(EditSpec, TakesFieldsOut) {
  EXPECT_EQ(Edited({}, {"training.learning_rate", "dataset.eval", "name"}),
            R"({"dataset":{"train":["t.jsonl"]},"model":"org/id",)"
            R"("training":{"max_steps":12345678901234567}})");
  EXPECT_EQ(*EditSpec(" {\"as\": \"it is\"}", {}, {}), " {\"as\": \"it is\"}");
}

TEST(EditSpec, SaysWhatCannotBe) {
  EXPECT_THAT(Error({"training.seed"}), HasSubstr("expected FIELD=VALUE"));
  for (const char* bad : {"=1", ".a=1", "a..b=1", "a.=1"}) {
    EXPECT_THAT(Error({bad}), HasSubstr("expected the path of a field"));
  }
  EXPECT_THAT(Error({"name.x=1"}), HasSubstr("'name' is no object"));
  EXPECT_THAT(Error({}, {"lora.r"}), HasSubstr("does not set this field"));
  EXPECT_THAT(Error({}, {"name.x"}), HasSubstr("'name' is no object"));
  EXPECT_FALSE(EditSpec("[]", {"a=1"}, {}).ok());
  EXPECT_FALSE(EditSpec(std::string(100'000, '['), {"a=1"}, {}).ok());
  // A value that is nested too deep for JSON is a text, and no crash.
  EXPECT_TRUE(EditSpec(kSpec, {"name=" + std::string(100'000, '[')}, {}).ok());
}

TEST(CompareSpecs, NamesTheFieldsThatDiffer) {
  EXPECT_THAT(CompareSpecs(kSpec, kSpec), IsEmpty());
  const std::string other =
      *EditSpec(kSpec, {"training.learning_rate=1e-4", "lora.r=8"}, {"name"});
  EXPECT_THAT(
      CompareSpecs(kSpec, other),
      ElementsAre(FieldChange{"name", "\"a\"", ""},
                  FieldChange{"training.learning_rate", "0.0002", "0.0001"},
                  FieldChange{"lora.r", "", "8"}));
  EXPECT_THAT(CompareSpecs("{", "[]"), IsEmpty());
}

TEST(CompareSpecs, DefaultsAreFilledIn) {
  const std::string other = *EditSpec(kSpec, {}, {"training.learning_rate"});
  EXPECT_THAT(
      CompareSpecs(WithDefaults(kSpec), WithDefaults(other)),
      ElementsAre(FieldChange{"training.learning_rate", "0.0002", "5e-05"}));
  EXPECT_EQ(WithDefaults("{\"no\": \"spec\"}"), "{\"no\": \"spec\"}");
}

// Whoever may submit chooses how large a spec is.
TEST(CompareSpecs, AHundredThousandFieldsAreNoTrouble) {
  std::string wide = "{\"a\": {";
  for (int i = 0; i < 100'000; ++i) {
    wide += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\": 1";
  }
  wide += "}}";
  EXPECT_THAT(CompareSpecs(wide, wide), IsEmpty());
  EXPECT_EQ(CompareSpecs(wide, "{}").size(), 100'000u);
}

TEST(DropUnusedInputs, FiftyThousandFilesAreNoTrouble) {
  v1::SubmitRequest request;
  std::string train;
  for (int i = 0; i < 50'000; ++i) {
    const std::string path = "d/" + std::to_string(i);
    train += (i > 0 ? ",\"" : "\"") + path + "\"";
    request.add_inputs()->set_path(path);
  }
  request.set_spec_json("{\"model\": \"m\", \"dataset\": {\"train\": [" +
                        train + "]}}");
  DropUnusedInputs(request);
  EXPECT_EQ(request.inputs_size(), 50'000);
}

TEST(DropUnusedInputs, KeepsWhatTheSpecNames) {
  v1::SubmitRequest request;
  const auto kept = [&](const std::string& fields,
                        const std::vector<std::string>& paths) {
    request.Clear();
    request.set_spec_json("{\"model\": \"m\", " + fields + "}");
    for (const std::string& path : paths) request.add_inputs()->set_path(path);
    DropUnusedInputs(request);
    std::vector<std::string> left;
    for (const auto& input : request.inputs()) left.push_back(input.path());
    return left;
  };
  EXPECT_THAT(kept(R"("dataset": {"train": ["./a/t", "../u"]},
                      "adapter": "ad/")",
                   {"a/t", "../u", "e", "ad/x", "add/x", "a/t2", "/ad/x"}),
              ElementsAre("a/t", "../u", "ad/x"));
  EXPECT_THAT(kept(R"("dataset": {"train": "."}, "task": "IMAGE_CLS")",
                   {"1.png", "other/2.png"}),
              ElementsAre("1.png", "other/2.png"));
}

}  // namespace
}  // namespace mpsd::client
