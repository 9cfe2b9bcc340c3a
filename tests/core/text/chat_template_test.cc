// SPDX-License-Identifier: Apache-2.0
#include "core/text/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <thread>

#include "core/text/assistant_mask.h"
#include "core/text/delimited.h"
#include "core/text/training_template.h"
#include "nlohmann/json.hpp"
#include "tests/core/status_matchers.h"
#include "tests/core/text/folders.h"

namespace mpsd::text {

namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::Eq;
using testing::HasSubstr;
using testing::Pair;
using testing_support::Fails;

constexpr char kHi[] = "[{\"role\": \"user\", \"content\": \"Hi\"}]";

std::unique_ptr<ChatTemplate> Make(const std::string& source) {
  return ChatTemplate::FromSource(source, "").value();
}

absl::StatusOr<std::string> RenderHi(const std::string& source) {
  auto rendered = Make(source)->Render(kHi, "", false);
  if (!rendered.ok()) return rendered.status();
  return rendered->text;
}

std::string Fault(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string CompileFault(const std::string& source) {
  return Fault(ChatTemplate::FromSource(source, "").status());
}

std::string RenderFault(const std::string& source) {
  return Fault(RenderHi(source).status());
}

// templates.json holds what Transformers rendered.
TEST(ChatTemplateTest, EqualsTransformers) {
  const auto all = ReadJson(TestData("templates.json"));
  EXPECT_EQ(all.size(), 26u);
  for (const auto& c : all) {
    SCOPED_TRACE(c["name"].get<std::string>());
    const auto made = *ChatTemplate::FromSource(
        c["source"], "{\"bos_token\": \"<s>\", \"eos_token\": \"<|end|>\"}");
    const std::string tools = c["tools"].is_null() ? "" : c["tools"].dump();
    std::string kwargs = c["kwargs"].dump();
    // nlohmann has no integers of this size; Python and the crate do.
    const size_t big = kwargs.find("1.2345678901234568e+29");
    if (big != std::string::npos) {
      kwargs.replace(big, 22, "123456789012345678901234567890");
    }
    const auto rendered =
        *made->Render(c["messages"].dump(), tools, c["prompt"], kwargs);
    EXPECT_EQ(rendered.text, c["text"].get<std::string>());
    EXPECT_EQ(nlohmann::ordered_json(rendered.generation_spans), c["spans"]);
  }
}

TEST(ChatTemplateTest, TakesTheTemplateAndTokensOfAFolder) {
  const auto made = ChatTemplate::FromFolder(TestData("bpe")).value();
  EXPECT_TRUE(made->has_generation_blocks());
  const auto rendered = *made->Render(
      "[{\"role\": \"user\", \"content\": \"é\"},"
      " {\"role\": \"assistant\", \"content\": \"ja\"}]",
      "", true);
  EXPECT_EQ(rendered.text,
            "<|user|>é<|end|><|assistant|>ja<|end|><|assistant|>");
  EXPECT_THAT(rendered.generation_spans, ElementsAre(Pair(30, 39)));
}

TEST(ChatTemplateTest, ToolUseIsTakenOnlyWithToolsAndNamesNeedADefault) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"chat_template": [
                    {"name": "default", "template": "plain"},
                    {"name": "tool_use", "template":
                     "{% generation %}tools{% endgeneration %}"}]})");
  const auto made = ChatTemplate::FromFolder(folder.path()).value();
  EXPECT_FALSE(made->has_generation_blocks());
  EXPECT_EQ(made->Render(kHi, "", false)->text, "plain");
  EXPECT_EQ(made->Render(kHi, "[]", false)->text, "tools");
  folder.Write(
      "tokenizer_config.json",
      "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}");
  const auto named = ChatTemplate::FromFolder(folder.path()).value();
  EXPECT_THAT(Fault(named->Render(kHi, "", false).status()),
              HasSubstr("\"default\""));
  EXPECT_THAT(ChatTemplate::FromFolder(TestData("unigram")),
              Fails(absl::StatusCode::kNotFound, "chat_template.jinja"));
}

