// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_dataset.h"

#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <set>
#include <thread>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "core/base/text.h"
#include "core/data/token_cache.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"

namespace mpsd::data {
namespace {

class LoadTokenDatasetTest : public DataFolder {
 protected:
  absl::StatusOr<TokenDataset> Load(const std::vector<std::string>& files,
                                    TokenizeOptions options = {
                                        .max_length = 64}) {
    return LoadTokenDataset(files, options, *tokenizer_, template_.get(),
                            nullptr);
  }
  std::string Error(const std::vector<std::string>& files,
                    TokenizeOptions options = {.max_length = 64}) {
    const auto dataset = Load(files, options);
    EXPECT_TRUE(absl::IsInvalidArgument(dataset.status()));
    return std::string(dataset.status().message());
  }

  const std::unique_ptr<text::Tokenizer> tokenizer_ = LoadTokenizer();
  const std::unique_ptr<text::ChatTemplate> template_ = LoadTemplate();
};

TEST_F(LoadTokenDatasetTest, ReadsFilesInOrder) {
  const std::string a =
      Write("a.jsonl", "{\"text\": \"hello\"}\n{\"text\": \"the\"}");
  const std::string b =
      Write("b.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"world\"}]}\n");
  const auto dataset = Load({a, b}).value();
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_EQ(*tokenizer_->Decode(dataset.sample(0).input_ids, false),
            "hello<|end|>");
  EXPECT_EQ(*tokenizer_->Decode(dataset.sample(2).input_ids, false),
            "<|user|>world<|end|>");
  EXPECT_EQ(dataset.stats().rows, 3);
  int64_t tokens = 0;
  for (size_t i = 0; i < 3; ++i) {
    tokens += dataset.sample(i).input_ids.size();
  }
  EXPECT_EQ(dataset.stats().tokens, tokens);
  EXPECT_EQ(dataset.stats().label_tokens, tokens - 3);
  EXPECT_EQ(dataset.stats().dropped_rows, 0);
  EXPECT_EQ(dataset.hash(),
            base::Sha256Hex("{\"text\": \"hello\"}\n{\"text\": \"the\"}"
                            "{\"messages\": [{\"role\": \"user\", "
                            "\"content\": \"world\"}]}\n"));
}

TEST_F(LoadTokenDatasetTest, AJsonArrayIsAsItsRowsInLines) {
  const std::string rows[] = {
      R"({"text": "hello"})", R"({"prompt": "the", "completion": " dog"})",
      R"({"conversations": [{"from": "human", "value": "a]},"},
          {"from": "gpt", "value": "b"}]})"};
  std::string lines = rows[0] + "\n" + rows[1] + "\n";
  for (char c : rows[2]) lines += c == '\n' ? ' ' : c;
  const auto expected = Load({Write("a.jsonl", lines)});
  const auto dataset =
      Load({Write("a.json", "\xEF\xBB\xBF [\n" + rows[0] + "\n,\n" + rows[1] +
                                ", " + rows[2] + "]\n")});
  ASSERT_TRUE(expected.ok()) << expected.status();
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  ASSERT_EQ(dataset->size(), expected->size());
  for (int64_t i = 0; i < dataset->size(); ++i) {
    EXPECT_EQ(dataset->sample(i), expected->sample(i));
  }
}

TEST_F(LoadTokenDatasetTest, NamesTheLineOfABadRowInAnArray) {
  const std::string array =
      Write("a.json",
            "[\n  {\"text\": \"a\"},\n  {\n    \"tex\": 1\n  },\n"
            "  7,\n  {\"text\": 2}\n  {}\n]");
  EXPECT_EQ(Error({array}),
            array +
                ":3: expected \"prompt\" and \"completion\", \"messages\", "
                "\"text\", \"instruction\" and \"output\", or \"question\" "
                "and \"answer\", found \"tex\"; name other columns in "
                "dataset.messages_column, dataset.prompt_column and "
                "dataset.completion_column, or dataset.text_columns\n" +
                array + ":6: expected an object, found 7\n" + array +
                ":8: expected \",\" or \"]\" after a row of the array");
  EXPECT_THAT(Error({Write("b.json", "[]")}), HasSubstr("has no rows"));
}

