// SPDX-License-Identifier: Apache-2.0

#include <algorithm>
#include <optional>

#include "absl/strings/str_replace.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/data/class_labels.h"
#include "core/data/loader.h"
#include "core/data/source.h"
#include "core/data/text_classes.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/status_matchers.h"

// The errors that a user gets for data that cannot be trained on: every case
// with its whole message. "@" is the file's path, "…" is what a
// library says.

namespace mpsd::data {
namespace {

using spec::ProblemType;
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
    return *DecideClassLabels(FromTexts(texts), Place, spec_, glue_task_, head_,
                              &warnings_);
  }
  std::string Error(const std::vector<std::string>& texts) {
    const auto class_labels = DecideClassLabels(FromTexts(texts), Place, spec_,
                                                glue_task_, head_, &warnings_);
    EXPECT_TRUE(absl::IsInvalidArgument(class_labels.status()));
    return std::string(class_labels.status().message());
  }
  std::vector<int64_t> Classes(const std::vector<std::string>& texts,
                               const ClassLabels& class_labels) {
    auto encoded = *EncodeClassLabels(FromTexts(texts), Place, class_labels);
    EXPECT_THAT(encoded.targets, IsEmpty());
    return encoded.classes;
  }

  spec::ClassificationSpec spec_;
  const spec::GlueTask* glue_task_ = nullptr;
  spec::HeadConfig head_;
  std::vector<std::string> warnings_;
};

TEST(LabelFromText, DistinguishesNumbersWordsAndListsByJsonsTypes) {
  struct Case {
    const char* text;
    Kind kind;
    const char* read;
  };
  for (const Case& c : std::vector<Case>{
           {"", Kind::kAbsent, ""},
           {"pos", Kind::kWord, "pos"},
           {"7", Kind::kInteger, "7"},
           {"+07", Kind::kInteger, "+07"},
           {"99999999999999999999", Kind::kInteger, "99999999999999999999"},
           {"cafe\u0301", Kind::kWord, "caf\u00e9"},
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
  const auto read = [](const char* json) {
    return LabelFromJson(nlohmann::ordered_json::parse(json));
  };
  EXPECT_EQ(read("null").kind, Kind::kAbsent);
  EXPECT_EQ(read("\"\"").kind, Kind::kAbsent);
  EXPECT_EQ(read("\"1.5\"").kind, Kind::kWord);
  EXPECT_EQ(read("\"3\"").kind, Kind::kWord);
  EXPECT_EQ(read("\"cafe\\u0301\"").text, "caf\u00e9");
  EXPECT_EQ(read("3").text, "3");
  EXPECT_EQ(read("3.0").kind, Kind::kFraction);
  EXPECT_EQ(read("true").text, "true");
  EXPECT_THAT(read("[]").list, IsEmpty());
  EXPECT_EQ(read("[]").kind, Kind::kList);
  EXPECT_EQ(read("[1.5]").kind, Kind::kOther);
  EXPECT_EQ(read("{}").kind, Kind::kOther);
}

TEST_F(ClassLabelsTest, OfTheDataAreSortedAndOneAloneIsWorthAWarning) {
  const ClassLabels class_labels = Decide({"b", "Z", "a", "b"});
  EXPECT_EQ(class_labels.problem, ProblemType::kSingleLabel);
  EXPECT_THAT(class_labels.names, ElementsAre("Z", "a", "b"));
  EXPECT_THAT(Classes({"a", "b", "Z"}, class_labels), ElementsAre(1, 2, 0));
  EXPECT_THAT(Decide({"10", "9", "2"}).names, ElementsAre("2", "9", "10"));
  EXPECT_THAT(Classes({"10", "2"}, Decide({"10", "9", "2"})),
              ElementsAre(2, 0));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(Decide({"a", "a"}).names, ElementsAre("a"));
  EXPECT_THAT(
      warnings_,
      ElementsAre(
          "every row has the label \"a\": there is nothing to distinguish"));
}

// The order is that of run_glue.py for a column of integers and of
// run_classification.py for strings; spellings are never changed.
TEST_F(ClassLabelsTest, SpellingsAreNamesInTransformersOrder) {
  const auto names = [&](const char* json) {
    std::vector<LabelValue> values;
    for (const auto& value : nlohmann::ordered_json::parse(json)) {
      values.push_back(LabelFromJson(value));
    }
    return DecideClassLabels(values, Place, spec_, nullptr, head_, nullptr)
        ->names;
  };
  EXPECT_THAT(names("[10, 9, 2]"), ElementsAre("2", "9", "10"));
  EXPECT_THAT(names(R"(["10", "9", "2"])"), ElementsAre("10", "2", "9"));
  EXPECT_THAT(names(R"([10, 9, "a"])"), ElementsAre("10", "9", "a"));
  EXPECT_THAT(names("[true, false]"), ElementsAre("false", "true"));
  EXPECT_THAT(names(R"([["10", "9"], []])"), ElementsAre("10", "9"));
  EXPECT_THAT(Decide({"10", "01", "02"}).names, ElementsAre("01", "02", "10"));
  EXPECT_THAT(Decide({"7", "007"}).names, ElementsAre("007", "7"));
  spec_.label_names = {"+1", "-1"};
  EXPECT_THAT(Classes({"-1", "+1"}, Decide({"+1"})), ElementsAre(1, 0));
  spec_.label_names = {"no", "caf\u00e9"};
  const ClassLabels words = Decide({"cafe\u0301"});
  EXPECT_THAT(Classes({"caf\u00e9", "1", "0"}, words), ElementsAre(1, 1, 0));
  EXPECT_THAT(EncodeClassLabels(FromTexts({"01"}), Place, words),
              Says("\"01\" is not one of the labels"));
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
      EncodeClassLabels(FromTexts({"0"}), Place, Decide({"1"})),
      Says("x.csv:2: label: \"0\" is not one of the labels \"2\", \"1\""));
}

TEST_F(ClassLabelsTest, TheConfigNamesThemWhereAllAreItsOwn) {
  head_.label_names = {"positive", "negative", "neutral"};
  EXPECT_THAT(Decide({"negative", "positive"}).names,
              ElementsAre("positive", "negative", "neutral"));
  // In another case the ids are the config's too.
  const ClassLabels cased = Decide({"Negative", "Neutral", "Positive"});
  EXPECT_EQ(cased.names, head_.label_names);
  EXPECT_THAT(Classes({"Neutral", "neutral", "Positive"}, cased),
              ElementsAre(2, 2, 0));
  EXPECT_THAT(warnings_, IsEmpty());
  EXPECT_THAT(Decide({"negative", "odd", "positive"}).names,
              ElementsAre("negative", "odd", "positive"));
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("names its labels \"positive\", "
                                    "\"negative\", \"neutral\", and this job "
                                    "\"negative\", \"odd\", \"positive\"")));
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

