// SPDX-License-Identifier: Apache-2.0
#include "core/data/class_labels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/strings.h"

namespace mpsd::data {
namespace {

using spec::ProblemType;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Kind = LabelValue::Kind;

std::string Place(int64_t index) { return base::Cat("x.csv:", index + 2); }

std::vector<LabelValue> FromTexts(const std::vector<std::string>& texts) {
  std::vector<LabelValue> values;
  for (const std::string& text : texts) values.push_back(LabelFromText(text));
  return values;
}

class ClassLabelsTest : public ::testing::Test {
 protected:
  ClassLabels Decide(const std::vector<std::string>& texts) {
    auto class_labels = DecideClassLabels(FromTexts(texts), Place, spec_,
                                          glue_task_, head_, &warnings_);
    EXPECT_TRUE(class_labels.ok()) << class_labels.status();
    return class_labels.value_or(ClassLabels());
  }
  std::string Error(const std::vector<std::string>& texts) {
    const auto class_labels = DecideClassLabels(FromTexts(texts), Place, spec_,
                                                glue_task_, head_, &warnings_);
    EXPECT_EQ(class_labels.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(class_labels.status().message());
  }
  std::vector<int64_t> Classes(const std::vector<std::string>& texts,
                               const ClassLabels& class_labels) {
    auto encoded = EncodeClassLabels(FromTexts(texts), Place, class_labels);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    EXPECT_THAT(encoded->targets, IsEmpty());
    return encoded->classes;
  }

  spec::ClassificationSpec spec_;
  const spec::GlueTask* glue_task_ = nullptr;
  spec::HeadConfig head_;
  std::vector<std::string> warnings_;
};

TEST(LabelFromText, TellsNumbersWordsAndLists) {
  struct Case {
    const char* text;
    Kind kind;
    const char* read;
  };
  for (const Case& c : std::vector<Case>{{"", Kind::kAbsent, ""},
                                         {"pos", Kind::kWord, "pos"},
                                         {"7", Kind::kInteger, "7"},
                                         {"+07", Kind::kInteger, "7"},
                                         {"-1", Kind::kInteger, "-1"},
                                         {"2.50", Kind::kFraction, "2.50"},
                                         {"1e3", Kind::kFraction, "1e3"},
                                         {"nan", Kind::kFraction, "nan"},
                                         {"0x10", Kind::kWord, "0x10"},
                                         {" 3", Kind::kWord, " 3"},
                                         {"[oops", Kind::kWord, "[oops"},
                                         {"e", Kind::kWord, "e"}}) {
    const LabelValue value = LabelFromText(c.text);
    EXPECT_EQ(value.kind, c.kind) << c.text;
    EXPECT_EQ(value.text, c.read) << c.text;
  }
  EXPECT_THAT(LabelFromText(R"(["a", 3])").list, ElementsAre("a", "3"));
}

TEST(LabelFromJson, GoesByTheType) {
  const auto read = [](const char* json) {
    return LabelFromJson(nlohmann::ordered_json::parse(json));
  };
  EXPECT_EQ(read("null").kind, Kind::kAbsent);
  EXPECT_EQ(read("\"\"").kind, Kind::kAbsent);
  EXPECT_EQ(read("\"1.5\"").kind, Kind::kWord);
  EXPECT_EQ(read("\"3\"").kind, Kind::kInteger);
  EXPECT_EQ(read("3").text, "3");
  EXPECT_EQ(read("3.0").kind, Kind::kFraction);
  EXPECT_EQ(read("true").text, "true");
  EXPECT_THAT(read("[]").list, IsEmpty());
  EXPECT_EQ(read("[]").kind, Kind::kList);
  EXPECT_EQ(read("[1.5]").kind, Kind::kOther);
  EXPECT_EQ(read("{}").kind, Kind::kOther);
}

TEST_F(ClassLabelsTest, OfTheDataAreSorted) {
  const ClassLabels class_labels = Decide({"b", "Z", "a", "b"});
  EXPECT_EQ(class_labels.problem, ProblemType::kSingleLabel);
  EXPECT_THAT(class_labels.names, ElementsAre("Z", "a", "b"));
  EXPECT_THAT(Classes({"a", "b", "Z"}, class_labels), ElementsAre(1, 2, 0));
  EXPECT_THAT(Decide({"10", "9", "2"}).names, ElementsAre("2", "9", "10"));
  EXPECT_THAT(Classes({"10", "2"}, Decide({"10", "9", "2"})),
              ElementsAre(2, 0));
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ClassLabelsTest, OneClassIsWorthAWarning) {
  EXPECT_THAT(Decide({"a", "a"}).names, ElementsAre("a"));
  EXPECT_THAT(warnings_, ElementsAre("every row has the label \"a\": there is "
                                     "nothing to tell apart"));
}

TEST_F(ClassLabelsTest, FractionsAreARegressionAndListsSeveralLabels) {
  const ClassLabels score = Decide({"3", "2.5", "1e0"});
  EXPECT_EQ(score.problem, ProblemType::kRegression);
  EXPECT_EQ(score.outputs(), 1);
  const auto encoded =
      EncodeClassLabels(FromTexts({"3", "-2.5"}), Place, score);
  EXPECT_THAT(encoded->targets, ElementsAre(3, -2.5));
  EXPECT_THAT(encoded->classes, IsEmpty());

  const ClassLabels tags = Decide({R"(["b", "a"])", "[]", R"(["c"])"});
  EXPECT_EQ(tags.problem, ProblemType::kMultiLabel);
  EXPECT_THAT(tags.names, ElementsAre("a", "b", "c"));
  EXPECT_THAT(EncodeClassLabels(FromTexts({R"(["c", "a"])", "[]"}), Place, tags)
                  ->targets,
              ElementsAre(1, 0, 1, 0, 0, 0));
}

TEST_F(ClassLabelsTest, TheSpecDecides) {
  spec_.problem_type = ProblemType::kRegression;
  EXPECT_EQ(Decide({"1", "2"}).problem, ProblemType::kRegression);
  spec_.problem_type.reset();
  spec_.label_names = {"neg", "pos"};
  const ClassLabels class_labels = Decide({"pos", "neg"});
  EXPECT_THAT(class_labels.names, ElementsAre("neg", "pos"));
  // Integers are ids where no name is one.
  EXPECT_THAT(Classes({"1", "neg", "0"}, class_labels), ElementsAre(1, 0, 0));
  spec_.label_names = {"2", "1"};
  EXPECT_THAT(Classes({"1", "2"}, Decide({"1", "2"})), ElementsAre(1, 0));
  EXPECT_THAT(
      std::string(EncodeClassLabels(FromTexts({"0"}), Place, Decide({"1"}))
                      .status()
                      .message()),
      "x.csv:2: label: \"0\" is none of the labels \"2\", \"1\"");
  spec_.label_names = {"a", "a"};
  EXPECT_EQ(Error({"a"}),
            "classification.label_names: \"a\" is there twice; expected every "
            "name once");
}

TEST_F(ClassLabelsTest, TheConfigNamesThemWhereAllAreItsOwn) {
  head_.label_names = {"positive", "negative", "neutral"};
  EXPECT_THAT(Decide({"negative", "positive"}).names,
              ElementsAre("positive", "negative", "neutral"));
  EXPECT_THAT(Decide({"negative", "odd"}).names,
              ElementsAre("negative", "odd"));
  EXPECT_THAT(Classes({"2", "0"}, Decide({"0", "2", "1"})), ElementsAre(2, 0));
  EXPECT_THAT(Decide({"0", "2", "1"}).names,
              ElementsAre("positive", "negative", "neutral"));
  // Two of three ids may well be another task's.
  EXPECT_THAT(Decide({"0", "1"}).names, ElementsAre("0", "1"));
}

TEST_F(ClassLabelsTest, AGlueTaskHasItsOwn) {
  glue_task_ = spec::FindGlueTask("rte");
  const ClassLabels class_labels = Decide({"1", "0"});
  EXPECT_THAT(class_labels.names, ElementsAre("entailment", "not_entailment"));
  EXPECT_THAT(Classes({"not_entailment", "0"}, class_labels),
              ElementsAre(1, 0));
  // A model fine-tuned on it keeps its order; the files' ids stay the task's.
  head_.label_names = {"NOT_ENTAILMENT", "ENTAILMENT"};
  const ClassLabels turned = Decide({"1", "0"});
  EXPECT_THAT(turned.names, ElementsAre("NOT_ENTAILMENT", "ENTAILMENT"));
  EXPECT_THAT(Classes({"not_entailment", "1", "0", "entailment"}, turned),
              ElementsAre(0, 0, 1, 1));
  glue_task_ = spec::FindGlueTask("stsb");
  EXPECT_EQ(Decide({"1", "5"}).problem, ProblemType::kRegression);
}

TEST_F(ClassLabelsTest, RefusesWhatDoesNotFitTheProblem) {
  EXPECT_EQ(Error({"a", "", "1.5"}),
            "x.csv:3: label: expected a class name or an integer, found "
            "nothing\n"
            "x.csv:4: label: expected a class name or an integer, found 1.5; "
            "for numbers set classification.problem_type to \"regression\"");
  EXPECT_EQ(Error({"1.5", "nan"}),
            "x.csv:3: label: expected a finite number, found nan");
  EXPECT_EQ(Error({R"(["a"])", "b"}),
            "x.csv:3: label: expected a list of label names, empty where none "
            "applies, found \"b\"");
  spec_.problem_type = ProblemType::kRegression;
  EXPECT_THAT(Error({"high"}), HasSubstr("found \"high\"; for classes set "
                                         "classification.problem_type to "
                                         "\"single_label_classification\""));
  spec_.problem_type = ProblemType::kSingleLabel;
  EXPECT_THAT(Error({"[1]", "[2]", "[3]", "[4]", "[5]", "[6]"}),
              HasSubstr("x.csv:6: label: expected a class name or an integer, "
                        "found a list; for several labels a row set "
                        "classification.problem_type to "
                        "\"multi_label_classification\"\n"
                        "(reading stopped at 5 bad rows)"));
}

TEST_F(ClassLabelsTest, WeighsEveryName) {
  spec_.class_weights = {1, 3};
  const ClassLabels class_labels = Decide({"a", "b"});
  EXPECT_THAT(class_labels.weights, ElementsAre(1, 3));
  const auto encoded =
      EncodeClassLabels(FromTexts({"a", "b", "b"}), Place, class_labels);
  EXPECT_EQ(LossWeight(class_labels, *encoded, {0, 2}), 4);
  EXPECT_EQ(Error({"a", "b", "c"}),
            "classification.class_weights: expected 3 numbers, for the labels "
            "\"a\", \"b\", \"c\" in this order, found 2");
  spec_.problem_type = ProblemType::kRegression;
  EXPECT_EQ(Error({"1"}),
            "classification.class_weights: a regression has no classes; leave "
            "it out");
}

TEST_F(ClassLabelsTest, TheLossIsAMeanOverRowsOrCells) {
  const ClassLabels plain = Decide({"a", "b"});
  EXPECT_EQ(LossWeight(plain, ClassTargets{{0, 1}, {}}, {0, 1}), 2);
  const ClassLabels score = Decide({"1.5"});
  EXPECT_EQ(LossWeight(score, ClassTargets{{}, {1.5}}, {0}), 1);
  const ClassLabels tags = Decide({R"(["a", "b", "c"])"});
  EXPECT_EQ(LossWeight(tags, ClassTargets{{}, {1, 1, 1, 0, 0, 0}}, {0, 1}), 6);
}

TEST_F(ClassLabelsTest, ShowsTwentyNamesAtMost) {
  std::vector<std::string> many;
  for (int i = 0; i < 25; ++i) many.push_back(base::Cat("n", i + 10));
  const auto encoded = EncodeClassLabels(FromTexts({"x"}), Place, Decide(many));
  EXPECT_THAT(std::string(encoded.status().message()),
              HasSubstr("\"n29\" and 5 more"));
}

}  // namespace
}  // namespace mpsd::data
