// SPDX-License-Identifier: Apache-2.0
#include "core/spec/json_node.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string Error(std::string_view json) {
  const auto node = ParseJson(json, "job.json");
  EXPECT_FALSE(node.ok()) << json;
  return node.ok() ? "" : std::string(node.status().message());
}

TEST(ParseJson, KeepsKindsLinesAndOrder) {
  const auto root = ParseJson(
      "\xEF\xBB\xBF{\"z\": 1,\r\n \"a\": [true,\n null],\n\"s\":\"x\\n\","
      "\n\"d\": 2.5\n}",
      "job.json");
  ASSERT_TRUE(root.ok()) << root.status();
  EXPECT_EQ(root->kind, JsonNode::Kind::kObject);
  ASSERT_EQ(root->members.size(), 4u);
  EXPECT_EQ(root->members[0].name, "z");
  EXPECT_EQ(root->members[0].integer, 1);
  EXPECT_EQ(root->members[0].line, 1);
  const JsonNode& list = root->members[1];
  EXPECT_EQ(list.line, 2);
  ASSERT_EQ(list.items.size(), 2u);
  EXPECT_TRUE(list.items[0].boolean);
  EXPECT_EQ(list.items[1].kind, JsonNode::Kind::kNull);
  EXPECT_EQ(list.items[1].line, 3);
  EXPECT_EQ(root->Find("s")->text, "x\n");
  EXPECT_EQ(root->Find("d")->line, 5);
  EXPECT_EQ(root->Find("d")->number, 2.5);
  EXPECT_EQ(root->Find("absent"), nullptr);
}

TEST(ParseJson, ANumberBeforeANewlineIsOnItsOwnLine) {
  const auto root = ParseJson("[\n1\n,\n2.5\n]", "x");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->items[0].line, 2);
  EXPECT_EQ(root->items[1].line, 4);
}

TEST(ParseJson, NumbersBeyondInt64AreNoIntegers) {
  const auto root = ParseJson("[9223372036854775807, 9223372036854775808]", "");
  ASSERT_TRUE(root.ok());
  EXPECT_EQ(root->items[0].kind, JsonNode::Kind::kInteger);
  EXPECT_EQ(root->items[1].kind, JsonNode::Kind::kNumber);
}

TEST(ParseJson, NamesTheLineOfASyntaxError) {
  EXPECT_THAT(Error("{\n\"a\": 1,\n}"),
              StartsWith("job.json:3: not valid JSON: syntax error"));
  EXPECT_THAT(Error("{\n// no comments\n}"), StartsWith("job.json:2: "));
  EXPECT_THAT(Error("{\"a\": \"\xff\"}"), StartsWith("job.json:1: not valid"));
  EXPECT_THAT(Error("{} x"), StartsWith("job.json:1: not valid JSON"));
  EXPECT_EQ(Error(" \n"), "job.json:1: not valid JSON: it is empty");
}

TEST(ParseJson, RefusesANameGivenTwice) {
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

TEST(ParseJson, RefusesMoreNamesThanAsked) {
  EXPECT_TRUE(ParseJson(ObjectOf(4096), "").ok());
  EXPECT_EQ(Error(ObjectOf(4097)),
            "job.json:1: not valid JSON: an object of more than 4096 names");
  EXPECT_TRUE(ParseJson(ObjectOf(100'000), "", 100'000).ok());
  EXPECT_FALSE(ParseJson(ObjectOf(100'001), "", 100'000).ok());
}

TEST(ParseJson, RefusesDeepNesting) {
  EXPECT_TRUE(ParseJson(std::string(64, '[') + std::string(64, ']'), "").ok());
  EXPECT_THAT(Error(std::string(65, '[') + std::string(65, ']')),
              HasSubstr("nested deeper than 64 levels"));
  EXPECT_THAT(Error(std::string(100000, '[')),
              HasSubstr("nested deeper than 64 levels"));
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

TEST(ParseJson, RefusesLongNames) {
  const std::string name(limits::kJsonNameBytes, 'n');
  EXPECT_TRUE(ParseJson("{\"" + name + "\": 1}", "").ok());
  EXPECT_EQ(Error("{\"" + name + "n\": 1}"),
            "job.json:1: not valid JSON: a name of 4097 bytes, at most 4096 "
            "are allowed");
}

TEST(ParseJson, ItsErrorsAreShortAndPrintable) {
  const std::string raw(1 << 20, '\x7f');
  EXPECT_LT(Error("[" + std::string(1 << 20, 'x') + "]").size(), 400u);
  EXPECT_LT(Error("{\"" + raw).size(), 400u);
  EXPECT_EQ(Error("{\"" + raw).find('\x7f'), std::string::npos);
  const std::string twice = "\"" + std::string(4000, '\x7f') + "\": 1";
  EXPECT_LT(Error("{" + twice + "," + twice + "}").size(), 200u);
}

TEST(Describe, ShowsWhatWasFound) {
  const auto list =
      ParseJson("[\"2e-4\", 12, 0.5, true, null, [], {}]", "").value();
  const std::vector<std::string> expected = {"the string \"2e-4\"",
                                             "12",
                                             "0.5",
                                             "true",
                                             "null",
                                             "a list",
                                             "an object"};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(Describe(list.items[i]), expected[i]);
  }
}

TEST(Describe, CutsLongTextBetweenCharacters) {
  JsonNode node;
  node.kind = JsonNode::Kind::kString;
  node.text = std::string(79, 'x') + "éééé";
  EXPECT_EQ(Describe(node), "the string \"" + std::string(77, 'x') + "…\"");
}

}  // namespace
}  // namespace mpsd::spec