TEST_F(ClassLabelsTest, TheLossIsAMeanOverRowsOrCellsThatWeighsEveryName) {
  const ClassLabels plain = Decide({"a", "b"});
  EXPECT_EQ(LossWeight(plain, ClassTargets{{0, 1}, {}}, {0, 1}), 2);
  const ClassLabels score = Decide({"1.5"});
  EXPECT_EQ(LossWeight(score, ClassTargets{{}, {1.5}}, {0}), 1);
  const ClassLabels tags = Decide({R"(["a", "b", "c"])"});
  EXPECT_EQ(LossWeight(tags, ClassTargets{{}, {1, 1, 1, 0, 0, 0}}, {0, 1}), 6);
  spec_.class_weights = {1, 3};
  const ClassLabels class_labels = Decide({"a", "b"});
  EXPECT_THAT(class_labels.weights, ElementsAre(1, 3));
  const auto encoded =
      EncodeClassLabels(FromTexts({"a", "b", "b"}), Place, class_labels);
  EXPECT_EQ(LossWeight(class_labels, *encoded, {0, 2}), 4);
  spec_.problem_type = ProblemType::kRegression;
  EXPECT_EQ(Error({"1"}),
            "classification.class_weights: a regression has no classes; leave "
            "it out");
}

TEST_F(ClassLabelsTest, ShowsTwentyNamesAtMost) {
  std::vector<std::string> many;
  for (int i = 0; i < 25; ++i) many.push_back(base::Cat("n", i + 10));
  EXPECT_THAT(EncodeClassLabels(FromTexts({"x"}), Place, Decide(many)),
              Says("\"n29\" and 5 more"));
}

class TextClassesTest : public ::testing::Test {
 protected:
  TextClassesTest() {
    rows_.files = {"x.csv"};
    rows_.hash = "abc";
    class_labels_.names = {"neg", "pos"};
    class_labels_.ids = {{"neg", 0}, {"pos", 1}};
  }
  void Add(const std::string& text, const std::string& pair,
           const std::string& label) {
    rows_.rows.push_back(
        {text, pair, 0, static_cast<int64_t>(rows_.rows.size()) + 2});
    rows_.label_values.push_back(LabelFromText(label));
  }
  std::unique_ptr<TextClasses> Encode(TextClassesOptions options) {
    return *EncodeTextClasses(rows_, class_labels_, *tokenizer_, options,
                              nullptr);
  }
  int64_t Id(const char* token) { return *tokenizer_->TokenToId(token); }

  const std::unique_ptr<text::Tokenizer> tokenizer_ =
      LoadTokenizer("wordpiece");
  LabelledTable rows_;
  ClassLabels class_labels_;
};