const time_t kStart = time(nullptr);

TEST(ChatTemplateTest, StrftimeNowIsLocalTime) {
  const auto at = [](time_t seconds) {
    tm parts;
    localtime_r(&seconds, &parts);
    char text[64];
    strftime(text, sizeof text, "%d %b %Y %H %%f", &parts);
    return std::string(text);
  };
  const auto rendered = *RenderHi("{{ strftime_now('%d %b %Y %H %%f') }}");
  EXPECT_THAT(rendered, AnyOf(Eq(at(kStart)), Eq(at(time(nullptr)))));
  EXPECT_EQ(RenderHi("{{ strftime_now('%f') }}")->size(), 6u);
}

// A row is rendered several times, and all rows are of one day.
TEST(ChatTemplateTest, StrftimeNowIsOneTimeForAllRows) {
  const auto first = RenderHi("{{ strftime_now('%c %f') }}").value();
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  EXPECT_EQ(*RenderHi("{{ strftime_now('%c %f') }}"), first);
}

TEST(ChatTemplateTest, ErrorsNameTheirLine) {
  EXPECT_THAT(CompileFault("a\nb\n{% if x %}\n"),
              AllOf(HasSubstr("chat template"), HasSubstr("line ")));
  EXPECT_THAT(CompileFault("a\n{{ x + }}\n"), HasSubstr("line 2: "));
  EXPECT_THAT(CompileFault("a\n\n{% generation x %}"), HasSubstr("line 3: "));
  EXPECT_THAT(CompileFault("{% generation %}a"), HasSubstr("line 1: "));
  EXPECT_EQ(
      RenderFault("x\n{{ raise_exception('Roles must ' ~ 'alternate') }}"),
      "chat template: line 2: Roles must alternate");
  EXPECT_THAT(RenderFault("\n\n{{ nothing.at.all }}"), HasSubstr("line 3: "));
  EXPECT_THAT(RenderFault("{{ 'a' + 1 }}"), HasSubstr("line 1: "));
  EXPECT_THAT(RenderFault("{{ 'a'.nope() }}"), HasSubstr("nope"));
  EXPECT_THAT(RenderFault("{{ nothing | tojson }}"), HasSubstr("tojson"));
  EXPECT_THAT(RenderFault("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"),
              HasSubstr("recursion"));
}

TEST(ChatTemplateTest, BadArgumentsAreNamed) {
  const auto made = Make("x");
  const auto fault = [&](const char* messages, const char* tools,
                         const char* kwargs) {
    return Fault(made->Render(messages, tools, false, kwargs).status());
  };
  EXPECT_THAT(fault("[", "", ""), AllOf(HasSubstr("messages: malformed JSON"),
                                        HasSubstr("byte 1")));
  EXPECT_THAT(fault("{}", "", ""), HasSubstr("messages: a JSON array"));
  EXPECT_THAT(fault("[]", "", ""), HasSubstr("at least one"));
  EXPECT_THAT(fault("[{}, 3]", "", ""), HasSubstr("messages[1]: an object"));
  EXPECT_THAT(fault(kHi, "{}", ""), HasSubstr("tools: a JSON array"));
  EXPECT_THAT(fault(kHi, "[\"f\"]", ""), HasSubstr("tools[0]: an object"));
  EXPECT_THAT(fault(kHi, "", "[]"), HasSubstr("kwargs: a JSON object"));
  EXPECT_THAT(fault(kHi, "", "{\"messages\": 1}"), HasSubstr("'messages'"));
  EXPECT_THAT(fault("[{\"a\": \"\xff\"}]", "", ""), HasSubstr("not UTF-8"));
  EXPECT_THAT(fault("[{\"a\": \"\\ud800\"}]", "", ""), HasSubstr("surrogate"));
}

