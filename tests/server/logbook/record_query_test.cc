// SPDX-License-Identifier: Apache-2.0
#include "server/logbook/record_query.h"

#include <cstdint>
#include <random>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"
#include "core/base/limits.h"
#include "core/base/printable.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::logbook {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using ::testing::StartsWith;

const absl::Time kNow = absl::FromUnixSeconds(1'767'225'600);  // 2026-01-01

RecordQuery Parse(const std::string& text) {
  auto query = ParseRecordQuery(text, kNow);
  EXPECT_TRUE(query.ok()) << text << ": " << query.status();
  return query.value_or(RecordQuery());
}

std::string Fault(const std::string& text) {
  const auto query = ParseRecordQuery(text, kNow);
  EXPECT_TRUE(absl::IsInvalidArgument(query.status())) << text;
  return std::string(query.status().message());
}

TEST(RecordQuery, ReadsEveryKindOfTerm) {
  const RecordQuery query = Parse(
      "model~qwen eval_loss<1.0 since:30d tag:baseline owner=ann kind=smoke "
      "verdict=fail \"free text\" word");
  ASSERT_THAT(query.conditions, SizeIs(5));
  EXPECT_EQ(query.conditions[0].field->name, "model");
  EXPECT_EQ(query.conditions[0].comparison, Comparison::kContains);
  EXPECT_EQ(query.conditions[0].value, FieldValue("qwen"));
  EXPECT_EQ(query.conditions[1].comparison, Comparison::kLess);
  EXPECT_EQ(query.conditions[1].value, FieldValue(1.0));
  EXPECT_EQ(query.conditions[2].field, &kOwnerField);
  EXPECT_EQ(query.conditions[3].value, FieldValue(int64_t{6}));
  EXPECT_EQ(query.conditions[4].value, FieldValue(int64_t{3}));
  EXPECT_EQ(query.since, kNow - absl::Hours(24 * 30));
  EXPECT_THAT(query.tags, ElementsAre("baseline"));
  EXPECT_THAT(query.texts, ElementsAre("free text", "word"));
}

TEST(RecordQuery, NothingAsksForEverything) {
  for (const char* text : {"", " ", "\t\n  "}) {
    const RecordQuery query = Parse(text);
    EXPECT_TRUE(query.conditions.empty() && query.texts.empty());
  }
}

TEST(RecordQuery, Operators) {
  const std::pair<const char*, Comparison> kTable[] = {
      {"steps=1", Comparison::kEqual},
      {"steps!=1", Comparison::kNotEqual},
      {"steps<1", Comparison::kLess},
      {"steps<=1", Comparison::kLessOrEqual},
      {"steps>1", Comparison::kGreater},
      {"steps>=1", Comparison::kGreaterOrEqual},
      {"name~a", Comparison::kContains}};
  for (const auto& [text, comparison] : kTable) {
    const RecordQuery query = Parse(text);
    ASSERT_THAT(query.conditions, SizeIs(1)) << text;
    EXPECT_EQ(query.conditions[0].comparison, comparison) << text;
  }
}

TEST(RecordQuery, Units) {
  const std::pair<const char*, double> kTable[] = {
      {"peak>4GB", 4e9},         {"peak>512MiB", 536870912},
      {"peak>100", 100},         {"peak>1.5kB", 1500},
      {"queue>90", 90},          {"queue>90s", 90},
      {"queue>10m", 600},        {"queue>2h", 7200},
      {"device_time>1d", 86400}, {"step<500ms", 0.5},
      {"eval_loss>-1e-3", -1e-3}};
  for (const auto& [text, value] : kTable) {
    const RecordQuery query = Parse(text);
    ASSERT_THAT(query.conditions, SizeIs(1)) << text;
    EXPECT_DOUBLE_EQ(std::get<double>(query.conditions[0].value), value)
        << text;
  }
}

TEST(RecordQuery, WordsOfKindsStatesAndVerdicts) {
  EXPECT_EQ(Parse("kind=note").conditions[0].value, FieldValue(int64_t{0}));
  EXPECT_EQ(Parse("kind=Training").conditions[0].value, FieldValue(int64_t{1}));
  EXPECT_EQ(Parse("state=failed").conditions[0].value, FieldValue(int64_t{4}));
  EXPECT_EQ(Parse("verdict!=PASS").conditions[0].value, FieldValue(int64_t{1}));
}

TEST(RecordQuery, MetricsAndLabelsHaveAnyName) {
  const RecordQuery query = Parse("metric.eval/f1>=0.9 label.team=\"a b\"");
  ASSERT_THAT(query.conditions, SizeIs(2));
  EXPECT_EQ(query.conditions[0].of, Condition::Of::kMetric);
  EXPECT_EQ(query.conditions[0].name, "eval/f1");
  EXPECT_EQ(query.conditions[1].of, Condition::Of::kLabel);
  EXPECT_EQ(query.conditions[1].value, FieldValue("a b"));
}

TEST(RecordQuery, QuotedValuesHaveAnyCharacters) {
  EXPECT_EQ(Parse(R"(name="a \"b\" \\ c=d")").conditions[0].value,
            FieldValue("a \"b\" \\ c=d"));
  EXPECT_THAT(Parse(R"("%_' OR 1=1; --")").texts,
              ElementsAre("%_' OR 1=1; --"));
  EXPECT_EQ(Parse("model=org/name-1.5B").conditions[0].value,
            FieldValue("org/name-1.5B"));
  EXPECT_EQ(Parse("until:\"2025-12-31 18:00\"").until,
            absl::FromUnixSeconds(1'767'204'000));
}

TEST(RecordQuery, AFaultNamesItsColumnAndWhatWasExpected) {
  const std::pair<const char*, const char*> kTable[] = {
      {"eval_loss<abc",
       "query:11: expected a number behind eval_loss<, not "
       "abc"},
      {"  peak>lots", "query:8: expected a number of bytes, as 4GB"},
      {"queue>soon", "query:7: expected a number of seconds, as 90, 10m"},
      {"steps<", "query:7: expected a number behind steps<"},
      {"steps<nan", "query:7: expected a number"},
      {"steps<1e999", "query:7: expected a number"},
      {"name<a", "query:5: expected = != or ~ behind name, not <"},
      {"steps~1", "query:6: expected = != < <= > or >= behind steps, not ~"},
      {"kind~smoke", "query:5: expected = or != behind kind, not ~"},
      {"kind=dance", "query:6: expected training, probe"},
      {"state=open", "query:7: expected succeeded, failed or cancelled"},
      {"modle=x", "query:1: there is no field modle; model?"},
      {"xyzzy=x", "query:1: there is no field xyzzy: see"},
      {"=x", "query:1: expected a field before ="},
      {"name=", "query:6: expected a text behind name="},
      {"since:soon", "query:7: soon: expected how long ago"},
      {"since:", "query:7: : expected how long ago"},
      {"tag:", "query:5: : expected a tag"},
      {"tag:a!b", "query:5: a!b: expected a tag"},
      {"foo:bar", "query:1: foo: expected since:, until: or tag:"},
      {"name=\"abc", "query:6: expected a \" at the end"},
      {"\"abc", "query:1: expected a \" at the end"},
      {"\"abc\"d", "query:6: expected a space behind"},
      {"ab", "query:1: expected a text of 3 characters at least"},
      {"\"\"", "query:1: expected a text of 3 characters at least"},
      // Columns count characters, not bytes.
      {"name=\xC3\xA4\xC3\xB6 steps<x", "query:15: expected a number"}};
  for (const auto& [text, fault] : kTable) {
    EXPECT_THAT(Fault(text), StartsWith(fault)) << text;
  }
}

TEST(RecordQuery, Bounds) {
  EXPECT_TRUE(
      ParseRecordQuery(std::string(limits::kRecordQueryBytes, 'x'), kNow).ok());
  EXPECT_THAT(Fault(std::string(limits::kRecordQueryBytes + 1, 'x')),
              HasSubstr("at most 1024"));
  std::string terms;
  for (size_t i = 0; i < kQueryTerms; ++i) terms += "steps=1 ";
  EXPECT_TRUE(ParseRecordQuery(terms, kNow).ok());
  EXPECT_THAT(Fault(terms + "steps=1"), HasSubstr("at most 16 terms"));
  EXPECT_THAT(Fault("abc abc abc abc abc abc abc"),
              HasSubstr("query:25: a query has at most 6 texts"));
  EXPECT_THAT(Fault(std::string("abc\0def", 7)), HasSubstr("zero byte"));
}

TEST(RecordQuery, Tags) {
  EXPECT_TRUE(IsTag("baseline-v1.2_x/y@z+w"));
  EXPECT_TRUE(IsTag(std::string(limits::kRecordTagBytes, 'a')));
  for (const std::string& tag :
       {std::string(), std::string(limits::kRecordTagBytes + 1, 'a'),
        std::string("a b"), std::string("a\x1b"), std::string("\xC3\xA4"),
        std::string("a\"b"), std::string("a%b")}) {
    EXPECT_FALSE(IsTag(tag)) << tag;
  }
}

// Any bytes are a query or have a fault that is fit to print.
TEST(RecordQuery, AnyBytes) {
  std::mt19937 random(7);
  const std::string alphabet =
      "\"\\ =!<>~:.-_/ab1Ge%'\t\n\x1b\xC3\xA4\xE2\x80\xAE";
  const char* const kWords[] = {
      "eval_loss", "model", "since:", "tag:",  "metric.", "1.0",
      "\"",        "!=",    "<=",     "kind=", "label.",  "\\\""};
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (int k = static_cast<int>(random() % 12); k > 0; --k) {
      if (random() % 3 == 0) {
        text += kWords[random() % std::size(kWords)];
      } else {
        text += alphabet[random() % alphabet.size()];
      }
    }
    const auto query = ParseRecordQuery(text, kNow);
    if (query.ok()) {
      for (const Condition& condition : query->conditions) {
        EXPECT_FALSE(std::holds_alternative<std::monostate>(condition.value));
        EXPECT_EQ(condition.field == nullptr,
                  condition.of != Condition::Of::kField);
        if (condition.comparison == Comparison::kContains) {
          EXPECT_TRUE(std::holds_alternative<std::string>(condition.value));
        }
      }
      continue;
    }
    EXPECT_THAT(std::string(query.status().message()), StartsWith("query:"));
    EXPECT_TRUE(base::IsPrintable(std::string(query.status().message())))
        << query.status();
  }
}

}  // namespace
}  // namespace mpsd::logbook
