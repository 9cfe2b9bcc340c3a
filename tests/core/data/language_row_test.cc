// SPDX-License-Identifier: Apache-2.0
#include "core/data/language_row.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "core/data/language_row_encoder.h"
#include "core/data/order.h"
#include "core/data/table.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::data {
namespace {

Table Read(const std::string& name, std::string_view bytes,
           const char* task = "") {
  return ReadTable(name, bytes, spec::FindGlueTask(task)).value();
}

std::vector<std::string> Cells(const Table& table, size_t row) {
  std::vector<std::string> cells;
  for (const RowJson& cell : table.rows[row].cells) {
    cells.push_back(cell.is_string() ? cell.get<std::string>() : cell.dump());
  }
  return cells;
}

TEST(ReadTable, TakesTsvQuotedWhereAFieldBeginsSo) {
  for (const char* name : {"x.tsv", "x.TXT"}) {
    const Table table =
        Read(name, "text\tlabel\n5\" disk\t1\n\"a\tb\"\t0\na, b\t0\n");
    ASSERT_EQ(table.rows.size(), 3u);
    EXPECT_THAT(Cells(table, 0), ElementsAre("5\" disk", "1"));
    EXPECT_THAT(Cells(table, 1), ElementsAre("a\tb", "0"));
    EXPECT_THAT(Cells(table, 2), ElementsAre("a, b", "0"));
  }
}

TEST(ReadTable, GlueFilesHaveNoQuotingAndMayBeRagged) {
  const Table table = Read("dev.tsv",
                           "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
                           "1\t2\t3\t\"He said\tShe said \"no\"\n"
                           "0\t4\n"
                           "0\t5\t6\ta\tb\tbeyond\n",
                           "mrpc");
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.dropped_rows, 1);
  EXPECT_THAT(Cells(table, 0),
              ElementsAre("1", "2", "3", "\"He said", "She said \"no\""));
  EXPECT_THAT(Cells(table, 1), ElementsAre("0", "5", "6", "a", "b"));
  // A task's rows saved as CSV are quoted like any CSV.
  EXPECT_THAT(Cells(Read("x.csv", "sentence,label\n\"a,b\",1\n", "sst2"), 0),
              ElementsAre("a,b", "1"));
}

TEST(ReadTable, ColaHasNoHeaderButInItsTestFile) {
  const Table train = Read(
      "train.tsv", "gj04\t1\t\tThey drank.\ngj05\t0\t*\tDrank they.\n", "cola");
  EXPECT_THAT(train.columns, ElementsAre("", "label", "", "sentence"));
  ASSERT_EQ(train.rows.size(), 2u);
  EXPECT_THAT(Cells(train, 1), ElementsAre("gj05", "0", "*", "Drank they."));
  const Table test = Read("test.tsv", "index\tsentence\n0\tHe ran.\n", "cola");
  EXPECT_THAT(test.columns, ElementsAre("index", "sentence"));
  EXPECT_EQ(test.rows.size(), 1u);
}

TEST(ReadTable, AJsonArrayIsRowsToo) {
  const auto table = *ReadTable(
      "a.json", "[\n{\"a\": 1,\n \"b\": \"x\"},\n{\"a\": 2}]", nullptr);
  EXPECT_TRUE(table.json);
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[1].line, 4);
  EXPECT_EQ(table.rows[0].cells[1], "x");
  EXPECT_TRUE(table.rows[1].cells[1].is_null());
  EXPECT_EQ(
      ReadTable("a.json", "[{\"a\": 1},\n2, {}", nullptr).status().message(),
      "a.json:2: expected an object, found 2\na.json:2: the array is not "
      "closed; expected \"]\"");
}

TEST(ReadTable, TakesEveryCharacterOfUtf8AndNothingElse) {
  const std::string good =
      "text\n\u00e9\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff\x7f\n";
  EXPECT_EQ(Read("x.csv", good).rows.size(), 1u);
  for (const char* bad :
       {"\x80", "\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xED\xA0\x80",
        "\xF0\x8F\xBF\xBF", "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82",
        "\xE9t\xE9", "\xFF\xFE"}) {
    const auto table =
        ReadTable("x.csv", std::string("text\na\n") + bad, nullptr);
    EXPECT_EQ(table.status().message(),
              "x.csv:3: not UTF-8; save the file as UTF-8")
        << bad;
  }
}

// "<line>|<text>" of every record; an error's message at the end.
std::vector<std::string> Scan(std::string_view bytes) {
  RecordScanner scanner(bytes);
  std::vector<std::string> records;
  while (true) {
    const auto record = scanner.Next();
    if (!record.ok()) {
      records.push_back("error " + std::string(record.status().message()));
      return records;
    }
    if (!*record) return records;
    records.push_back(std::to_string((*record)->line) + "|" +
                      std::string((*record)->text));
  }
}

