// SPDX-License-Identifier: Apache-2.0
#include "core/data/labelled_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/sha256.h"
#include "tests/core/data/data_folder.h"

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LabelledTableTest : public DataFolder {
 protected:
  LabelledTable Read(const std::vector<std::string>& files,
                     LabelUse use = LabelUse::kRequired) {
    auto rows = ReadLabelledTable(files, dataset_, use);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.value_or(LabelledTable());
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

TEST_F(LabelledTableTest, FindsTheUsualColumns) {
  EXPECT_EQ(TheOnlyRow("a.csv", "id,sentence1,sentence2,label\n7,x,y,1\n"),
            "x|y|1");
  EXPECT_EQ(TheOnlyRow("b.csv", "sentence,label\nx,1\n"), "x|-|1");
  EXPECT_EQ(TheOnlyRow("c.csv", "label,text\n1,x\n"), "x|-|1");
  EXPECT_EQ(TheOnlyRow("d.csv", "text,sentence,label\nno,x,1\n"), "x|-|1");
  EXPECT_EQ(TheOnlyRow("e.jsonl", R"({"text": "x", "label": 1, "more": {}})"),
            "x|-|1");
}

TEST_F(LabelledTableTest, TakesTheColumnsThatTheJobNames) {
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
}

TEST_F(LabelledTableTest, LabelsOfWhatIsPredictedMayBeAbsent) {
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

}  // namespace
}  // namespace mpsd::data
