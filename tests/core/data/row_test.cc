// SPDX-License-Identifier: Apache-2.0
#include "core/data/row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::data {
namespace {

using ::testing::StartsWith;

Row Parse(std::string_view line) {
  auto row = ParseRow(line);
  EXPECT_TRUE(row.ok()) << row.status();
  return row.value_or(Row());
}

std::string Error(std::string_view line) {
  const auto row = ParseRow(line);
  EXPECT_EQ(row.status().code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(row.status().message());
}

TEST(ParseRow, ReadsEachKind) {
  const Row chat =
      Parse(R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(std::get<ChatRow>(chat.content).messages.dump(),
            R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(chat.tools_json, "");
  EXPECT_EQ(chat.kwargs_json, "");

  const Row strings = Parse(R"({"prompt": "a", "completion": ""})");
  EXPECT_EQ(std::get<CompletionRow>(strings.content).prompt, "a");

  const Row lists =
      Parse(R"({"prompt": [{"role": "user", "content": "a"}],)"
            R"("completion": [{"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(std::get<ChatCompletionRow>(lists.content).completion.size(), 1u);

  EXPECT_EQ(std::get<TextRow>(Parse(R"({"text": "t"})").content).text, "t");
}

TEST(ParseRow, TakesPromptsBeforeMessagesBeforeText) {
  const std::string messages =
      R"("messages": [{"role": "user", "content": "hi"}], "text": "t")";
  EXPECT_TRUE(std::holds_alternative<CompletionRow>(
      Parse("{" + messages + R"(, "prompt": "p", "completion": "c"})")
          .content));
  EXPECT_TRUE(std::holds_alternative<ChatRow>(
      Parse("{" + messages + R"(, "prompt": "an id", "completion": null})")
          .content));
}

TEST(ParseRow, KeepsTheOrderOfKeysAndTakesTools) {
  const Row row = Parse(
      R"({"messages": [{"role": "user", "content": "hi"}],)"
      R"("tools": [{"z": 1, "a": 2}], "chat_template_kwargs": {"b": 1}})");
  EXPECT_EQ(row.tools_json, R"([{"z":1,"a":2}])");
  EXPECT_EQ(row.kwargs_json, R"({"b":1})");
  const std::string messages = R"("messages": [{"role": "u", "content": "c"}])";
  EXPECT_EQ(Parse("{" + messages + R"(, "tools": "[{\"z\": 1}]"})").tools_json,
            R"([{"z":1}])");
  EXPECT_EQ(Parse("{" + messages + R"(, "tools": []})").tools_json, "");
  EXPECT_EQ(Parse("{" + messages + R"(, "tools": null})").tools_json, "");
}

TEST(ParseRow, TakesMessagesWithoutText) {
  Parse(R"({"messages": [{"role": "assistant", "content": null}]})");
  Parse(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})");
  Parse(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})");
}

TEST(ParseRow, SaysWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "expected an object, found a list"},
      {R"({"prompt": "p", "id": 3})",
       "expected \"messages\", \"prompt\" and \"completion\", or \"text\", "
       "found \"prompt\", \"id\""},
      {"{}",
       "expected \"messages\", \"prompt\" and \"completion\", or "
       "\"text\", found an empty object"},
      {R"({"conversations": []})",
       "expected \"messages\", \"prompt\" and \"completion\", or \"text\", "
       "found \"conversations\"; rename \"conversations\" to \"messages\", "
       "with \"role\" and \"content\" in each"},
      {R"({"messages": []})",
       "messages: expected a non-empty list of messages, found an empty list"},
      {R"({"messages": "hi"})",
       "messages: expected a non-empty list of messages, found a string"},
      {R"({"messages": ["hi"]})",
       "messages[0]: expected an object with \"role\" and \"content\", found a "
       "string"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"content": "b"}]})",
       "messages[1]: expected \"role\" with a string"},
      {R"({"messages": [{"from": "human", "value": "b"}]})",
       "messages[0]: expected \"role\" with a string; rename \"from\" to "
       "\"role\" and \"value\" to \"content\""},
      {R"({"messages": [{"role": "user"}]})",
       "messages[0]: expected \"content\" or \"tool_calls\""},
      {R"({"messages": [{"role": "user", "content": 3}]})",
       "messages[0].content: expected a string or a list of parts, found 3"},
      {R"({"prompt": "a", "completion": [{}]})",
       "expected \"prompt\" and \"completion\" to be two strings or two lists "
       "of messages, found a string and a list"},
      {R"({"prompt": [], "completion": []})",
       "prompt: expected a non-empty list of messages, found an empty list"},
      {R"({"text": 5})", "text: expected a string, found 5"},
      {R"({"text": []})", "text: expected a string, found an empty list"},
      {R"({"text": "x", "tools": "[1"})", "tools: not valid JSON: "},
      {R"({"text": "x", "tools": {}})",
       "tools: expected a list of tool schemas, found an object"},
      {R"({"text": "x", "chat_template_kwargs": 1})",
       "chat_template_kwargs: expected an object, found 1"},
      {"{\"text\": \"x\"", "not valid JSON: syntax error"},
      {"{\"text\": \"\xff\"}", "not valid JSON: syntax error"},
      {"{\"text\": " + std::string(200, '[') + std::string(200, ']') + "}",
       "not valid JSON: nested deeper than 100 levels"},
  };
  for (const auto& [line, expected] : cases) {
    EXPECT_THAT(Error(line), StartsWith(expected)) << line;
  }
}

TEST(ParseRow, CountsBracketsOutsideStringsOnly) {
  EXPECT_TRUE(
      ParseRow("{\"text\": \"\\\"" + std::string(500, '[') + "\"}").ok());
}

}  // namespace
}  // namespace mpsd::data