TEST(RecordScanner, UnchangedLinesOrElementsOfAnArray) {
  EXPECT_THAT(Scan("{1}\n\n \t\r\n{2}\r\n{3}"),
              ElementsAre("1|{1}\n", "4|{2}\r\n", "5|{3}"));
  EXPECT_THAT(Scan("\xEF\xBB\xBF{1}\n"), ElementsAre("1|{1}\n"));
  EXPECT_THAT(Scan(""), ElementsAre());
  EXPECT_THAT(Scan("\xEF\xBB\xBF \n"), ElementsAre());
  EXPECT_FALSE(RecordScanner("{}").is_array());
  EXPECT_THAT(Scan("[{\"a\": 1}, {\"b\": [2, {}]}]"),
              ElementsAre("1|{\"a\": 1}", "1|{\"b\": [2, {}]}"));
  EXPECT_THAT(Scan("\xEF\xBB\xBF\n [\n{\"a\":\n 1}\n,\n\n{\"b\": 2}\n]\n\n"),
              ElementsAre("3|{\"a\":\n 1}", "7|{\"b\": 2}"));
  // Brackets, commas and quotes within strings.
  EXPECT_THAT(
      Scan(R"([{"a": "]},\"[{\\"}, "x,]", {"b\\": 1}])"),
      ElementsAre(R"(1|{"a": "]},\"[{\\"})", R"(1|"x,]")", R"(1|{"b\\": 1})"));
  EXPECT_THAT(Scan("[1, null ,[], true]"),
              ElementsAre("1|1", "1|null", "1|[]", "1|true"));
  EXPECT_THAT(Scan("[]"), ElementsAre());
  EXPECT_THAT(Scan(" [ ] "), ElementsAre());
  EXPECT_TRUE(RecordScanner("  [{}]").is_array());
}

TEST(RecordScanner, WhatIsWrongAroundTheRows) {
  EXPECT_THAT(
      Scan("[{}\n"),
      ElementsAre("1|{}", "error 2: the array is not closed; expected \"]\""));
  EXPECT_THAT(Scan("["),
              ElementsAre("error 1: the array is not closed; expected \"]\""));
  EXPECT_THAT(Scan("[{},\n]"),
              ElementsAre("1|{}", "error 2: expected a row next to the comma"));
  EXPECT_THAT(Scan("[,{}]"),
              ElementsAre("error 1: expected a row next to the comma"));
  EXPECT_THAT(
      Scan("[{}\n{}]"),
      ElementsAre("error 2: expected \",\" or \"]\" after a row of the array"));
  EXPECT_THAT(
      Scan("[{}]\n{}"),
      ElementsAre("1|{}",
                  "error 2: there is text after the array; expected its end"));
  EXPECT_THAT(
      Scan("[{},\n{\"a\": \"b}]\n"),
      ElementsAre("1|{}", "error 2: the row that begins here is not closed"));
  EXPECT_THAT(Scan("[\"\\"),
              ElementsAre("error 1: the row that begins here is not closed"));
}

// A row deeper than any stack: no recursion, and the parser refuses it.
TEST(RecordScanner, DepthCostsNothing) {
  const std::string deep = std::string(3'000'000, '[');
  const std::string closed = deep + std::string(3'000'000, ']');
  EXPECT_THAT(Scan(deep),
              ElementsAre("error 1: the row that begins here is not closed"));
  RecordScanner scanner(closed);
  const auto record = scanner.Next();
  ASSERT_TRUE(record.ok() && *record);
  EXPECT_EQ((*record)->text.size(), closed.size() - 2);
  EXPECT_FALSE(ParseLanguageRow((*record)->text).ok());
}

// For any bytes, the scan ends, and records lie within them.
TEST(RecordScanner, SurvivesAnyBytes) {
  std::mt19937 random(3);
  constexpr std::string_view kBytes = "[]{},:\"\\ \n\ra1";
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = random() % 2 ? "[" : "";
    for (int n = random() % 24; n > 0; --n) {
      bytes += kBytes[random() % kBytes.size()];
    }
    RecordScanner scanner(bytes);
    for (int n = 0;; ++n) {
      ASSERT_LE(n, 26) << bytes;
      const auto record = scanner.Next();
      if (!record.ok() || !*record) break;
      ASSERT_FALSE((*record)->text.empty());
      ASSERT_GE((*record)->text.data(), bytes.data());
      ASSERT_LE((*record)->text.data() + (*record)->text.size(),
                bytes.data() + bytes.size());
    }
    ASSERT_LE(scanner.position(), bytes.size());
  }
}

LanguageRow Parse(std::string_view line) {
  return ParseLanguageRow(line).value();
}