TEST_F(TextClassesTest, TokensAndTypesBeyondTheirTablesAreNamed) {
  Add("dog", "dog", "pos");
  Add("dog dog", "dog", "neg");
  rows_.pairs = true;
  TextClassesOptions options{.max_length = 16};
  const int64_t tokens = tokenizer_->vocab_size();
  options.tables = {tokens, 2};
  EXPECT_EQ(Encode(options)->size(), 2);
  const auto fault = [&](IdTables tables) {
    options.tables = tables;
    const auto encoded =
        EncodeTextClasses(rows_, class_labels_, *tokenizer_, options, nullptr);
    EXPECT_TRUE(absl::IsInvalidArgument(encoded.status()));
    return std::string(encoded.status().message());
  };
  EXPECT_THAT(fault({tokens, 1}),
              testing::AllOf(HasSubstr("x.csv:2: token 3 is of type 1"),
                             HasSubstr("x.csv:3: token 4 is of type 1")));
  EXPECT_THAT(fault({Id("dog"), 2}), HasSubstr("x.csv:2: token 1 is \"dog\""));
}

TEST_F(TextClassesTest, PadsToTheLongestRowsBucket) {
  Add("dog", "", "pos");
  std::string many;
  for (int i = 0; i < 40; ++i) many += "dog ";
  Add(many, "", "neg");
  const auto source = Encode({.max_length = 64, .pad_id = 9});
  const Batch alone = *source->Collate({{0}}, {});
  EXPECT_EQ(alone.length, 32);
  EXPECT_EQ(alone.tokens, 3);
  const std::vector<int64_t> begin(alone.input_ids.begin(),
                                   alone.input_ids.begin() + 4);
  EXPECT_THAT(begin, ElementsAre(Id("[CLS]"), Id("dog"), Id("[SEP]"), 9));
  const Batch both = *source->Collate({{1}, {0}}, {});
  EXPECT_EQ(both.length, 48);
  EXPECT_EQ(both.rows, 2);
  EXPECT_EQ(both.input_ids.size(), 96u);
  EXPECT_EQ(both.input_ids[48], Id("[CLS]"));
  EXPECT_THAT(both.lengths, ElementsAre(42, 3));
  EXPECT_THAT(both.samples, ElementsAre(1, 0));
  EXPECT_THAT(both.classes, ElementsAre(0, 1));
  EXPECT_THAT(both.token_type_ids, IsEmpty());
  EXPECT_THAT(both.targets, IsEmpty());
  EXPECT_EQ(both.loss_weight, 2);
  EXPECT_EQ(both.tokens, 45);
  EXPECT_FALSE(both.packed);
}

TEST_F(TextClassesTest, PairsHaveTypesWhereTheModelHas) {
  rows_.pairs = true;
  Add("dog", "the fox", "pos");
  Add("the dog", "dog", "neg");
  EXPECT_THAT(Encode({.max_length = 5})->Collate({{0}}, {})->token_type_ids,
              IsEmpty());
  const auto source = Encode({.max_length = 6, .token_types = true});
  const Batch batch = *source->Collate({{0}, {1}}, {});
  EXPECT_EQ(batch.length, 6);
  EXPECT_THAT(batch.token_type_ids,
              ElementsAre(0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1, 1));
  rows_.pairs = false;
  EXPECT_THAT(Encode({.max_length = 6, .token_types = true})
                  ->Collate({{0}}, {})
                  ->token_type_ids,
              IsEmpty());
}

TEST_F(TextClassesTest, CutsAndCounts) {
  Add("the dog the dog the dog", "", "pos");
  Add("dog", "", "neg");
  rows_.dropped_rows = 3;
  const auto source = Encode({.max_length = 5});
  EXPECT_EQ(source->size(), 2);
  EXPECT_EQ(source->length(0), 5);
  EXPECT_EQ(source->length(1), 3);
  EXPECT_EQ(source->stats().rows, 2);
  EXPECT_EQ(source->stats().tokens, 8);
  EXPECT_EQ(source->stats().truncated_rows, 1);
  EXPECT_EQ(source->stats().dropped_rows, 3);
  EXPECT_EQ(source->hash(), "abc");
  EXPECT_THAT(source->targets().classes, ElementsAre(1, 0));
}

TEST_F(TextClassesTest, TargetsOfRegressionAndSeveralLabels) {
  class_labels_.problem = spec::ProblemType::kRegression;
  class_labels_.names = {"LABEL_0"};
  Add("dog", "", "1.5");
  Add("fox", "", "-2");
  Batch batch = *Encode({.max_length = 8})->Collate({{1}, {0}}, {});
  EXPECT_THAT(batch.targets, ElementsAre(-2, 1.5));
  EXPECT_THAT(batch.classes, IsEmpty());
  EXPECT_EQ(batch.loss_weight, 2);

  class_labels_.problem = spec::ProblemType::kMultiLabel;
  class_labels_.names = {"neg", "pos"};
  rows_.label_values = {LabelFromText(R"(["pos"])"),
                        LabelFromText(R"(["pos", "neg"])")};
  batch = *Encode({.max_length = 8})->Collate({{0}, {1}}, {});
  EXPECT_THAT(batch.targets, ElementsAre(0, 1, 1, 1));
  EXPECT_EQ(batch.loss_weight, 4);
}

