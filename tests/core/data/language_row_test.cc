// SPDX-License-Identifier: Apache-2.0
#include "core/data/language_row.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::data {
namespace {

using ::testing::StartsWith;

LanguageRow Parse(std::string_view line) {
  auto row = ParseLanguageRow(line);
  EXPECT_TRUE(row.ok()) << row.status();
  return row.value_or(LanguageRow());
}

std::string Error(std::string_view line) {
  const auto row = ParseLanguageRow(line);
  EXPECT_EQ(row.status().code(), absl::StatusCode::kInvalidArgument) << line;
  return std::string(row.status().message());
}

TEST(ParseLanguageRow, ReadsEachKind) {
  const LanguageRow chat =
      Parse(R"({"messages": [{"role": "user", "content": "hi"}]})");
  EXPECT_EQ(std::get<ChatRow>(chat.content).messages.dump(),
            R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(chat.tools_json, "");
  EXPECT_EQ(chat.kwargs_json, "");

  const LanguageRow strings = Parse(R"({"prompt": "a", "completion": ""})");
  EXPECT_EQ(std::get<CompletionRow>(strings.content).prompt, "a");

  const LanguageRow lists =
      Parse(R"({"prompt": [{"role": "user", "content": "a"}],)"
            R"("completion": [{"role": "assistant", "content": "b"}]})");
  EXPECT_EQ(std::get<ChatCompletionRow>(lists.content).completion.size(), 1u);

  EXPECT_EQ(std::get<PlainTextRow>(Parse(R"({"text": "t"})").content).text,
            "t");
}

TEST(ParseLanguageRow, TakesPromptsBeforeMessagesBeforeText) {
  const std::string messages =
      R"("messages": [{"role": "user", "content": "hi"}], "text": "t")";
  EXPECT_TRUE(std::holds_alternative<CompletionRow>(
      Parse("{" + messages + R"(, "prompt": "p", "completion": "c"})")
          .content));
  EXPECT_TRUE(std::holds_alternative<ChatRow>(
      Parse("{" + messages + R"(, "prompt": "an id", "completion": null})")
          .content));
}

TEST(ParseLanguageRow, KeepsTheOrderOfKeysAndTakesTools) {
  const LanguageRow row = Parse(
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

TEST(ParseLanguageRow, TakesMessagesWithoutText) {
  Parse(R"({"messages": [{"role": "assistant", "content": null}]})");
  Parse(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})");
  Parse(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})");
}

TEST(ParseLanguageRow, SaysWhatWasExpected) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "expected an object, found a list"},
      {R"({"prompt": "p", "id": 3})",
       "expected \"messages\", \"prompt\" and \"completion\", or \"text\", "
       "found \"prompt\", \"id\""},
      {"{}",
       "expected \"messages\", \"prompt\" and \"completion\", or "
       "\"text\", found an empty object"},
      {R"({"question": "q", "answer": "a"})",
       "expected \"messages\", \"prompt\" and \"completion\", or \"text\", "
       "found \"question\", \"answer\"; name other columns in "
       "dataset.messages_column, dataset.prompt_column and "
       "dataset.completion_column, or dataset.text_columns"},
      {R"({"conversations": []})",
       "conversations: expected a non-empty list of messages, found an empty "
       "list"},
      {R"({"conversations": [{"from": "human", "value": 3}]})",
       "conversations[0].content: expected a string or a list of parts, found "
       "3"},
      {R"({"conversations": [{"from": "human"}]})",
       "conversations[0]: expected \"content\" or \"tool_calls\""},
      {R"({"instruction": "i", "input": 3, "output": "o"})",
       "input: expected a string, found 3"},
      {R"({"messages": []})",
       "messages: expected a non-empty list of messages, found an empty list"},
      {R"({"messages": "hi"})",
       "messages: expected a non-empty list of messages, found a string"},
      {R"({"messages": ["hi"]})",
       "messages[0]: expected an object with \"role\" and \"content\", found a "
       "string"},
      {R"({"messages": [{"role": "user", "content": "a"}, {"content": "b"}]})",
       "messages[1]: expected \"role\" with a string"},
      {R"({"messages": [{"from": 3, "value": "b"}]})",
       "messages[0]: expected \"role\" with a string"},
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

std::string MessagesOf(const LanguageRow& row) {
  const auto* chat = std::get_if<ChatRow>(&row.content);
  return chat == nullptr ? "no messages" : chat->messages.dump();
}

TEST(ParseLanguageRow, TakesShareGptAsTrlDoes) {
  EXPECT_EQ(
      MessagesOf(Parse(
          R"({"id": 1, "conversations": [{"from": "system", "value": "s"},)"
          R"({"from": "human", "value": "q", "weight": 1},)"
          R"({"from": "gpt", "value": "a"}, {"from": "tool", "value": "t"},)"
          R"({"from": "user", "value": "r"},)"
          R"({"from": "assistant", "value": ""}]})")),
      R"([{"role":"system","content":"s"},)"
      R"({"weight":1,"role":"user","content":"q"},)"
      R"({"role":"assistant","content":"a"},{"role":"tool","content":"t"},)"
      R"({"role":"user","content":"r"},{"role":"assistant","content":""}])");
  EXPECT_EQ(MessagesOf(Parse(R"({"conversations": [{"role": "human",)"
                             R"( "content": "q"}]})")),
            R"([{"role":"human","content":"q"}])");
  const LanguageRow pair =
      Parse(R"({"prompt": [{"from": "human", "value": "q"}],)"
            R"( "completion": [{"from": "gpt", "value": "a"}]})");
  EXPECT_EQ(std::get<ChatCompletionRow>(pair.content).completion.dump(),
            R"([{"role":"assistant","content":"a"}])");
}

TEST(ParseLanguageRow, TakesAlpacasColumns) {
  const std::string line =
      R"({"instruction": "Add.", "input": "1, 2", "output": "3"})";
  const auto plain = std::get<CompletionRow>(Parse(line).content);
  EXPECT_EQ(plain.prompt,
            "Below is an instruction that describes a task, paired with an "
            "input that provides further context. Write a response that "
            "appropriately completes the request.\n\n### Instruction:\nAdd."
            "\n\n### Input:\n1, 2\n\n### Response:\n");
  EXPECT_EQ(plain.completion, "3");
  for (const char* none : {R"(, "input": "")", R"(, "input": null)", ""}) {
    const auto row = std::get<CompletionRow>(
        Parse(std::string(R"({"instruction": "Hi", "output": "o")") + none +
              "}")
            .content);
    EXPECT_EQ(row.prompt,
              "Below is an instruction that describes a task. Write a response "
              "that appropriately completes the request.\n\n### Instruction:\n"
              "Hi\n\n### Response:\n");
  }
  EXPECT_EQ(
      MessagesOf(ParseLanguageRow(line, {.format = "alpaca_chat"}).value()),
      R"([{"role":"user","content":"Add.\n\n1, 2"},)"
      R"({"role":"assistant","content":"3"}])");
  // Where there is a text too, it is taken as TRL takes it, unless told.
  const std::string both =
      R"({"instruction": "i", "output": "o", "text": "t"})";
  EXPECT_TRUE(std::holds_alternative<PlainTextRow>(Parse(both).content));
  EXPECT_TRUE(std::holds_alternative<CompletionRow>(
      ParseLanguageRow(both, {.format = "alpaca"}).value().content));
}

TEST(ParseLanguageRow, TakesTheColumnsThatAreNamed) {
  const std::string line =
      R"({"text": "t", "q": "1", "a": "2", "log": [{"role": "user",)"
      R"( "content": "c"}]})";
  const auto pair = std::get<CompletionRow>(
      ParseLanguageRow(line, {.prompt_column = "q", .completion_column = "a"})
          .value()
          .content);
  EXPECT_EQ(pair.prompt + pair.completion, "12");
  EXPECT_EQ(
      MessagesOf(ParseLanguageRow(line, {.messages_column = "log"}).value()),
      R"([{"role":"user","content":"c"}])");
  EXPECT_EQ(std::get<PlainTextRow>(
                ParseLanguageRow(line, {.text_column = "q"}).value().content)
                .text,
            "1");
  const auto error = [&](const LanguageRowFormat& format) {
    return std::string(ParseLanguageRow(line, format).status().message());
  };
  EXPECT_EQ(error({.prompt_column = "q"}),
            "expected \"q\" and \"completion\", found \"text\", \"q\", \"a\", "
            "\"log\"");
  EXPECT_THAT(error({.messages_column = "chat"}),
              StartsWith("expected \"chat\", found \"text\""));
  EXPECT_THAT(error({.text_column = "log"}),
              StartsWith("log: expected a string, found a list"));
  EXPECT_THAT(error({.format = "alpaca"}),
              StartsWith("expected \"instruction\", \"output\" and perhaps"));
}

TEST(ParseLanguageRow, CountsBracketsOutsideStringsOnly) {
  EXPECT_TRUE(
      ParseLanguageRow("{\"text\": \"\\\"" + std::string(500, '[') + "\"}")
          .ok());
}

}  // namespace
}  // namespace mpsd::data