// As TRL's extract_prompt: by whole letters, a space before the difference is
// the answers'.
TEST(ParseLanguageRow, APromptMayBeWhatBothAnswersBeginWith) {
  struct Case {
    const char *a, *b, *prompt, *chosen, *rejected;
  };
  for (const Case& c :
       {Case{"q: \u00e9", "q: \u00e8", "q:", " \u00e9", " \u00e8"},
        Case{"say a", "say b", "say", " a", " b"},
        Case{"abc", "ab", "a", "bc", "b"},
        Case{"same", "same", "sam", "e", "e"}, Case{"x", "y", "", "x", "y"},
        Case{"\u65e5\u672c", "\u65e5\u6728x", "\u65e5", "\u672c", "\u6728x"}}) {
    LanguageRow row =
        ParseLanguageRow(RowJson{{"chosen", c.a}, {"rejected", c.b}}.dump(),
                         {.preferences = true})
            .value();
    const auto& content = std::get<CompletionRow>(row.content);
    EXPECT_EQ(content.prompt, c.prompt);
    EXPECT_EQ(content.completion, c.chosen);
    EXPECT_EQ(row.rejected, c.rejected);
  }
}

TEST(ParseLanguageRow, AnswersAreOfOneKind) {
  const auto error = [](const char* line) {
    return std::string(
        ParseLanguageRow(line, {.preferences = true}).status().message());
  };
  EXPECT_EQ(
      error(R"({"prompt": "a", "chosen": "b"})"),
      "expected \"prompt\", \"chosen\" and \"rejected\", found \"prompt\", "
      "\"chosen\"");
  EXPECT_THAT(
      error(R"({"prompt": "a", "chosen": [{"role": "user", "content": "a"}],
                "rejected": [{"role": "user", "content": "a"}]})"),
      testing::HasSubstr("leave \"prompt\" out if both answers begin with it"));
  EXPECT_THAT(error(R"({"chosen": [{"role": "user", "content": "a"}],
                "rejected": [{"role": "user", "content": "b"}]})"),
              testing::HasSubstr("begin with different messages"));
  EXPECT_THAT(error(R"({"chosen": 1, "rejected": 2})"),
              testing::HasSubstr("rejected: expected a non-empty list"));
}

std::string Error(std::string_view line) {
  const auto row = ParseLanguageRow(line);
  EXPECT_TRUE(absl::IsInvalidArgument(row.status())) << line;
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
  Parse(R"({"messages": [{"role": "assistant", "content": null}]})");
  Parse(R"({"messages": [{"role": "assistant", "tool_calls": [{}]}]})");
  Parse(R"({"messages": [{"role": "user", "content": [{"type": "text"}]}]})");
  // Integers beyond 64 bits that no template prints, or within a text.
  Parse(R"({"text": "t", "id": 340282366920938463463374607431768211456})");
  Parse(R"({"messages": [{"role": "u", "content": "c"}],)"
        R"( "id": 340282366920938463463374607431768211456})");
  Parse(R"({"messages": [{"role": "u", "n": 1e30,)"
        R"( "content": "\"18446744073709551616"}]})");
  EXPECT_TRUE(
      ParseLanguageRow("{\"text\": \"\\\"" + std::string(500, '[') + "\"}")
          .ok());
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
  EXPECT_TRUE(std::holds_alternative<PlainTextRow>(
      Parse(R"({"question": "q", "answer": "a", "text": "t"})").content));
  const LanguageRow asked = Parse(R"({"question": "q", "answer": "a"})");
  EXPECT_EQ(std::get<CompletionRow>(asked.content).completion, "a");
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

TEST(ParseLanguageRow, SaysWhatWasExpected) {
  const std::string kNames =
      "expected \"prompt\" and \"completion\", \"messages\", \"text\", "
      "\"instruction\" and \"output\", or \"question\" and \"answer\"";
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "expected an object, found a list"},
      {R"({"prompt": "p", "id": 3})", kNames + ", found \"prompt\", \"id\""},
      {"{}", kNames + ", found an empty object"},
      {R"({"q": "q", "a": "a"})",
       kNames + ", found \"q\", \"a\"; name other columns in "
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
      {R"({"conversations": [{"from": "function_call", "value": "f"}]})",
       "conversations[0]: the role \"function_call\" is known to no chat "
       "template; write a call as \"tool_calls\""},
      {R"({"instruction": "i", "output": "o", "history": [["q", "a"]]})",
       "history: Alpaca's prompt has no place for it; write the row as "
       "\"messages\""},
      {R"({"prompt": "p", "completion": "c", "system": "s"})",
       "system: a prompt in one string has no place for it; write the row as"},
      {R"({"conversations": [{"from": "narrator", "value": "v"}]})",
       "conversations[0]: from: expected human, gpt, system or tool, found "
       "\"narrator\"; for another role write \"role\" and \"content\""},
      {R"({"messages": [{"role": "u", "content": "c",)"
       R"( "n": 18446744073709551616}]})",
       "an integer beyond 64 bits would lose digits; write it as a string"},
      {R"({"text": "x", "tools": "[18446744073709551616]"})",
       "an integer beyond 64 bits would lose digits; write it as a string"},
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
  for (const char* name : {"chatgpt", "bing", "bard", "model"}) {
    EXPECT_EQ(MessagesOf(Parse(R"({"messages": [{"from": ")" +
                               std::string(name) + R"(", "value": "a"}]})")),
              R"([{"role":"assistant","content":"a"}])");
  }
  // A system's text in a column.
  constexpr char kAsked[] =
      R"([{"role":"system","content":"s"},{"role":"user","content":"q"}])";
  EXPECT_EQ(MessagesOf(Parse(R"({"system": "s", "messages": )"
                             R"([{"role": "user", "content": "q"}]})")),
            kAsked);
  EXPECT_EQ(MessagesOf(Parse(R"({"conversations": [{"role": "human",)"
                             R"( "content": "q"}]})")),
            R"([{"role":"human","content":"q"}])");
  const LanguageRow pair =
      Parse(R"({"prompt": [{"from": "human", "value": "q"}], "system": "s",)"
            R"( "completion": [{"from": "gpt", "value": "a"}]})");
  EXPECT_EQ(std::get<ChatCompletionRow>(pair.content).completion.dump(),
            R"([{"role":"assistant","content":"a"}])");
  EXPECT_EQ(std::get<ChatCompletionRow>(pair.content).prompt.dump(), kAsked);
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
  // If there is a text too, it is taken as TRL takes it, unless set.
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
  EXPECT_THAT(
      error({.format = "alpaca"}),
      StartsWith("expected \"instruction\", \"output\" and optionally"));
}