TEST_F(TextClassesTest, WithoutLabelsThereIsNoLoss) {
  Add("dog", "", "pos");
  rows_.label_values.clear();
  const auto source = Encode({.max_length = 8});
  EXPECT_FALSE(source->has_class_labels());
  const Batch batch = *source->Collate({{0}}, {});
  EXPECT_THAT(batch.classes, IsEmpty());
  EXPECT_EQ(batch.loss_weight, 0);
}

TEST_F(TextClassesTest, HowManyThreadsThereAreChangesNothing) {
  rows_.pairs = true;
  for (int i = 0; i < 2000; ++i) {
    std::string text = "dog";
    for (int k = 0; k < i * 31 % 17; ++k) text += " fox";
    Add(text, "the " + text, i % 3 == 0 ? "neg" : "pos");
  }
  TextClassesOptions options{.max_length = 19, .token_types = true};
  options.threads = 1;
  const auto one = Encode(options);
  options.threads = 4;
  const auto four = Encode(options);
  ASSERT_EQ(one->size(), 2000);
  EXPECT_GT(one->stats().truncated_rows, 100);
  EXPECT_EQ(four->stats(), one->stats());
  for (int64_t i = 0; i < one->size(); ++i) {
    const Batch a = *one->Collate({{i}}, {}), b = *four->Collate({{i}}, {});
    ASSERT_EQ(a.input_ids, b.input_ids) << i;
    ASSERT_EQ(a.token_type_ids, b.token_type_ids) << i;
    ASSERT_EQ(a.classes, b.classes) << i;
  }
}

TEST_F(TextClassesTest, HowManyThreadsThereAreChangesNoError) {
  for (int i = 0; i < 2000; ++i) {
    Add(i % 300 == 299 ? "\xff" : "dog", "", "pos");
  }
  std::string one;
  for (const int threads : {1, 4}) {
    const auto encoded = EncodeTextClasses(rows_, class_labels_, *tokenizer_,
                                           {.threads = threads}, nullptr);
    const std::string message(encoded.status().message());
    EXPECT_THAT(message, ::testing::StartsWith("x.csv:301: "));
    EXPECT_THAT(message, ::testing::HasSubstr("\nx.csv:1501: "));
    EXPECT_THAT(message, ::testing::Not(::testing::HasSubstr("x.csv:1801")));
    if (threads == 1) one = message;
    EXPECT_EQ(message, one);
  }
}

class LabelledTableTest : public DataFolder {
 protected:
  LabelledTable Read(const std::vector<std::string>& files,
                     LabelUse use = LabelUse::kRequired) {
    return ReadLabelledTable(files, dataset_, use).value();
  }
  // The only row of a file with `bytes`: "text|pair|label".
  std::string TheOnlyRow(const std::string& name, const std::string& bytes) {
    const LabelledTable rows = Read({Write(name, bytes)});
    if (rows.rows.size() != 1) return "not one row";
    return rows.rows[0].text + "|" + (rows.pairs ? rows.rows[0].pair : "-") +
           "|" + rows.label_values[0].text;
  }

  spec::DatasetSpec dataset_;
};

TEST_F(LabelledTableTest, FindsTheUsualColumnsAndThoseThatTheJobNames) {
  EXPECT_EQ(TheOnlyRow("a.csv", "id,sentence1,sentence2,label\n7,x,y,1\n"),
            "x|y|1");
  EXPECT_EQ(TheOnlyRow("b.csv", "sentence,label\nx,1\n"), "x|-|1");
  EXPECT_EQ(TheOnlyRow("c.csv", "label,text\n1,x\n"), "x|-|1");
  EXPECT_EQ(TheOnlyRow("d.csv", "text,sentence,label\nno,x,1\n"), "x|-|1");
  EXPECT_EQ(TheOnlyRow("e.jsonl", R"({"text": "x", "label": 1, "more": {}})"),
            "x|-|1");
  dataset_.text_columns = {"headline", "body"};
  dataset_.label_column = "topic";
  EXPECT_EQ(TheOnlyRow("a.csv", "topic,body,headline,label\nsport,y,x,no\n"),
            "x|y|sport");
  dataset_.text_columns = {"body"};
  EXPECT_EQ(TheOnlyRow("b.tsv", "body\ttopic\nx\tnews\n"), "x|-|news");
}

