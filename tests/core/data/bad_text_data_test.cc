// SPDX-License-Identifier: Apache-2.0
// What a user is told about data that cannot be trained on: every case with its
// whole message. "@" stands for the file's path, "…" for what a library says.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "absl/strings/str_replace.h"
#include "core/data/class_labels.h"
#include "core/data/labelled_table.h"
#include "core/data/text_classes.h"
#include "tests/core/data/data_folder.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::data {
namespace {

using spec::ProblemType;
using testing_support::Fails;

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
  const auto kSingle = ProblemType::kSingleLabel;
  const auto kRegression = ProblemType::kRegression;
  return {
      {"WrongExtension", "x.xlsx", kGood,
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
       "@: expected the text in \"sentence1\" and \"sentence2\", or "
       "\"sentence\", or \"text\"; the columns are \"text;label\": set "
       "dataset.text_columns"},
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
      {"TextBehindAQuote", "x.csv", "text,label\n\"x\" he said,a\n",
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
      {"NumberBeyondFloat", "x.jsonl", R"({"text": "x", "label": 1e39})",
       "@:1: label: expected a finite number, found 1e+39"},
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
       "@:3: text: expected a text, found an empty string\n"
       "@:4: text: expected a text, found an empty string\n"
       "@:5: text: expected a text, found an empty string\n"
       "@:6: text: expected a text, found an empty string\n"
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