TEST_F(LoadTokenDatasetTest, NamesFileLineAndReasonOfFiveBadRows) {
  const std::string path = Write("x.jsonl",
                                 "{\"text\": \"hello\"}\n\n{\"text\": 3}\r\n"
                                 "{\"messages\": []}\n");
  EXPECT_EQ(Error({path}),
            path + ":3: text: expected a string, found 3\n" + path +
                ":4: messages: expected a non-empty list of messages, found an "
                "empty list");
  std::string rows;
  for (int i = 0; i < 9; ++i) rows += "{}\n";
  const std::string error = Error({Write("x.jsonl", rows)});
  EXPECT_THAT(error, HasSubstr("x.jsonl:1: expected"));
  EXPECT_THAT(error, HasSubstr("x.jsonl:5: the same\n"));
  EXPECT_THAT(error, ::testing::Not(HasSubstr("x.jsonl:6:")));
  EXPECT_THAT(error, HasSubstr("\n(reading stopped at 5 bad rows)"));
}

TEST_F(LoadTokenDatasetTest, NamesRowsWithTokensThatTheModelLacks) {
  const std::string file =
      Write("a.jsonl",
            "{\"text\": \"the\"}\n{\"text\": \"hello\"}\n\n"
            "{\"text\": \"the hello\"}");
  TokenizeOptions options{.max_length = 64};
  options.tables.tokens = tokenizer_->vocab_size();
  EXPECT_TRUE(Load({file}, options).ok());
  options.tables.tokens = *tokenizer_->TokenToId("hello");
  const std::string error = Error({file}, options);
  EXPECT_THAT(error,
              StartsWith(file + ":2: token 0 is \"hello\" with the id "));
  EXPECT_THAT(error, HasSubstr("\n" + file + ":4: token "));
  // What is cut off is never looked up.
  options.max_length = 2;
  const std::string cut = Write("b.jsonl", "{\"text\": \"the hello\"}");
  const auto dataset = Load({cut}, options).value();
  EXPECT_EQ(dataset.stats().truncated_rows, 1);
}

TEST_F(LoadTokenDatasetTest, NamesTheRowThatTheTemplateRefuses) {
  const std::string path =
      Write("x.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}\n"
            "{\"messages\": [{\"role\": \"king\", \"content\": \"hello\"}]}\n");
  const auto strict = MakeTemplate(
      "{% if messages[0].role == 'king' %}{{ raise_exception('no kings') }}"
      "{% endif %}hello hello");
  EXPECT_THAT(LoadTokenDataset({path}, {.max_length = 8}, *tokenizer_,
                               strict.get(), nullptr),
              Says(::testing::AllOf(
                  StartsWith(path + ":2: the chat template rejected it: "),
                  HasSubstr("no kings"))));
}

TEST_F(LoadTokenDatasetTest, RefusesEmptyFiles) {
  const std::string full = Write("full.jsonl", "{\"text\": \"hello\"}\n");
  for (const char* bytes : {"", "\n \r\n", "\xEF\xBB\xBF"}) {
    const std::string path = Write("empty.jsonl", bytes);
    EXPECT_EQ(Error({full, path}),
              path +
                  ": the file has no rows; expected JSON lines with "
                  "\"messages\", \"prompt\" and \"completion\", or "
                  "\"text\"");
  }
  EXPECT_EQ(Error({}), "dataset: expected at least one file");
  EXPECT_TRUE(absl::IsNotFound(Load({Path("absent.jsonl")}).status()));
}

