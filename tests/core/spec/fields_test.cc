// SPDX-License-Identifier: Apache-2.0
#include "core/spec/fields.h"

#include <gtest/gtest.h>

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
  EXPECT_EQ(ErrorOf("{\"b\": 1}", [&](FieldReader& f) { f.Bool("b", flag); }),
            "f:1: t.b: expected true or false, found 1");
  EXPECT_EQ(
      ErrorOf("{\"b\": null}", [&](FieldReader& f) { f.Bool("b", flag); }),
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
            "f:1: t.x: expected a file or a list of them, one at least, found "
            "a list");
  EXPECT_EQ(ErrorOf("{\"x\": [\"a\",\n3, \"\"]}", read),
            "f:2: t.x[1]: expected a non-empty string, found 3\n"
            "f:2: t.x[2]: expected a non-empty string, found the string \"\"");
  EXPECT_EQ(ErrorOf("{\"x\": {}}", read),
            "f:1: t.x: expected a file or a list of them, found an object");
}

TEST(FieldReader, ReadsIntegerListsAndPatterns) {
  std::optional<std::vector<int64_t>> layers;
  EXPECT_EQ(ErrorOf("{\"l\": 3}",
                    [&](FieldReader& f) {
                      f.Integers("l", layers, Range::AtLeast(0));
                    }),
            "");
  EXPECT_EQ(layers, std::vector<int64_t>{3});
  EXPECT_EQ(ErrorOf("{\"l\": [1, -1]}",
                    [&](FieldReader& f) {
                      f.Integers("l", layers, Range::AtLeast(0));
                    }),
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

TEST(FieldReader, IgnoresAString) {
  const auto read = [](FieldReader& f) { f.Ignored("$x"); };
  for (const char* json :
       {"{}", R"({"$x": "./a.json"})", R"({"$x": ""})", R"({"$x": null})"}) {
    EXPECT_EQ(ErrorOf(json, read), "") << json;
  }
  EXPECT_EQ(ErrorOf(R"({"$x": 3})", read),
            "f:1: t.$x: expected a string, found 3");
}

TEST(FieldReader, ReportsSectionsThatAreNoObject) {
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

}  // namespace
}  // namespace mpsd::spec