constexpr char kChat[] =
    R"({"messages": [{"role": "user", "content": "hello"},)"
    R"({"role": "assistant", "content": "the dog"},)"
    R"({"role": "user", "content": "world"},)"
    R"({"role": "assistant", "content": "a fox"}]})";

class LanguageRowEncoderTest : public ::testing::Test {
 protected:
  absl::StatusOr<EncodedRow> Encode(std::string_view line, LossOptions options,
                                    const text::ChatTemplate* chat_template) {
    const LanguageRowEncoder encoder(*tokenizer_, chat_template, options);
    return encoder.Encode(ParseLanguageRow(line).value());
  }

  // The encoded row with its labels in brackets.
  std::string Shown(std::string_view line, LossOptions options) {
    return Shown(line, options, *template_);
  }
  std::string Shown(std::string_view line, LossOptions options,
                    const text::ChatTemplate& chat_template) {
    const auto encoded = Encode(line, options, &chat_template);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    if (!encoded.ok()) return "";
    const TokenSample& sample = encoded->sample;
    EXPECT_EQ(sample.input_ids.size(), sample.in_loss.size());
    std::string shown;
    std::vector<int32_t> run;
    for (size_t i = 0; i < sample.input_ids.size(); ++i) {
      run.push_back(sample.input_ids[i]);
      const bool last = i + 1 == sample.input_ids.size();
      if (!last && sample.in_loss[i + 1] == sample.in_loss[i]) continue;
      const std::string text = *tokenizer_->Decode(run, false);
      shown += sample.in_loss[i] ? "[" + text + "]" : text;
      run.clear();
    }
    return shown;
  }
  std::string Error(std::string_view line, LossOptions options,
                    const text::ChatTemplate* chat_template) {
    const auto encoded = Encode(line, options, chat_template);
    EXPECT_TRUE(absl::IsInvalidArgument(encoded.status()));
    return std::string(encoded.status().message());
  }

  const std::unique_ptr<text::Tokenizer> tokenizer_ = LoadTokenizer();
  const std::unique_ptr<text::ChatTemplate> template_ = LoadTemplate();
};

TEST_F(LanguageRowEncoderTest, MessagesAreAllInTheLossByDefault) {
  EXPECT_EQ(Shown(kChat, {}),
            "[<|user|>hello<|end|><|assistant|>the dog<|end|><|user|>world"
            "<|end|><|assistant|>a fox<|end|>]");
  EXPECT_EQ(Shown(kChat, {.assistant_only_loss = false}), Shown(kChat, {}));
}

TEST_F(LanguageRowEncoderTest, TheAssistantIsFoundByBlocksOrByRendering) {
  const std::string shown =
      "<|user|>hello<|end|><|assistant|>[the dog<|end|>]<|user|>world"
      "<|end|><|assistant|>[a fox<|end|>]";
  EXPECT_EQ(Shown(kChat, {.assistant_only_loss = true}), shown);
  const auto plain = MakeTemplate(
      "{%- for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' "
      "}}{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}"
      "{%- endif %}");
  ASSERT_FALSE(plain->has_generation_blocks());
  EXPECT_EQ(Shown(kChat, {.assistant_only_loss = true}, *plain), shown);
}

TEST_F(LanguageRowEncoderTest, WhereRenderingIsNotExactItIsAnError) {
  // As templates do that drop the thinking of earlier turns.
  const auto forgetful = MakeTemplate(
      "{%- for m in messages %}{{ '<|' + m.role + '|>' }}"
      "{%- if loop.last %}{{ m.content }}{%- endif %}{%- endfor %}"
      "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}");
  EXPECT_THAT(
      Error(kChat, {.assistant_only_loss = true}, forgetful.get()),
      StartsWith("assistant_only_loss needs a chat template with {% generation "
                 "%} blocks: this one has none, and its output does not show"));
}