TEST_F(LabelledTableTest, KnowsEveryLayoutOfGlue) {
  struct Case {
    const char* task;
    const char* original;
    const char* renamed;  // as Hugging Face's data set has it
    const char* expected;
  };
  for (const Case& c : std::vector<Case>{
           {"cola", "gj04\t1\t*\tx\n", "sentence,label,idx\nx,1,0\n", "x|-|1"},
           {"sst2", "sentence\tlabel\nx\t1\n", "sentence,label,idx\nx,1,0\n",
            "x|-|1"},
           {"mrpc",
            "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t2\t3\tx\ty\n",
            "sentence1,sentence2,label,idx\nx,y,1,0\n", "x|y|1"},
           {"stsb",
            "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\t"
            "sentence1\tsentence2\tscore\n"
            "0\tg\tf\t2012\t1\tn\tn\tx\ty\t2.500\n",
            "sentence1,sentence2,label,idx\nx,y,2.500,0\n", "x|y|2.500"},
           {"qqp",
            "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n"
            "1\t2\t3\tx\ty\t1\n",
            "question1,question2,label,idx\nx,y,1,0\n", "x|y|1"},
           {"mnli",
            "index\tpromptID\tpairID\tgenre\tsentence1_binary_parse\t"
            "sentence2_binary_parse\tsentence1_parse\tsentence2_parse\t"
            "sentence1\tsentence2\tlabel1\tgold_label\n"
            "0\t1\t2\tg\t(\t(\t(\t(\tx\ty\tneutral\tentailment\n",
            "premise,hypothesis,label,idx\nx,y,entailment,0\n",
            "x|y|entailment"},
           {"qnli",
            "index\tquestion\tsentence\tlabel\n0\tx\ty\tnot_entailment\n",
            "question,sentence,label,idx\nx,y,not_entailment,0\n",
            "x|y|not_entailment"},
           {"rte", "index\tsentence1\tsentence2\tlabel\n0\tx\ty\tentailment\n",
            "sentence1,sentence2,label,idx\nx,y,entailment,0\n",
            "x|y|entailment"},
           {"wnli", "index\tsentence1\tsentence2\tlabel\n0\tx\ty\t1\n",
            "sentence1,sentence2,label,idx\nx,y,1,0\n", "x|y|1"}}) {
    dataset_.task_name = c.task;
    EXPECT_EQ(TheOnlyRow("train.tsv", c.original), c.expected) << c.task;
    EXPECT_EQ(TheOnlyRow("train.csv", c.renamed), c.expected) << c.task;
  }
  EXPECT_EQ(spec::GlueTaskNames().size(), 9u);
}

TEST_F(LabelledTableTest, KeepsTheOrderOfFilesAndKnowsPlaces) {
  const std::string first = Write("a.csv", "text,label\nx,0\n\ny,1\n");
  const std::string second = Write("b.jsonl", R"({"text": "z", "label": "0"})");
  const LabelledTable rows = Read({first, second});
  ASSERT_EQ(rows.rows.size(), 3u);
  EXPECT_EQ(rows.rows[2].text, "z");
  EXPECT_EQ(rows.Place(1), first + ":4");
  EXPECT_EQ(rows.places()(2), second + ":1");
  EXPECT_EQ(rows.hash, base::Sha256Hex("text,label\nx,0\n\ny,1\n"
                                       "{\"text\": \"z\", \"label\": \"0\"}"));
  const std::string known = Write("a.csv", "text,label\nx,0\n");
  EXPECT_EQ(Read({known}, LabelUse::kOptional).label_values.size(), 1u);
  for (const char* bytes :
       {"text\nx\n", "text,label\nx,0\ny,-1\n", "text,label\nx,\n"}) {
    const std::string file = Write("b.csv", bytes);
    EXPECT_THAT(Read({known, file}, LabelUse::kOptional).label_values,
                IsEmpty());
  }
}

TEST_F(LabelledTableTest, GlueFilesKeepEmptyTextsAndDropRaggedRows) {
  dataset_.task_name = "rte";
  const LabelledTable rows =
      Read({Write("a.tsv",
                  "index\tsentence1\tsentence2\tlabel\n"
                  "0\tx\t\tentailment\n1\tx\n2\ta\tb\tnot_entailment\n")});
  EXPECT_EQ(rows.rows.size(), 2u);
  EXPECT_EQ(rows.dropped_rows, 1);
  EXPECT_EQ(rows.rows[0].pair, "");
  const auto none = ReadLabelledTable(
      {Write("b.tsv", "index\tsentence1\tsentence2\tlabel\n0\tx\n")}, dataset_,
      LabelUse::kRequired);
  EXPECT_EQ(none.status().message(),
            Path("b.tsv") + ": no row has every column of the task");
}

struct Job {
  std::string task = "";
  std::vector<std::string> text_columns = {};
  std::optional<ProblemType> problem = std::nullopt;
  std::vector<std::string> label_names = {};
  std::vector<double> class_weights = {};
};

