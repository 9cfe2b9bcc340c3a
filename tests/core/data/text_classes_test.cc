// SPDX-License-Identifier: Apache-2.0
#include "core/data/text_classes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "core/data/loader.h"
#include "core/data/split.h"
#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
    auto encoded =
        EncodeTextClasses(rows_, class_labels_, *tokenizer_, options, nullptr);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    return *std::move(encoded);
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
    EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
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

TEST_F(TextClassesTest, ClassWeightsAreTheMeansDenominator) {
  class_labels_.weights = {0.5, 2};
  Add("dog", "", "pos");
  Add("fox", "", "neg");
  const auto source = Encode({.max_length = 8});
  EXPECT_EQ(source->Collate({{0}, {1}}, {})->loss_weight, 2.5);
  EXPECT_EQ(source->Collate({{1}}, {})->loss_weight, 0.5);
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

TEST_F(TextClassesTest, NamesTheRowOfAnUnknownLabel) {
  Add("dog", "", "pos");
  Add("fox", "", "odd");
  const auto encoded =
      EncodeTextClasses(rows_, class_labels_, *tokenizer_, {}, nullptr);
  EXPECT_EQ(encoded.status().message(),
            "x.csv:3: label: \"odd\" is none of the labels \"neg\", \"pos\"");
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

TEST_F(TextClassesTest, ReportsProgressUpToOne) {
  for (int i = 0; i < 30; ++i) Add("dog", "", "pos");
  std::vector<double> seen;
  ASSERT_TRUE(EncodeTextClasses(rows_, class_labels_, *tokenizer_, {},
                                [&](double share) { seen.push_back(share); })
                  .ok());
  EXPECT_GT(seen.size(), 10u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_EQ(seen.back(), 1);
}

TEST_F(TextClassesTest, ALoaderGoesOverEveryRowOfASubsetOnce) {
  for (int i = 0; i < 7; ++i) Add("dog", "", i % 2 == 0 ? "pos" : "neg");
  const std::shared_ptr<const Source> all = Encode({.max_length = 8});
  const Subset odd(all, {1, 3, 5});
  Loader loader(odd, {.batch_size = 2});
  ASSERT_EQ(loader.steps_per_epoch(), 2);
  std::vector<int64_t> samples;
  for (int step = 0; step < 2; ++step) {
    const auto batches = loader.NextStep();
    ASSERT_TRUE(batches.ok());
    for (const Batch& batch : *batches) {
      for (const int64_t id : batch.classes) EXPECT_EQ(id, 0);
      samples.insert(samples.end(), batch.samples.begin(), batch.samples.end());
    }
  }
  std::sort(samples.begin(), samples.end());
  EXPECT_THAT(samples, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace mpsd::data