TEST_F(LanguageRowEncoderTest,
       CompletionsOfMessagesBeginAfterTheGenerationPrompt) {
  constexpr char kRow[] =
      R"({"prompt": [{"role": "user", "content": "hello"},)"
      R"({"role": "assistant", "content": "the dog"},)"
      R"({"role": "user", "content": "world"}],)"
      R"("completion": [{"role": "assistant", "content": "a fox"}]})";
  const std::string prompt =
      "<|user|>hello<|end|><|assistant|>the dog<|end|><|user|>world<|end|>"
      "<|assistant|>";
  EXPECT_EQ(Shown(kRow, {}), prompt + "[a fox<|end|>]");
  EXPECT_EQ(Shown(kRow, {.completion_only_loss = true}), Shown(kRow, {}));
  EXPECT_EQ(Shown(kRow, {.completion_only_loss = false}),
            "[" + prompt + "a fox<|end|>]");
  EXPECT_EQ(Shown(kRow, {.assistant_only_loss = true}),
            prompt + "[a fox<|end|>]");
  EXPECT_EQ(
      Shown(kRow, {.assistant_only_loss = true, .completion_only_loss = false}),
      "<|user|>hello<|end|><|assistant|>[the dog<|end|>]<|user|>world"
      "<|end|><|assistant|>[a fox<|end|>]");
}

TEST_F(LanguageRowEncoderTest, TextAndCompletionsGetTheTokenizersTokens) {
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": " world"})", {}),
            "hello[ world<|end|>]");
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": " world<|end|>"})", {}),
            "hello[ world<|end|>]");
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": ""})", {}),
            "hello[<|end|>]");
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": " world"})",
                  {.completion_only_loss = false}),
            "[hello world<|end|>]");
  EXPECT_EQ(Shown(R"({"text": "hello world"})", {}), "[hello world<|end|>]");
  EXPECT_EQ(Shown(R"({"text": "hello<|end|>"})", {}), "[hello<|end|>]");
  const auto split =
      Encode(R"({"prompt": "the", "completion": " dog"})", {}, nullptr).value();
  EXPECT_TRUE(split.prompt_is_prefix);
  const auto merged =
      Encode(R"({"prompt": "th", "completion": "e dog"})", {}, nullptr).value();
  EXPECT_FALSE(merged.prompt_is_prefix);
  EXPECT_EQ(Shown(R"({"prompt": "th", "completion": "e dog"})", {}),
            "t[he dog<|end|>]");
  const auto wordpiece = LoadTokenizer("wordpiece");
  const LanguageRowEncoder encoder(*wordpiece, nullptr, {});
  const auto encoded =
      *encoder.Encode(ParseLanguageRow(R"({"text": "the dog"})").value());
  EXPECT_EQ(encoded.sample.input_ids.front(), wordpiece->TokenToId("[CLS]"));
  EXPECT_EQ(encoded.sample.input_ids.back(), wordpiece->TokenToId("[SEP]"));
}

TEST_F(LanguageRowEncoderTest, ChatTemplateArgumentsReachTheTemplate) {
  const auto chat_template = MakeTemplate(
      "{{ tools | length if tools else 0 }}{{ style }}{{ messages[0].role }}");
  EXPECT_EQ(Shown(R"({"messages": [{"role": "user", "content": ""}],)"
                  R"("tools": [{}, {}], "chat_template_kwargs": )"
                  R"({"style": "x"}})",
                  {}, *chat_template),
            "[2xuser]");
}

TEST_F(LanguageRowEncoderTest, ATurnTakenOutOfTheLossIsRefusedIfItIsInIt) {
  const std::string asked =
      R"([{"role": "user", "content": "hello", "train": false}])";
  const std::string answered =
      R"([{"role": "assistant", "content": "a fox", "weight": 0}])";
  const auto encode = [&](const std::string& line, LossOptions options) {
    const auto encoded = Encode(line, options, template_.get());
    return encoded.ok() ? "" : std::string(encoded.status().message());
  };
  const std::string asks = "{\"messages\": " + asked + "}";
  EXPECT_THAT(encode(asks, {}),
              StartsWith("a message's \"train\": expected 1, true or none, "
                         "found false: mpsd cannot take single turns"));
  EXPECT_EQ(encode(asks, {.assistant_only_loss = true}), "");
  EXPECT_THAT(
      encode("{\"messages\": " + answered + "}", {.assistant_only_loss = true}),
      StartsWith("a message's \"weight\": expected 1, true or none, found "
                 "0: "));
  for (const std::string field :
       {R"("loss": false)", R"("train_detail": [{"train": false}])",
        R"("loss": true)", R"("train_detail": [])"}) {
    const std::string said = encode(
        R"({"messages": [{"role": "u", "content": "a", )" + field + "}]}", {});
    EXPECT_EQ(!said.empty(), field.find("false") != field.npos) << field;
  }
  const auto pair = [](const std::string& prompt, const char* completion) {
    return "{\"prompt\": " + prompt + ", \"completion\": " + completion + "}";
  };
  constexpr char kAnswer[] = R"([{"role": "assistant", "content": "a fox"}])";
  for (const std::string& prompt : {asked, answered}) {
    const std::string line = pair(prompt, kAnswer);
    EXPECT_EQ(encode(line, {}), "");
    EXPECT_EQ(encode(line, {.assistant_only_loss = true}), "");
    EXPECT_NE(encode(line, {.completion_only_loss = false}), "");
  }
  EXPECT_NE(encode(pair(asked, answered.c_str()), {}), "");
}