struct BadCase {
  std::string what;
  std::string file;
  std::string bytes;
  std::string message;
  Job job = {};
  // Read against these labels of the training data, where there are.
  std::string train = "";
};

constexpr char kGood[] = "text,label\nx,a\ny,b\n";

std::vector<BadCase> Cases() {
  const std::string nul("text,label\nx\0,a\n", 16);
  const std::string multi_hot =
      "label: a list of a 0 or 1 for each label; expected a list of the labels "
      "that apply, by name or id: write [\"a\", \"c\"], or [0, 2], for [1, 0, "
      "1]";
  const std::string no_label =
      "rows have -1 or -100, which mean \"no label\"; remove these rows, or "
      "list all names in classification.label_names if it is the name of a "
      "class";
  const auto kSingle = ProblemType::kSingleLabel;
  const auto kRegression = ProblemType::kRegression;
  return {
      {"AnotherKind", "x.xlsx", kGood,
       "@ is an Excel file, which mpsd does not read: convert it to JSON "
       "Lines, e.g. with pandas: pandas.read_excel(\"x.xlsx\").to_json("
       "\"x.jsonl\", orient=\"records\", lines=True)"},
      {"WrongExtension", "x.data", kGood,
       "@: expected a file named .csv, .tsv, .txt (tabs) or .jsonl"},
      {"EmptyCsv", "x.csv", "",
       "@: the file is empty; expected a line with the names of the columns, "
       "and rows"},
      {"BlankCsv", "x.csv", "\xEF\xBB\xBF\r\n\n",
       "@: the file is empty; expected a line with the names of the columns, "
       "and rows"},
      {"EmptyJsonLines", "x.jsonl", "\n",
       "@: the file is empty; expected a JSON object a line, or an "
       "array of them"},
      {"HeaderOnly", "x.tsv", "text\tlabel\n",
       "@: the file has a header line and no rows"},
      {"MissingTextColumn", "x.csv", "tweet,label\nx,a\n",
       "@: expected the text in \"sentence1\" and \"sentence2\", or "
       "\"sentence\", or \"text\"; the columns are \"tweet\", \"label\": set "
       "dataset.text_columns"},
      {"MissingNamedColumn",
       "x.csv",
       kGood,
       "@: expected the text in \"headline\" and \"body\"; the columns are "
       "\"text\", \"label\": set dataset.text_columns",
       {.text_columns = {"headline", "body"}}},
      {"MissingTaskColumn",
       "x.tsv",
       "sentence\tlabel\nx\t1\n",
       "@: expected the text in \"#1 String\" and \"#2 String\", or "
       "\"sentence1\" and \"sentence2\", or \"premise\" and \"hypothesis\"; "
       "the columns are \"sentence\", \"label\": set dataset.text_columns",
       {.task = "mrpc"}},
      {"SemicolonsForCommas", "x.csv", "text;label\nx;a\n",
       "@:1: the columns seem to be separated by \";\"; expected commas: save "
       "the file as .csv with commas or as .tsv with tabs"},
      {"ALineForExcel", "x.csv", "sep=,\ntext,label\nx,a\n",
       "@:1: a line for Excel, not the names of the columns; remove it, and "
       "separate the columns by commas"},
      {"MultiHot", "x.jsonl", R"({"text": "x", "label": [1, 0, 1]})",
       "@:1: " + multi_hot},
      {"MultiHotOfTwo", "x.csv", "text,label\nx,\"[1, 0]\"\ny,\"[0, 1]\"\n",
       "@:2: " + multi_hot},
      {"MultiHotToEvaluate",
       "x.jsonl",
       R"({"text": "x", "label": [0, 0, 1]})",
       "@:1: " + multi_hot,
       {.problem = ProblemType::kMultiLabel, .label_names = {"a", "b", "c"}},
       "text,label\nx,\"[\"\"a\"\"]\"\n"},
      {"NoLabels", "x.csv", "text,label\nx,0\ny,-1\nz,1\nz,-100\n",
       "@:3: label: 2 of 4 " + no_label},
      {"NoLabelToEvaluate",
       "x.csv",
       "text,label\nx,-1\n",
       "@:2: label: 1 of 1 " + no_label,
       {},
       kGood},
      {"IntegerBeyond64Bits", "x.jsonl",
       R"({"text": "x", "label": 18446744073709551616})",
       "@:1: label: expected a class name or an integer, found "
       "1.8446744073709552e+19; for numbers set classification.problem_type "
       "to \"regression\""},
      {"MissingLabelColumn", "x.csv", "text,class\nx,a\n",
       "@: expected the label in \"label\"; the columns are \"text\", "
       "\"class\": set dataset.label_column"},
      {"MissingTaskLabel",
       "x.tsv",
       "id\tquestion1\tquestion2\n1\tx\ty\n",
       "@: expected the label in \"is_duplicate\" or \"label\"; the columns "
       "are \"id\", \"question1\", \"question2\": set dataset.label_column",
       {.task = "qqp"}},
      {"DuplicateColumns", "x.csv", "text,label,text\nx,a,y\n",
       "@:1: the column \"text\" appears twice; give every column its own "
       "name"},
      {"RaggedRows", "x.csv", "text,label\nx,a\ny, z,b\nlone\n",
       "@:3: expected 2 columns as in the header, found 3; quote fields that "
       "hold commas or line breaks\n"
       "@:4: expected 2 columns as in the header, found 1; quote fields that "
       "hold commas or line breaks"},
      {"RaggedTsv", "x.tsv", "text\tlabel\nx\ta\tb\n",
       "@:2: expected 2 columns as in the header, found 3; quote fields that "
       "hold tabs or line breaks"},
      {"UnclosedQuote", "x.csv", "text,label\n\"x,a\ny,b\n",
       "@:2: a quoted field is not closed; end it with a quote, and write a "
       "quote within it twice"},
      {"TextAfterAQuote", "x.csv", "text,label\n\"x\" he said,a\n",
       "@:2: text after the closing quote of a field; write a quote within a "
       "quoted field twice, and quote the whole field"},
      {"NulBytes", "x.csv", nul,
       "@:2: a NUL byte is not text; save the file as UTF-8"},
      {"InvalidUtf8", "x.csv", "text,label\nx,a\ncaf\xE9,b\n",
       "@:3: not UTF-8; save the file as UTF-8"},
      {"Utf16", "x.csv", "\xFF\xFEt", "@:1: not UTF-8; save the file as UTF-8"},
      {"NoJson", "x.jsonl", "{\"text\": \"x\", \"label\": 1}\ntext,label\n",
       "@:2: not valid JSON: syntax error while parsing value - …"},
      {"NoObject", "x.jsonl", "[1]\n", "@:1: expected an object, found 1"},
      {"EmptyText", "x.csv", "text,label\nx,a\n,b\n",
       "@:3: text: expected a text, found an empty string"},
      {"NullText", "x.jsonl", R"({"text": null, "label": 1})",
       "@:1: text: expected a text, found nothing"},
      {"TextMissingInARow", "x.jsonl",
       "{\"text\": \"x\", \"label\": 1}\n{\"label\": 1}\n",
       "@:2: text: expected a text, found nothing"},
      {"NumberForText", "x.jsonl", R"({"text": 7, "label": 1})",
       "@:1: text: expected a text, found 7"},
      {"EmptyLabel", "x.csv", "text,label\nx,a\ny,\n",
       "@:3: label: expected a class name or an integer, found nothing"},
      {"LabelMissingInARow", "x.jsonl",
       "{\"text\": \"x\", \"label\": 1}\n{\"text\": \"y\"}\n",
       "@:2: label: expected a class name or an integer, found nothing"},
      {"UnknownLabel",
       "x.csv",
       "text,label\nx,c\n",
       "@:2: label: \"c\" is not one of the labels \"a\", \"b\"",
       {},
       kGood},
      {"UnknownId",
       "x.csv",
       "text,label\nx,3\n",
       "@:2: label: \"3\" is not one of the labels \"a\", \"b\"",
       {},
       kGood},
      {"LabelNamesWithoutOne",
       "x.csv",
       kGood,
       "@:3: label: \"b\" is not one of the labels \"a\", \"c\"",
       {.label_names = {"a", "c"}}},
      {"LabelNamesTwice",
       "x.csv",
       kGood,
       "classification.label_names: \"a\" appears twice; expected each name "
       "once",
       {.label_names = {"a", "a"}}},
      {"ClassWeightsOfAnotherCount",
       "x.csv",
       kGood,
       "classification.class_weights: expected 2 numbers, for the labels "
       "\"a\", \"b\" in this order, found 3",
       {.class_weights = {1, 2, 3}}},
      {"FractionForAClass",
       "x.csv",
       "text,label\nx,1\ny,0.5\n",
       "@:3: label: expected a class name or an integer, found 0.5; for "
       "numbers set classification.problem_type to \"regression\"",
       {.problem = kSingle}},
      {"FractionAmongNames", "x.csv", "text,label\nx,a\ny,0.5\n",
       "@:3: label: expected a class name or an integer, found 0.5; for "
       "numbers set classification.problem_type to \"regression\""},
      {"WordInARegression",
       "x.csv",
       "text,label\nx,1.5\ny,high\n",
       "@:3: label: expected a finite number, found \"high\"; for classes set "
       "classification.problem_type to \"single_label_classification\"",
       {.problem = kRegression}},
      {"NanInARegression", "x.csv", "text,label\nx,1.5\ny,nan\nz,-inf\n",
       "@:3: label: expected a finite number, found nan\n"
       "@:4: label: expected a finite number, found -inf"},
      {"NumberBeyondFloat",
       "x.jsonl",
       R"({"text": "x", "label": 1e39})",
       "@:1: label: expected a finite number, found 1e+39",
       {.problem = kRegression}},
      {"ListForAClass",
       "x.jsonl",
       R"({"text": "x", "label": ["a", "b"]})",
       "@:1: label: expected a class name or an integer, found a list; for "
       "several labels per row set classification.problem_type to "
       "\"multi_label_classification\"",
       {.problem = kSingle}},
      {"ClassAmongLists", "x.jsonl",
       "{\"text\": \"x\", \"label\": [\"a\"]}\n"
       "{\"text\": \"y\", \"label\": \"b\"}\n",
       "@:2: label: expected a list of label names, empty if none applies, "
       "found \"b\""},
      {"ObjectForALabel", "x.jsonl", R"({"text": "x", "label": {"a": 1}})",
       "@:1: label: expected a class name or an integer, found an object"},
      {"ManyBadRows", "x.csv", "text,label\n,a\n,a\n,a\n,a\n,a\n,a\n",
       "@:2: text: expected a text, found an empty string\n"
       "@:3: the same\n"
       "@:4: the same\n"
       "@:5: the same\n"
       "@:6: the same\n"
       "(reading stopped at 5 bad rows)"},
  };
}