TEST(ChatTemplateTest, ReadsJsonAsPythonDoes) {
  const auto made = Make("{{ messages[0].v }}");
  const auto value = [&](const std::string& json) {
    const auto rendered = made->Render("[{\"v\": " + json + "}]", "", false);
    return rendered.ok() ? rendered->text : Fault(rendered.status());
  };
  EXPECT_EQ(value("-0"), "0");
  EXPECT_EQ(value("1.50"), "1.5");
  EXPECT_EQ(value("1E3"), "1000.0");
  EXPECT_EQ(value("-12e-7"), "-1.2e-06");
  EXPECT_EQ(value("18446744073709551616"), "18446744073709551616");
  EXPECT_EQ(value("\"\\ud83d\\ude00\\u00e9\\n\\/\""), "😀é\n/");
  EXPECT_EQ(value("{\"b\": 1, \"a\": 2, \"b\": 3}"), "{'b': 3, 'a': 2}");
  EXPECT_EQ(value("[NaN, Infinity]"), "[nan, inf]");
  for (const char* bad : {"01", "1.", ".5", "1.e3", "+1", "tru", "'a'", "1 2",
                          "[1,]", "{\"a\":}", "\"\t\"", "\"\\x\"", "\"", ""}) {
    EXPECT_THAT(value(bad), HasSubstr("malformed JSON")) << bad;
  }
  EXPECT_THAT(value(std::string(5000, '[')), HasSubstr("nested deeper"));
}

// Tokens of "ab", " c", one character of four bytes in two tokens, "d".
Encoding FiveTokens() {
  return {{1, 2, 3, 4, 5}, {{0, 2}, {2, 4}, {4, 8}, {4, 8}, {8, 9}}};
}

TEST(AssistantMaskTest, CoversEveryTokenASpanTouchesAsTransformersDoes) {
  EXPECT_THAT(AssistantMask(FiveTokens(), {}), ElementsAre(0, 0, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 4}}),
              ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{1, 3}}),
              ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 4}, {8, 9}}),
              ElementsAre(0, 1, 0, 0, 1));
  // As char_to_token of the tokenizers library does.
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 8}}),
              ElementsAre(0, 1, 1, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{4, 9}}),
              ElementsAre(0, 0, 1, 1, 1));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{4, 100}}),
              ElementsAre(0, 0, 1, 1, 1));
  // `end_token + 1 if end_token else len(ids)` in Transformers.
  EXPECT_THAT(AssistantMask(FiveTokens(), {{0, 2}}),
              ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{50, 60}, {2, 4}}),
              ElementsAre(0, 0, 0, 0, 0));
}

TEST(AssistantMaskTest, MasksARenderedConversation) {
  const auto tokenizer = Tokenizer::FromFolder(TestData("bpe"));
  const auto chat = ChatTemplate::FromFolder(TestData("bpe"));
  ASSERT_TRUE(tokenizer.ok() && chat.ok());
  const auto rendered = *(*chat)->Render(
      "[{\"role\": \"user\", \"content\": \"hello\"},"
      " {\"role\": \"assistant\", \"content\": \"the dog\"}]",
      "", false);
  const auto encoding = (*tokenizer)->Encode(rendered.text, false).value();
  const auto mask = AssistantMask(encoding, rendered.generation_spans);
  std::vector<int32_t> kept;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) kept.push_back(encoding.ids[i]);
  }
  EXPECT_EQ(*(*tokenizer)->Decode(kept, false), "the dog<|end|>");
}

TEST(TrainingTemplate, EachEditMustFitOnceInStockTemplatesAlone) {
  EXPECT_EQ(TrainingTemplate(""), std::nullopt);
  EXPECT_EQ(TrainingTemplate("{{ messages[0].content }}"), std::nullopt);
  // The edits themselves are compared with TRL's templates by
  // tests/live/text/compare_labels.py: stock templates are not kept here.
  EXPECT_EQ(EditTemplate("a b c", {}), "a b c");
  EXPECT_EQ(EditTemplate("a b c", {{"a", "c"}, {"b", "x"}}), "c x c");
  EXPECT_EQ(EditTemplate("a b c", {{"a", "c"}, {"c", "x"}}), std::nullopt);
  EXPECT_EQ(EditTemplate("a b c", {{"d", "x"}}), std::nullopt);
  EXPECT_EQ(EditTemplate("aaa", {{"aa", "x"}}), std::nullopt);
}