TEST_F(LoadTokenDatasetTest, NamesKindsThatAreNotRead) {
  for (const auto& [name, bytes, says] :
       {std::tuple{"a.parquet", "x",
                   "a.parquet is Parquet, which mpsd does not "
                   "read: convert it to JSON Lines, e.g. with pandas: "
                   "pandas.read_parquet(\"a.parquet\").to_json(\"a.jsonl\", "
                   "orient=\"records\", lines=True)"},
        {"part-0", "PAR1", "part-0 is Parquet, "},
        {"a.arrow", "x", "pandas.read_feather("},
        {"a.xlsx", "PK\x03\x04", "pandas.read_excel("},
        {"a.csv", "\x1F\x8B", "a.csv is compressed by gzip, "},
        {"a.zip", "x", "a ZIP archive, which mpsd does not read: unpack it"},
        {"a.txt", "text\nx\n", "write each text as a line {"}}) {
    EXPECT_THAT(Error({Write(name, bytes)}), HasSubstr(says));
  }
}

// What each table would be as JSON.
TEST_F(LoadTokenDatasetTest, ReadsTablesAsTheSameRowsOfJson) {
  struct Case {
    const char *name, *table, *json;
    LanguageRowFormat rows = {};
  };
  std::string many = "text\n", many_rows;
  for (int i = 0; i < 5000; ++i) {
    many += base::Cat("hello ", i, "\n");
    many_rows += base::Cat("{\"text\": \"hello ", i, "\"}\n");
  }
  const Case cases[] = {
      {"a.csv",
       "id,prompt,completion\n1,hello,world\n2,\"a, b\",\"c\n\"\"d\"\n",
       R"([{"prompt": "hello", "completion": "world"},
           {"prompt": "a, b", "completion": "c\n\"d"}])"},
      {"a.tsv", "\xEF\xBB\xBFquestion\tanswer\r\nhello\tworld, all\r\n",
       R"({"question": "hello", "answer": "world, all"})"},
      {"A.CSV", "instruction,input,output\nhello,,world\na,b,c\n",
       R"([{"instruction": "hello", "output": "world"},
           {"instruction": "a", "input": "b", "output": "c"}])"},
      {"a.csv",
       "q,a\nhello,world\n",
       R"({"prompt": "hello", "completion": "world"})",
       {.prompt_column = "q", .completion_column = "a"}},
      {"a.csv", many.c_str(), many_rows.c_str()}};
  for (const Case& c : cases) {
    const std::string path = Write(c.name, c.table);
    const auto table =
        Load({path}, {.max_length = 512, .threads = 3, .rows = c.rows});
    const auto json = Load({Write("x.jsonl", c.json)}, {.max_length = 512});
    ASSERT_TRUE(table.ok()) << table.status();
    ASSERT_TRUE(json.ok()) << json.status();
    EXPECT_EQ(table->TokenDigest(), json->TokenDigest()) << c.table;
    EXPECT_EQ(table->hash(), *base::Sha256File(path));
  }
}

TEST_F(LoadTokenDatasetTest, NamesTheLineOfATablesFault) {
  for (const auto& [table, says] :
       {std::pair{"q,a\nx,y\nz,w\n", ":2: expected \"prompt\" and "},
        {"q,a\nx,y\nz,w\n", "a.csv:3: the same"},
        {"prompt,completion\nhello,world\n\nx,\n",
         ":4: expected \"prompt\" and \"completion\", "},
        {"prompt,completion\nx\n", ":2: expected 2 columns as in the header"},
        {"prompt,completion\n", ": the file has a header line and no rows"}}) {
    EXPECT_THAT(Error({Write("a.csv", table)}), HasSubstr(says));
  }
}