class BadTextDataTest : public DataFolder {
 protected:
  absl::StatusOr<ClassLabels> Decide(const LabelledTable& rows,
                                     const Job& job) {
    spec::ClassificationSpec spec;
    spec.problem_type = job.problem;
    spec.label_names = job.label_names;
    spec.class_weights = job.class_weights;
    return DecideClassLabels(rows.label_values, rows.places(), spec,
                             spec::FindGlueTask(job.task), {}, nullptr);
  }

  // What the trainer does with a file.
  absl::Status Load(const BadCase& c) {
    spec::DatasetSpec dataset;
    dataset.task_name = c.job.task;
    dataset.text_columns = c.job.text_columns;
    const auto rows = ReadLabelledTable({Write(c.file, c.bytes)}, dataset,
                                        LabelUse::kRequired);
    if (!rows.ok()) return rows.status();
    absl::StatusOr<ClassLabels> class_labels;
    if (c.train.empty()) {
      class_labels = Decide(*rows, c.job);
    } else {
      const auto train = ReadLabelledTable({Write("train.csv", c.train)},
                                           dataset, LabelUse::kRequired);
      class_labels = Decide(*train, c.job);
    }
    if (!class_labels.ok()) return class_labels.status();
    const auto tokenizer = LoadTokenizer("wordpiece");
    return EncodeTextClasses(*rows, *class_labels, *tokenizer, {}, nullptr)
        .status();
  }
};