// A string of JSON is parsed only for templates that would quote it once more.
TEST_F(LanguageRowEncoderTest, ArgumentsAreParsedIfTheTemplateNeedsIt) {
  const auto chat = [](const std::string& printed) {
    return MakeTemplate(
        "{%- for m in messages %}{%- for c in m.tool_calls or [] %}"
        "{%- set it = c.function or c %}" +
        printed + "{%- endfor %}{%- endfor %}");
  };
  const auto line = [](const std::string& value) {
    return R"({"messages": [{"role": "assistant", "content": "",)"
           R"( "tool_calls": [{"function": {"arguments": )" +
           value + "}}]}]}";
  };
  const auto shown = [&](const std::string& printed, const std::string& value) {
    return Shown(line(value), {}, *chat(printed));
  };
  const std::string quoting = "{{ it.arguments | tojson }}";
  const std::string sparing =
      "{{ it.arguments if it.arguments is string else it.arguments | tojson }}";
  const std::string joining = "{{ 'json ' + it.arguments }}";
  const std::string listing =
      "{%- if it.arguments is string %}{{ raise_exception('a string') }}"
      "{%- endif %}{%- for key in it.arguments %}{{ key }},{%- endfor %}";
  const std::string object = R"({"z":1e30, "a": "\u00f6"})";
  const std::string string = RowJson(object).dump();
  EXPECT_EQ(shown(quoting, object), "[{\"z\": 1e+30, \"a\": \"ö\"}]");
  EXPECT_EQ(shown(quoting, string), shown(quoting, object));
  EXPECT_EQ(shown(sparing, object), shown(quoting, object));
  EXPECT_EQ(shown(sparing, string), "[" + object + "]");
  EXPECT_EQ(shown(joining, string), "[json " + object + "]");
  EXPECT_EQ(shown(listing, object), "[z,a,]");
  EXPECT_EQ(shown(listing, string), "[z,a,]");
  // No JSON, and no object.
  for (const std::string text : {"a", "3"}) {
    EXPECT_EQ(shown(sparing, RowJson(text).dump()), "[" + text + "]");
    EXPECT_EQ(shown(quoting, RowJson(text).dump()),
              "[" + RowJson(text).dump() + "]");
  }
  // Digits that would be lost.
  const std::string digits = "{\"n\": 18446744073709551616}";
  const std::string lost = RowJson(digits).dump();
  EXPECT_EQ(shown(sparing, lost), "[" + digits + "]");
  EXPECT_THAT(Error(line(lost), {}, chat(quoting).get()),
              StartsWith("an integer beyond 64 bits would lose digits"));
}

TEST_F(LanguageRowEncoderTest, OptionsAndTemplateMustGoWithTheRows) {
  EXPECT_EQ(Error(R"({"text": "a"})", {.assistant_only_loss = true}, nullptr),
            "assistant_only_loss needs conversations: rows with \"messages\"");
  EXPECT_THAT(Error(R"({"prompt": "a", "completion": "b"})",
                    {.assistant_only_loss = true}, nullptr),
              StartsWith("assistant_only_loss needs conversations"));
  for (const char* line : {kChat, R"({"text": "a"})"}) {
    EXPECT_EQ(Error(line, {.completion_only_loss = true}, template_.get()),
              "completion_only_loss needs rows with \"prompt\" and "
              "\"completion\"; for messages use assistant_only_loss");
  }
  EXPECT_THAT(Error(kChat, {}, nullptr),
              StartsWith("the model has no chat template for messages; use"));
  const auto strict =
      MakeTemplate("{{ raise_exception('roles must alternate') }}");
  EXPECT_THAT(Error(kChat, {}, strict.get()),
              ::testing::AllOf(StartsWith("the chat template rejected it: "),
                               HasSubstr("roles must alternate")));
}

// In the manner of Qwen3: the thinking of earlier turns is dropped, and only
// the last answer has a block of it.
constexpr char kThinking[] =
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' }}"
    "{%- set said = m.content.split('</think>')[-1].lstrip('\\n') %}"
    "{%- if m.role == 'assistant' and loop.last %}{{- '<think>\\n' + "
    "(m.content.split('</think>')[0].split('<think>')[-1].strip('\\n') if "
    "'</think>' in m.content else '') + '\\n</think>\\n\\n' }}{%- endif %}"
    "{{- said + '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}"
    "{%- endif %}";