TEST_F(LoadTokenDatasetTest, CutsAtTheRightAndDropsRowsWithoutLabels) {
  const std::string path = Write(
      "x.jsonl",
      "{\"prompt\": \"hello\", \"completion\": \" world world\"}\n"
      "{\"prompt\": \"hello hello hello hello hello\", \"completion\": \"x\"}\n"
      "{\"prompt\": \"hello\", \"completion\": \"\"}\n");
  const auto whole = Load({path}).value();
  EXPECT_EQ(whole.size(), 3);
  const int64_t cut = whole.sample(2).input_ids.size();
  const auto dataset = *Load({path, Write("empty.jsonl", "{\"text\": \"\"}\n")},
                             {.max_length = cut});
  EXPECT_EQ(dataset.size(), 2);
  EXPECT_EQ(dataset.stats().rows, 2);
  EXPECT_EQ(dataset.stats().truncated_rows, 2);
  EXPECT_EQ(dataset.stats().dropped_rows, 2);
  TokenSample expected = whole.sample(0);
  expected.input_ids.resize(cut);
  expected.in_loss.resize(cut);
  EXPECT_EQ(dataset.sample(0), expected);
}

TEST_F(LoadTokenDatasetTest, RefusesADataSetWithoutLabels) {
  const std::string cut =
      Write("cut.jsonl",
            "{\"prompt\": \"hello hello hello\", \"completion\": \"x\"}"
            "\n{\"prompt\": \"hello hello\", \"completion\": \"x\"}\n");
  EXPECT_EQ(Error({cut}, {.max_length = 2}),
            cut +
                ": there is nothing to learn: every label of all 2 rows is "
                "masked; 2 of them had labels only after the 2 tokens of "
                "max_length: raise it or shorten the prompts");
  const std::string users =
      Write("users.jsonl",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hello\"}]}\n");
  EXPECT_EQ(Error({users}, {.max_length = 64, .assistant_only_loss = true}),
            users +
                ": there is nothing to learn: every label of all 1 rows is "
                "masked; assistant_only_loss found no assistant tokens: "
                "look at the roles and at the {% generation %} blocks of "
                "the chat template");
  const std::string single = Write("single.jsonl", "{\"text\": \"<|end|>\"}\n");
  EXPECT_THAT(Error({single}), HasSubstr("or a single token"));
}

TEST_F(LoadTokenDatasetTest,
       CountsPromptsAndThoseThatMergeWithTheirCompletion) {
  EXPECT_EQ(Load({Write("x.jsonl",
                        "{\"prompt\": \"th\", \"completion\": \"e dog\"}\n"
                        "{\"prompt\": \"the\", \"completion\": \" dog\"}\n")})
                ->stats()
                .prompt_mismatch_rows,
            1);
  const auto dataset =
      *Load({Write("x.jsonl",
                   "{\"text\": \"the dog\"}\n"
                   "{\"prompt\": \"the\", \"completion\": \" dog\"}\n"
                   "{\"instruction\": \"the\", \"output\": \"dog\"}\n")},
            {.max_length = 512});
  EXPECT_EQ(dataset.stats().rows, 3);
  EXPECT_EQ(dataset.stats().prompt_rows, 2);
}

// Rows of every kind and length, some of them bad where `bad` says so.
std::string MixedRows(int count, const std::function<bool(int)>& bad) {
  std::string rows;
  for (int i = 0; i < count; ++i) {
    std::string text = "dog " + std::to_string(i);
    for (int k = 0; k < i * 7919 % 97; ++k) text += " the fox";
    const std::string n = std::to_string(i);
    if (bad(i)) {
      rows += "{\"text\": " + n + "}\n";
    } else if (i % 5 == 0) {
      rows += "{\"prompt\": \"th\", \"completion\": \"e " + text + "\"}\r\n";
    } else if (i % 5 == 1) {
      rows += "\n{\"text\": \"\"}\n";
    } else if (i % 5 == 2) {
      rows += "{\"messages\": [{\"role\": \"user\", \"content\": \"" + n +
              "\"}, {\"role\": \"assistant\", \"content\": \"" + text +
              "\"}]}\n";
    } else {
      rows += "{\"text\": \"" + text + "\"}\n";
    }
  }
  return rows;
}