TEST_F(BadTextDataTest, SaysWhereAndWhatToDo) {
  for (const BadCase& c : Cases()) {
    SCOPED_TRACE(c.what);
    const absl::Status status = Load(c);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    std::string expected =
        absl::StrReplaceAll(c.message, {{"@", Path(c.file)}});
    std::string found(status.message());
    const size_t open = expected.find("…");
    if (open != std::string::npos) {
      expected.resize(open);
      found.resize(std::min(found.size(), open));
    }
    EXPECT_EQ(found, expected);
  }
}

TEST_F(BadTextDataTest, FilesMustAgreeOnTheirTextsAndAreNamed) {
  const std::string one = Write("one.csv", kGood);
  const std::string two =
      Write("two.csv", "sentence1,sentence2,label\nx,y,a\n");
  EXPECT_EQ(
      ReadLabelledTable({one, two}, {}, LabelUse::kRequired).status().message(),
      two + ": has 2 text columns and " + one +
          " 1; set dataset.text_columns to columns that every file has");
  const std::string pairs =
      Write("train.csv", "sentence1,sentence2,label\nx,y,a\n");
  const std::string single = Write("test.csv", "sentence\nx\n");
  const auto train = *ReadLabelledTable({pairs}, {}, LabelUse::kRequired);
  EXPECT_EQ(ReadLabelledTable({single}, {}, LabelUse::kOptional, &train)
                .status()
                .message(),
            single + ": has 1 text columns and " + pairs +
                " 2; set dataset.text_columns to columns that every file has");
  EXPECT_TRUE(ReadLabelledTable({pairs}, {}, LabelUse::kOptional, &train).ok());
  EXPECT_EQ(ReadLabelledTable({}, {}, LabelUse::kRequired).status().message(),
            "dataset: expected at least one file");
  EXPECT_THAT(ReadLabelledTable({Path("none.csv")}, {}, LabelUse::kRequired),
              Fails(absl::StatusCode::kNotFound, Path("none.csv")));
}

}  // namespace
}  // namespace mpsd::data