using Fields = std::vector<std::string>;
using testing::IsEmpty;

std::vector<Fields> Parse(std::string_view bytes, char delimiter = ',',
                          bool quoting = true) {
  auto rows = ParseDelimited(bytes, delimiter, quoting).value();
  std::vector<Fields> fields;
  for (const DelimitedRow& row : rows) {
    EXPECT_EQ(row.fault, QuoteFault::kNone) << row.line;
    fields.push_back(row.fields);
  }
  return fields;
}

std::vector<int64_t> Lines(std::string_view bytes) {
  const auto rows = ParseDelimited(bytes, ',', true);
  std::vector<int64_t> lines;
  for (const DelimitedRow& row : *rows) lines.push_back(row.line);
  return lines;
}

QuoteFault DelimitedFault(std::string_view bytes) {
  return ParseDelimited(bytes, ',', true)->back().fault;
}

TEST(ParseDelimited, ReadsQuotedFieldsOrQuotesAsCharacters) {
  EXPECT_THAT(Parse("a,\"b,c\",\"say \"\"hi\"\"\"\n\"line\nline\",,\n"),
              ElementsAre(Fields{"a", "b,c", "say \"hi\""},
                          Fields{"line\nline", "", ""}));
  EXPECT_THAT(Parse("\"\"\n"), ElementsAre(Fields{""}));
  EXPECT_THAT(Parse("5\" disk,x"), ElementsAre(Fields{"5\" disk", "x"}));
  EXPECT_THAT(Parse(" a , \"b\" "), ElementsAre(Fields{" a ", " \"b\" "}));
  EXPECT_THAT(Parse(""), IsEmpty());
  EXPECT_THAT(Parse("\"a\t\"b\"\"\tc\n\"\t1", '\t', false),
              ElementsAre(Fields{"\"a", "\"b\"\"", "c"}, Fields{"\"", "1"}));
}

TEST(ParseDelimited, TakesEveryLineEndAndNumbersTheLines) {
  for (const char* text : {"a,b\nc,d", "a,b\r\nc,d\r\n", "a,b\rc,d\r",
                           "\n\na,b\n\n\nc,d\n\n", "\r\na,b\r\n\r\nc,d"}) {
    EXPECT_THAT(Parse(text), ElementsAre(Fields{"a", "b"}, Fields{"c", "d"}));
  }
  EXPECT_THAT(Lines("a\nb\nc"), ElementsAre(1, 2, 3));
  EXPECT_THAT(Lines("a\r\nb\r\n\r\nc"), ElementsAre(1, 2, 4));
  EXPECT_THAT(Lines("a\rb\r\rc"), ElementsAre(1, 2, 4));
  EXPECT_THAT(Lines("\n\na\n\"x\n\ny\"\nz"), ElementsAre(3, 4, 7));
}

TEST(ParseDelimited, SaysWhichQuotesAreWrongAndTakesAnyBytes) {
  EXPECT_EQ(DelimitedFault("a,\"b"), QuoteFault::kUnclosed);
  EXPECT_EQ(DelimitedFault("a,\"b\"\"\nc,d\n"), QuoteFault::kUnclosed);
  EXPECT_EQ(DelimitedFault("a,\"b\" c"), QuoteFault::kBehindQuote);
  EXPECT_EQ(DelimitedFault("\"b\"c\",d"), QuoteFault::kBehindQuote);
  EXPECT_EQ(DelimitedFault("a,\"b\"\r\n"), QuoteFault::kNone);
  EXPECT_EQ(DelimitedFault("\"b\",\"\""), QuoteFault::kNone);
  std::string wide = "x";
  for (int i = 0; i < 500; ++i) wide += ",x";
  EXPECT_EQ(Parse(wide + "\n" + wide)[1].size(), 501u);
  const std::string bytes("a\0b,\xff", 5);
  EXPECT_THAT(Parse(bytes),
              ElementsAre(Fields{std::string("a\0b", 3), "\xff"}));
}

}  // namespace

}  // namespace mpsd::text