TEST_F(LoadTokenDatasetTest, HowManyThreadsThereAreChangesNothing) {
  const std::string rows = MixedRows(3000, [](int) { return false; });
  const std::vector<std::string> files = {
      Write("a.jsonl", rows), Write("b.jsonl", "{\"text\": \"the end\"}"),
      Write("c.jsonl", rows)};
  const auto one = Load(files, {.max_length = 40, .threads = 1}).value();
  ASSERT_GT(one.stats().truncated_rows, 100);
  ASSERT_GT(one.stats().dropped_rows, 100);
  ASSERT_GT(one.stats().prompt_mismatch_rows, 100);
  for (const int threads : {0, 2, 5}) {
    const auto many = *Load(files, {.max_length = 40, .threads = threads});
    ASSERT_EQ(many.size(), one.size());
    for (int64_t i = 0; i < one.size(); ++i) {
      ASSERT_EQ(many.sample(i), one.sample(i)) << i;
    }
    EXPECT_EQ(many.hash(), one.hash());
    EXPECT_EQ(many.stats(), one.stats());
  }
}

TEST_F(LoadTokenDatasetTest, HowManyThreadsThereAreChangesNoError) {
  const std::vector<std::function<bool(int)>> kinds = {
      [](int i) { return i == 2900; },
      [](int i) { return i % 700 == 3; },
      [](int i) { return i > 1500; },
      [](int) { return true; },
  };
  for (size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::vector<std::string> files = {
        Write("a.jsonl", MixedRows(100, [](int) { return false; })),
        Write("b.jsonl", MixedRows(3000, kinds[kind]))};
    const std::string one = Error(files, {.max_length = 40, .threads = 1});
    for (const int threads : {2, 5}) {
      EXPECT_EQ(Error(files, {.max_length = 40, .threads = threads}), one)
          << kind;
    }
  }
}