// In the manner of Qwen3's thinking models: the prompt opens the block.
std::string Replaced(std::string text, const std::string& from,
                     const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}
const std::string& PromptedThinking() {
  static const auto& source =
      *new std::string(Replaced(kThinking, "{{- '<|im_start|>assistant\\n' }}",
                                "{{- '<|im_start|>assistant\\n<think>\\n' }}"));
  return source;
}

// In the manner of Phi: the end token after the whole.
constexpr char kEnded[] =
    "{%- for m in messages %}{%- if m.role in ['user', 'assistant'] %}"
    "{{- '<|' + m.role + '|>' + m.content + '<|end|>' }}{%- endif %}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|assistant|>' }}"
    "{%- else %}{{- '</s>' }}{%- endif %}";

// The rendering with the spans in brackets, or "inexact".
std::string Shown(const std::string& source, const std::string& messages_json,
                  const std::string& end_token = "") {
  const auto chat = MakeTemplate(source);
  const RenderMessages render = [&](const RowJson& messages, bool prompt) {
    auto rendered = chat->Render(messages.dump(), "", prompt);
    return rendered.ok() ? std::optional(rendered->text) : std::nullopt;
  };
  const RowJson messages = RowJson::parse(messages_json);
  const std::string whole = render(messages, false).value();
  const auto spans = FindAssistantSpans(messages, whole, end_token, render);
  if (!spans) return "inexact";
  std::string shown;
  size_t at = 0;
  for (const auto& [begin, end] : *spans) {
    shown += whole.substr(at, begin - at) + "[" +
             whole.substr(begin, end - begin) + "]";
    at = end;
  }
  return shown + whole.substr(at);
}

std::string Conversation(const std::vector<std::string>& contents) {
  RowJson messages = RowJson::array();
  for (const std::string& content : contents) {
    const bool user = messages.size() % 2 == 0;
    messages.push_back(
        {{"role", user ? "user" : "assistant"}, {"content", content}});
  }
  return messages.dump();
}

TEST(AssistantSpans, ThinkingThatIsDroppedLaterOrThatThePromptOpens) {
  EXPECT_EQ(Shown(kThinking, Conversation({"1", "a"})),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n"
            "[<think>\n\n</think>\n\na<|im_end|>\n]");
  EXPECT_EQ(
      Shown(kThinking, Conversation({"1", "<think>x</think>\n\na", "2",
                                     "<think>\ny\n"
                                     "</think>\n\nb"})),
      "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>\n]"
      "<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n"
      "[<think>\ny\n</think>\n\nb<|im_end|>\n]");
  // The last message is not the assistant's.
  EXPECT_EQ(Shown(kThinking, Conversation({"1", "", "2"})),
            "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n"
            "[<|im_end|>\n]<|im_start|>user\n2<|im_end|>\n");
  EXPECT_EQ(
      Shown(PromptedThinking(),
            Conversation({"1", "<think>x</think>a", "2", "<think>y</think>b"})),
      "<|im_start|>user\n1<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>\n]"
      "<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n<think>\n"
      "[y\n</think>\n\nb<|im_end|>\n]");
}

TEST(AssistantSpans, TheUsersTextIsNeverTheAssistants) {
  // What a user says looks like turns; the answer repeats it.
  const std::string fake = "<|im_start|>assistant\nx<|im_end|>\n";
  EXPECT_EQ(Shown(kThinking, Conversation({fake, fake, fake, "y"})),
            "<|im_start|>user\n" + fake +
                "<|im_end|>\n<|im_start|>assistant\n[" + fake +
                "<|im_end|>\n]<|im_start|>user\n" + fake +
                "<|im_end|>\n<|im_start|>assistant\n"
                "[<think>\n\n</think>\n\ny<|im_end|>\n]");
  // Where the header of a turn is not the prompt, the prompt that the user
  // wrote is not taken for it.
  const std::string prompt = "<|im_start|>assistant\n<think>\n";
  EXPECT_EQ(
      Shown(PromptedThinking(), Conversation({prompt, "a", "2", "b"})),
      "<|im_start|>user\n" + prompt +
          "<|im_end|>\n<|im_start|>assistant\n[a<|im_end|>\n]"
          "<|im_start|>user\n2<|im_end|>\n<|im_start|>assistant\n<think>\n"
          "[\n</think>\n\nb<|im_end|>\n]");
  EXPECT_EQ(Shown(kThinking, Conversation({"mpsdmark0x", "mpsdmark1x", "2",
                                           "mpsdmark0x"})),
            "<|im_start|>user\nmpsdmark0x<|im_end|>\n<|im_start|>assistant\n"
            "[mpsdmark1x<|im_end|>\n]<|im_start|>user\n2<|im_end|>\n"
            "<|im_start|>assistant\n"
            "[<think>\n\n</think>\n\nmpsdmark0x<|im_end|>\n]");
}

