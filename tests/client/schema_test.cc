// SPDX-License-Identifier: Apache-2.0
#include "client/schema.h"

#include "client/inputs.h"
#include "core/base/file.h"
#include "core/spec/job_schema.h"
#include "tests/client/client_fixture.h"

namespace mpsd::client {
namespace {

using Json = nlohmann::ordered_json;

using SchemaTest = ClientTest;

TEST_F(SchemaTest, IsPrintedWithoutADaemon) {
  daemon_->Stop();
  const Result result = RunVerb({"schema"});
  EXPECT_THAT(
      result,
      Ends(0, AllOf(StartsWith("{\n  \"$schema\": "), EndsWith("}\n")), ""));
  EXPECT_EQ(Json::parse(result.out), spec::JobSchema());
  EXPECT_THAT(RunVerb({"schema", "--json"}),
              Prints(spec::JobSchema().dump() + "\n"));
  EXPECT_THAT(RunVerb({"schema", "--markdown"}), Prints(JobReference()));
}

TEST_F(SchemaTest, AJobMayNameIt) {
  Write("t.jsonl", "row");
  const auto job = PrepareJob(Write("job.json", R"({"$schema": "./s.json",
      "model": "org/id", "dataset": {"train": "t.jsonl"}})"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->files.size(), 1u);
  EXPECT_TRUE(job->warnings.empty());
}

std::string Type(const char* schema) { return TypeText(Json::parse(schema)); }

TEST(TypeText, IsInWords) {
  EXPECT_EQ(Type(R"({"type": "boolean"})"), "boolean");
  EXPECT_EQ(Type(R"({"type": ["string", "null"], "minLength": 1})"), "string");
  EXPECT_EQ(Type(R"({"type": "integer", "minimum": 1})"), "integer >= 1");
  EXPECT_EQ(Type(R"({"type": "number", "minimum": 0, "exclusiveMaximum": 1})"),
            "number >= 0 and < 1");
  EXPECT_EQ(
      Type(R"({"type": "number", "exclusiveMinimum": 0, "maximum": 2.5})"),
      "number > 0 and <= 2.5");
  EXPECT_EQ(Type(R"({"type": "integer", "minimum": -1, "not": {"const": 0}})"),
            "integer >= -1 and not 0");
  EXPECT_EQ(Type(R"({"type": ["integer", "array", "null"], "minimum": 0,
                     "items": {"type": "integer", "minimum": 0}})"),
            "integer >= 0 or list of integers >= 0");
  EXPECT_EQ(Type(R"({"type": ["string", "null"], "enum": ["a", "b", null]})"),
            "`\"a\"`, `\"b\"`");
  EXPECT_EQ(Type(R"({"type": ["object", "null"],
                     "additionalProperties": {"type": "number"}})"),
            "object of numbers");
  EXPECT_EQ(Type(R"({"type": "object", "additionalProperties": false})"),
            "object");
}

TEST(JobReference, HasARowForEachField) {
  const std::string text = JobReference();
  EXPECT_THAT(text, HasSubstr("\n| `r` | integer >= 1 | `8` | The rank of "));
  EXPECT_THAT(text, HasSubstr("\n| `model` | string | required | The base "));
  EXPECT_THAT(text, HasSubstr("\n| [`lora`](#lora) | object |  | The adapter"));
  EXPECT_THAT(text, HasSubstr("\n### lora\n\nThe adapter"));
  EXPECT_THAT(text,
              HasSubstr("\n| `save_total_limit` | integer >= 1 | absent "));
  EXPECT_THAT(text, HasSubstr("\n| `device` | `\"auto\"`, `\"mps\"`, "
                              "`\"cuda\"`, `\"cpu\"` | `\"auto\"` | "));
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

}  // namespace
}  // namespace mpsd::client