TEST_F(LoadTokenDatasetTest, ARowLongerThanAPieceIsOneRow) {
  std::string text;
  while (text.size() < 300'000) text += "the dog ";
  const auto dataset =
      *Load({Write("x.jsonl", "{\"text\": \"hello\"}\n{\"text\": \"" + text +
                                  "\"}\n{\"text\": \"dog\"}\n")},
            {.max_length = 1'000'000, .threads = 3});
  ASSERT_EQ(dataset.size(), 3);
  EXPECT_GT(dataset.length(1), 50'000);
}

TEST_F(LoadTokenDatasetTest, ReportsProgressUpToOne) {
  std::string rows;
  for (int i = 0; i < 50; ++i) rows += "{\"text\": \"hello\"}\n";
  std::vector<double> seen;
  ASSERT_THAT(
      LoadTokenDataset({Write("x.jsonl", rows)}, {.max_length = 8}, *tokenizer_,
                       nullptr, [&](double share) { seen.push_back(share); }),
      IsOk());
  EXPECT_GT(seen.size(), 10u);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_GT(seen.front(), 0);
  EXPECT_EQ(seen.back(), 1);
}

constexpr int64_t kPlenty = 1 << 20;
const TokenizeOptions kOptions = {.max_length = 16, .pad_id = 3};

TokenDataset Made() {
  DatasetStats stats;
  stats.rows = 3;
  stats.tokens = 17;
  stats.label_tokens = 14;
  stats.truncated_rows = 4;
  stats.dropped_rows = 5;
  stats.prompt_mismatch_rows = 6;
  stats.prompt_rows = 7;
  auto samples = CountingSamples({5, 8, 4});
  samples[1].in_loss[2] = 0;
  return TokenDataset(TokenArrays(samples), kOptions, stats, "the hash");
}

void ExpectMade(const TokenDataset& found) {
  const TokenDataset made = Made();
  ASSERT_EQ(found.size(), made.size());
  for (int64_t i = 0; i < made.size(); ++i) {
    EXPECT_EQ(found.sample(i), made.sample(i));
  }
  EXPECT_EQ(found.hash(), "the hash");
  EXPECT_EQ(found.stats(), made.stats());
}

TEST(TokenCacheTest, EveryBrokenByteIsNoticed) {
  const TokenCache cache(FreshFolder("broken"), kPlenty);
  ASSERT_TRUE(cache.Put("a", Made()).ok());
  const std::string whole = *base::ReadFile(cache.PathOf("a"));
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string bytes = whole;
    bytes[at] ^= 0x20;
    ASSERT_TRUE(base::WriteFileAtomic(cache.PathOf("a"), bytes).ok());
    EXPECT_TRUE(absl::IsDataLoss(cache.Find("a", kOptions).status())) << at;
  }
  for (size_t size : {size_t{0}, size_t{5}, whole.size() - 1}) {
    ASSERT_TRUE(
        base::WriteFileAtomic(cache.PathOf("a"), whole.substr(0, size)).ok());
    EXPECT_FALSE(cache.Find("a", kOptions).ok()) << size;
  }
}

// No accident makes these, and nothing that is read may leave the file.
TEST(TokenCacheTest, AWrongFileWithARightDigestStaysWithinItself) {
  const TokenCache cache(FreshFolder("forged"), kPlenty);
  ASSERT_TRUE(cache.Put("a", Made()).ok());
  std::string whole = *base::ReadFile(cache.PathOf("a"));
  whole.resize(whole.size() - 64);
  for (size_t at = 0; at + 4 <= whole.size(); at += 2) {
    for (const char byte : {'\x00', '\x7f', '\xff', '9'}) {
      std::string bytes = whole;
      bytes.replace(at, 4, std::string(4, byte));
      bytes += base::Sha256Hex(bytes);
      std::ofstream(cache.PathOf("a"), std::ios::binary) << bytes;
      const auto found = cache.Find("a", kOptions);
      if (!found.ok()) continue;
      ASSERT_EQ((*found)->samples().tokens(), 17) << at;
      for (int64_t i = 0; i < (*found)->size(); ++i) (*found)->sample(i);
    }
  }
}

// Several blocks of every array.
TEST(TokenCacheTest, LargeArraysAreLeftInTheirFile) {
  const TokenCache cache(FreshFolder("large"), int64_t{1} << 30);
  std::vector<TokenSample> samples = CountingSamples({300'001, 1, 400'000});
  for (size_t i = 0; i < 300'001; i += 3) samples[0].in_loss[i] = 0;
  const TokenDataset large(TokenArrays(samples), kOptions, {}, "h");
  ASSERT_TRUE(cache.Put("a", large).ok());
  const auto found = cache.Find("a", kOptions);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  // Gone by name, there as long as it is used.
  fs::remove(cache.PathOf("a"));
  for (int64_t i = 0; i < 3; ++i) EXPECT_EQ((*found)->sample(i), samples[i]);
  EXPECT_EQ((*found)->stats().tokens, 700'002);
}

TEST(TokenCacheTest, AFileOfAnotherKeyIsBroken) {
  const TokenCache cache(FreshFolder("moved"), kPlenty);
  ASSERT_TRUE(cache.Put("a", Made()).ok());
  fs::rename(cache.PathOf("a"), cache.PathOf("b"));
  EXPECT_FALSE(cache.Find("b", kOptions).ok());
}

TEST(TokenCacheTest, DropsWhatWasLongestUnused) {
  const fs::path folder = FreshFolder("bounded");
  ASSERT_TRUE(TokenCache(folder, kPlenty).Put("size", Made()).ok());
  const auto size = static_cast<int64_t>(
      fs::file_size(TokenCache(folder, kPlenty).PathOf("size")));
  fs::remove(TokenCache(folder, kPlenty).PathOf("size"));
  const TokenCache cache(folder, 2 * size + size / 2);
  const auto age = [&](const char* key, int hours) {
    fs::last_write_time(cache.PathOf(key), fs::file_time_type::clock::now() -
                                               std::chrono::hours(hours));
  };
  for (const char* key : {"a", "b"}) ASSERT_TRUE(cache.Put(key, Made()).ok());
  age("a", 9);
  age("b", 5);
  ASSERT_TRUE(cache.Find("a", kOptions)->has_value());  // now used last
  ASSERT_TRUE(cache.Put("c", Made()).ok());
  EXPECT_TRUE(cache.Find("a", kOptions)->has_value());
  EXPECT_FALSE(cache.Find("b", kOptions)->has_value());
  EXPECT_TRUE(cache.Find("c", kOptions)->has_value());
}

TEST(TokenCacheTest, WhatIsLargerThanAllMayBeIsNotBegun) {
  // Not even a folder is made.
  const fs::path folder = FreshFolder("small") / "cache";
  const TokenCache cache(folder, 10);
  EXPECT_TRUE(cache.Put("a", Made()).ok());
  EXPECT_FALSE(cache.Find("a", kOptions)->has_value());
  EXPECT_FALSE(fs::exists(folder));
}

TEST(TokenCacheTest, WhatKilledProcessesLeftIsRemoved) {
  const TokenCache cache(FreshFolder("litter"), kPlenty);
  const fs::path old = base::TemporaryBeside(cache.PathOf("old"));
  const fs::path young = base::TemporaryBeside(cache.PathOf("young"));
  for (const fs::path& path : {old, young}) std::ofstream(path) << "half";
  fs::last_write_time(old,
                      fs::file_time_type::clock::now() - std::chrono::hours(2));
  ASSERT_TRUE(cache.Put("a", Made()).ok());
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(young));  // another process may be writing it
}

class LoadCachedTest : public testing::Test {
 protected:
  LoadCachedTest() {
    fs::copy(
        ModelFolder("bpe"), model_,
        fs::copy_options::recursive | fs::copy_options::overwrite_existing);
    Write("{\"text\": \"one two\"}\n{\"text\": \"three\"}\n");
  }
  void Write(const std::string& rows) {
    ASSERT_TRUE(base::WriteFileAtomic(data_, rows).ok());
  }
  std::string Key(const TokenizeOptions& options = kOptions) {
    return *TokenKey({data_.string()}, model_, options);
  }
  absl::StatusOr<TokenDataset> Tokenize() const {
    return LoadTokenDataset({data_.string()}, kOptions, *tokenizer_, nullptr,
                            nullptr);
  }
  absl::StatusOr<TokenDataset> Load() {
    warning_.clear();
    loads_ = 0;
    return LoadCachedTokens(
        {data_.string()}, kOptions, model_, cache_,
        [this] {
          ++loads_;
          return Tokenize();
        },
        [this](const std::string& text) { warning_ = text; });
  }
  // The one file of the cache.
  fs::path Kept() { return TokenCache(cache_, kPlenty).PathOf(Key()); }

  const fs::path model_ = FreshFolder("token_model");
  const fs::path cache_ = FreshFolder("token_cache");
  const fs::path data_ = FreshFolder("token_data") / "train.jsonl";
  const std::unique_ptr<text::Tokenizer> tokenizer_ = LoadTokenizer();
  std::string warning_;
  int loads_ = 0;
};

TEST_F(LoadCachedTest, TheKeyIsOfAllThatDecidesTokens) {
  const std::string key = Key();
  EXPECT_EQ(Key(), key);
  std::vector<TokenizeOptions> others(3, kOptions);
  others[0].max_length = 17;
  others[1].assistant_only_loss = false;
  others[2].text_id = "the job's own template";
  for (const LanguageRowFormat& rows :
       {LanguageRowFormat{.messages_column = "x"},
        LanguageRowFormat{.prompt_column = "x"},
        LanguageRowFormat{.completion_column = "x"},
        LanguageRowFormat{.text_column = "x"},
        LanguageRowFormat{.format = "x"}}) {
    others.push_back(kOptions);
    others.back().rows = rows;
  }
  std::set<std::string> keys = {key};
  for (const TokenizeOptions& other : others) {
    EXPECT_TRUE(keys.insert(Key(other)).second);
  }
  ASSERT_TRUE(
      base::WriteFileAtomic(model_ / "chat_template.jinja", "{{ x }}").ok());
  const std::string with_template = Key();
  EXPECT_NE(with_template, key);
  Write("{\"text\": \"one two\"}\n");
  EXPECT_NE(Key(), with_template);
}

TEST_F(LoadCachedTest, TokenizesOnce) {
  ASSERT_THAT(Load(), IsOk());
  EXPECT_EQ(loads_, 1);
  ASSERT_TRUE(fs::exists(Kept()));
  // Something else in its place shows that it is what is read.
  ASSERT_TRUE(TokenCache(cache_, kPlenty).Put(Key(), Made()).ok());
  ExpectMade(*Load());
  EXPECT_EQ(loads_, 0);
  EXPECT_EQ(warning_, "");
}

TEST_F(LoadCachedTest, PaddingIsOfTheDataThatAreKept) {
  TokenizeOptions options = kOptions;
  options.pad_id = 77;
  for (int i = 0; i < 2; ++i) {
    const auto made = *LoadCachedTokens(
        {data_.string()}, {.max_length = 16}, model_, cache_,
        [&] {
          EXPECT_EQ(i, 0);
          return LoadTokenDataset({data_.string()}, options, *tokenizer_,
                                  nullptr, nullptr);
        },
        [](const std::string& text) { ADD_FAILURE() << text; });
    EXPECT_EQ(made.pad_id(), 77);
    const Batch batch = *made.Collate({{0}}, {});
    EXPECT_EQ(batch.input_ids.back(), 77);
  }
}

TEST_F(LoadCachedTest, ABrokenFileIsMadeAgainWithAWarning) {
  ASSERT_TRUE(Load().ok());
  ASSERT_TRUE(base::WriteFileAtomic(Kept(), "rubbish").ok());
  EXPECT_EQ(Load()->size(), 2);
  EXPECT_THAT(warning_, HasSubstr("is broken"));
  EXPECT_TRUE(Load().ok());
  EXPECT_EQ(warning_, "");
}

TEST_F(LoadCachedTest,
       AFolderThatCannotBeWrittenCostsAWarningAndBadDataAreSaid) {
  fs::remove_all(cache_);
  ASSERT_TRUE(base::WriteFileAtomic(cache_, "a file").ok());
  EXPECT_TRUE(Load().ok());
  EXPECT_THAT(warning_, HasSubstr("not cached"));
  Write("{\"text\": 3}\n");
  EXPECT_THAT(Load(), Says("train.jsonl:1:"));
}

// As a disk that fills up in the middle of a file.
TEST_F(LoadCachedTest, ADiskThatIsFullCostsAWarning) {
  std::string rows;
  for (int i = 0; i < 9000; ++i) rows += "{\"text\": \"one two three\"}\n";
  Write(rows);
  struct rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  struct rlimit small = before;
  small.rlim_cur = 100'000;
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto made = Load();
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  signal(SIGXFSZ, handler);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size(), 9000);
  EXPECT_THAT(warning_, HasSubstr("not cached"));
  EXPECT_TRUE(fs::is_empty(cache_));
}

TEST_F(LoadCachedTest, TwoAtOnceBothHaveTheData) {
  std::vector<std::thread> threads;
  std::vector<int64_t> sizes(4);
  for (int64_t& size : sizes) {
    threads.emplace_back([this, &size] {
      const auto made = *LoadCachedTokens(
          {data_.string()}, kOptions, model_, cache_,
          [this] { return Tokenize(); },
          [](const std::string& text) { ADD_FAILURE() << text; });
      size = made.size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sizes, std::vector<int64_t>(4, 2));
  EXPECT_TRUE(fs::exists(Kept()));
  EXPECT_EQ(std::distance(fs::directory_iterator(cache_), {}), 1);
}

}  // namespace
}  // namespace mpsd::data