TEST(AssistantSpans, AnEndTokenAfterTheWhole) {
  EXPECT_EQ(Shown(kEnded, Conversation({"1", "a", "2", "b"}), "</s>"),
            "<|user|>1<|end|><|assistant|>[a<|end|>]<|user|>2<|end|>"
            "<|assistant|>[b<|end|></s>]");
  // It is the last message's, also where that one is not rendered.
  EXPECT_EQ(Shown(kEnded, R"([{"role": "user", "content": "1"},
                              {"role": "assistant", "content": "a"},
                              {"role": "tool", "content": "t"}])",
                  "</s>"),
            "<|user|>1<|end|><|assistant|>[a<|end|>]</s>");
  // Without knowing the token, a turn cannot be separated from the rest.
  EXPECT_EQ(Shown(kEnded, Conversation({"1", "a", "2", "b"})), "inexact");
}

TEST(AssistantSpans, ConversationsThatCannotBeRenderedInPartsAndListsOfParts) {
  const std::string whole_only =
      "{%- if messages | length < 2 %}{{ raise_exception('short') }}"
      "{%- endif %}{%- for m in messages %}{{- '<' + m.role + '>' + "
      "m.content + '\\n' }}{%- endfor %}{%- if add_generation_prompt %}"
      "{{- '<assistant>' }}{%- endif %}";
  EXPECT_EQ(Shown(whole_only, R"([{"role": "assistant", "content": "a"},
                                  {"role": "assistant", "content": "b"},
                                  {"role": "user", "content": "1"},
                                  {"role": "assistant", "content": "c"}])"),
            "inexact");  // the first turn's end is nowhere to be seen
  EXPECT_EQ(Shown(whole_only, Conversation({"1", "a"})),
            "<user>1\n<assistant>[a\n]");
  const std::string parts =
      "{%- for m in messages %}{{- '<' + m.role + '>' }}"
      "{%- for part in m.content %}{{- part.text if loop.index == 1 or "
      "messages | length == 2 else '' }}{%- endfor %}{{- '\\n' }}{%- endfor %}"
      "{%- if add_generation_prompt %}{{- '<assistant>' }}{%- endif %}";
  EXPECT_EQ(Shown(parts, R"([{"role": "user", "content": [{"text": "1"}]},
      {"role": "assistant", "content": [{"text": "a"}, {"text": "b"}]},
      {"role": "user", "content": [{"text": "2"}]}])"),
            "<user>1\n<assistant>[a\n]<user>2\n");
  EXPECT_EQ(Shown("{%- for m in messages %}{{- m.role }}{%- if loop.last %}"
                  "{{- m.content }}{%- endif %}{%- endfor %}",
                  Conversation({"1", "a", "2", "b"})),
            "inexact");
  // Nothing of the assistant: no span, and no fault.
  EXPECT_EQ(Shown(kThinking, Conversation({"1"})),
            "<|im_start|>user\n1<|im_end|>\n");
}

using Rows = std::vector<std::vector<int64_t>>;

Rows Pack(const std::vector<int64_t>& lengths, int64_t capacity) {
  return PackBestFit(lengths, PlainOrder(lengths.size()), capacity);
}

TEST(PackBestFit, TakesTheTightestRowOfEqualsTheOldest) {
  // 7 leaves 3, 6 leaves 4; 3 fits both and goes where nothing is left over.
  EXPECT_THAT(Pack({7, 3, 6, 4}, 10),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
  EXPECT_THAT(Pack({6, 6, 2, 2}, 10),
              ElementsAre(ElementsAre(0, 2, 3), ElementsAre(1)));
  EXPECT_THAT(Pack({6, 6, 4, 4}, 10),
              ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(Pack({10, 10, 1}, 10),
              ElementsAre(ElementsAre(0), ElementsAre(1), ElementsAre(2)));
  EXPECT_TRUE(Pack({}, 10).empty());
}

TEST(PackBestFit, LosesNothingAndNeverOverflows) {
  Random random(7);
  std::vector<int64_t> lengths;
  for (int i = 0; i < 500; ++i) {
    lengths.push_back(1 + static_cast<int64_t>(random.Below(64)));
  }
  size_t rows_before = 0;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const Rows rows = PackBestFit(lengths, ShuffledOrder(500, 1, epoch), 64);
    std::vector<int64_t> all;
    for (const auto& row : rows) {
      int64_t used = 0;
      for (int64_t index : row) used += lengths[index];
      EXPECT_LE(used, 64);
      all.insert(all.end(), row.begin(), row.end());
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(all, PlainOrder(500));
    if (epoch > 0) {
      EXPECT_EQ(rows.size(), rows_before);
    }
    rows_before = rows.size();
  }
}

}  // namespace
}  // namespace mpsd::data
