// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "nlohmann/json.hpp"
#include "tests/core/text/folders.h"

namespace mpsd::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  auto tokenizer = Tokenizer::FromFolder(TestData(name));
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return *std::move(tokenizer);
}

// encodings.json holds what Python's tokenizers made of the same texts.
void ExpectGolden(const std::string& folder) {
  const auto tokenizer = Load(folder);
  int cases = 0;
  for (const auto& c : ReadJson(TestData("encodings.json"))) {
    if (c["folder"] != folder) continue;
    const std::string text = c["text"];
    SCOPED_TRACE(text);
    const auto encoding = tokenizer->Encode(text, c["special"]);
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    EXPECT_EQ(nlohmann::ordered_json(encoding->ids), c["ids"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding->offsets), c["offsets"]);
    EXPECT_EQ(*tokenizer->EncodeIds(text, c["special"]), encoding->ids);
    EXPECT_EQ(*tokenizer->Decode(encoding->ids, false),
              c["decoded"].get<std::string>());
    EXPECT_EQ(*tokenizer->Decode(encoding->ids, true),
              c["skipped"].get<std::string>());
    ++cases;
  }
  EXPECT_EQ(cases, 36);
}

TEST(TokenizerGolden, ByteLevelBpe) { ExpectGolden("bpe"); }
TEST(TokenizerGolden, WordPiece) { ExpectGolden("wordpiece"); }
TEST(TokenizerGolden, Unigram) { ExpectGolden("unigram"); }
TEST(TokenizerGolden, Roberta) { ExpectGolden("roberta"); }

// classifier.json holds what Transformers made of the same texts and pairs.
TEST(TokenizerGolden, TextsAndPairsOfClassifiers) {
  TemporaryFolder left;
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  for (const char* name : {"bpe", "wordpiece", "unigram", "roberta"}) {
    tokenizers[std::string(name) + "/right"] = Load(name);
    auto config = ReadJson(TestData(name) + "/tokenizer_config.json");
    config["truncation_side"] = "left";
    left.Write(std::string(name) + "/tokenizer_config.json", config.dump());
    std::filesystem::copy_file(TestData(name) + "/tokenizer.json",
                               left.path() + "/" + name + "/tokenizer.json");
    tokenizers[std::string(name) + "/left"] =
        *Tokenizer::FromFolder(left.path() + "/" + name);
  }
  int cases = 0;
  for (const auto& c : ReadJson(TestData("classifier.json"))) {
    SCOPED_TRACE(c.dump());
    const std::string text = c["text"];
    const std::string pair = c["pair"].is_null() ? "" : c["pair"];
    std::optional<std::string_view> second;
    if (!c["pair"].is_null()) second = pair;
    const std::string folder = c["folder"], side = c["side"];
    const auto encoding = tokenizers[folder + "/" + side]->EncodeForClassifier(
        text, second, c["max_length"]);
    ASSERT_TRUE(encoding.ok()) << encoding.status();
    EXPECT_EQ(nlohmann::ordered_json(encoding->ids), c["ids"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding->type_ids), c["types"]);
    EXPECT_EQ(encoding->truncated, c["truncated"]);
    ++cases;
  }
  EXPECT_EQ(cases, 420);
}

TEST(TokenizerTest, PairsHaveTypesWithoutAPostProcessorToo) {
  TemporaryFolder folder;
  auto json = ReadJson(TestData("bpe/tokenizer.json"));
  json["post_processor"] = nullptr;
  folder.Write("tokenizer.json", json.dump());
  const auto tokenizer = *Tokenizer::FromFolder(folder.path());
  const auto encoding =
      tokenizer->EncodeForClassifier("hello world", "hello hello", 3);
  ASSERT_TRUE(encoding.ok());
  EXPECT_THAT(encoding->type_ids, ::testing::ElementsAre(0, 1, 1));
  EXPECT_TRUE(encoding->truncated);
}

TEST(TokenizerTest, WhatIsNotReadCountsAsCut) {
  const auto tokenizer = Load("bpe");
  EXPECT_TRUE(tokenizer->EncodeForClassifier("hello hello", std::nullopt, 1)
                  ->truncated);
  EXPECT_FALSE(
      tokenizer->EncodeForClassifier("hello", std::nullopt, 1)->truncated);
}

TEST(TokenizerTest, ALengthWithoutRoomIsRefused) {
  const auto tokenizer = Load("wordpiece");
  EXPECT_TRUE(tokenizer->EncodeForClassifier("a", "b", 4).ok());
  for (const int64_t length : {-1, 0, 3}) {
    EXPECT_THAT(std::string(tokenizer->EncodeForClassifier("a", "b", length)
                                .status()
                                .message()),
                HasSubstr("leaves no room beside 3 special tokens"));
  }
  EXPECT_EQ(
      tokenizer->EncodeForClassifier("\xff", std::nullopt, 9).status().code(),
      absl::StatusCode::kInvalidArgument);
}

TEST(TokenizerTest, KnowsItsSpecialTokens) {
  const auto tokenizer = Load("bpe");
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->TokenToId("<|end|>"));
  EXPECT_EQ(tokenizer->pad_id(), 3);
  EXPECT_EQ(tokenizer->TokenToId("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer->has_chat_template());
  EXPECT_FALSE(Load("unigram")->has_chat_template());
}

TEST(TokenizerTest, AddsTheSpecialTokensThatTokenizerJsonLacks) {
  const auto tokenizer = Load("bpe");
  EXPECT_EQ(tokenizer->TokenToId("<|extra|>"), tokenizer->vocab_size() - 1);
  const auto unigram = Load("unigram");
  EXPECT_EQ(unigram->TokenToId("snowman"), unigram->vocab_size() - 1);
}

TEST(TokenizerTest, IgnoresStoredTruncationAndPadding) {
  const auto encoding =
      Load("bpe")->Encode("hello hello hello hello hello", true);
  ASSERT_TRUE(encoding.ok());
  EXPECT_GT(encoding->ids.size(), 4u);
  EXPECT_LT(encoding->ids.size(), 32u);
}

TEST(TokenizerTest, OffsetsAreWholeCharactersInBytes) {
  const std::string text = "a\xf0\x9f\x91\x8d";  // A letter and one emoji.
  const auto encoding = Load("bpe")->Encode(text, false);
  ASSERT_TRUE(encoding.ok());
  ASSERT_GT(encoding->offsets.size(), 1u);
  EXPECT_EQ(encoding->offsets.front(), std::make_pair(size_t{0}, size_t{1}));
  EXPECT_EQ(encoding->offsets.back(), std::make_pair(size_t{1}, size_t{5}));
}

TEST(TokenizerTest, ServesManyThreads) {
  const auto tokenizer = Load("bpe");
  const auto expected = tokenizer->Encode("the quick brown fox", false);
  ASSERT_TRUE(expected.ok());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto got = tokenizer->Encode("the quick brown fox", false);
        if (!got.ok() || got->ids != expected->ids) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8) {
  const auto encoding = Load("bpe")->Encode("ab\xff", false);
  EXPECT_EQ(encoding.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(encoding.status().message()),
              HasSubstr("not UTF-8 after byte 2"));
  EXPECT_EQ(Load("bpe")->EncodeIds("ab\xff", false).status(),
            encoding.status());
}

TEST(TokenizerTest, RefusesNegativeIds) {
  const auto text = Load("bpe")->Decode({4, -100}, false);
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(text.status().message()),
              AllOf(HasSubstr("-100"), HasSubstr("at 1")));
}

TEST(TokenizerTest, DecodesIdsBeyondTheVocabularyToNothing) {
  EXPECT_THAT(*Load("bpe")->Decode({1000000}, false), IsEmpty());
}

TEST(TokenizerTest, AFolderWithoutATokenizerIsNotFound) {
  const TemporaryFolder folder;
  const auto tokenizer = Tokenizer::FromFolder(folder.path());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(tokenizer.status().message()),
              HasSubstr("tokenizer.json"));
}

TEST(TokenizerTest, NamesTheFileThatIsBroken) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json", "{\"model\": ");
  const auto tokenizer = Tokenizer::FromFolder(folder.path());
  EXPECT_EQ(tokenizer.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(tokenizer.status().message()),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("line 1")));
}

// As tokenizers.json of old have it: the library tells by what is there.
TEST(TokenizerTest, ReadsAModelThatDoesNotSayItsKind) {
  for (const char* name : {"bpe", "wordpiece", "unigram"}) {
    const TemporaryFolder folder;
    auto json = ReadJson(TestData(std::string(name) + "/tokenizer.json"));
    EXPECT_EQ(json["model"].erase("type"), 1u);
    folder.Write("tokenizer.json", json.dump());
    const auto tokenizer = Tokenizer::FromFolder(folder.path());
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    const char text[] = "the quick brown fox";
    EXPECT_EQ(*(*tokenizer)->EncodeIds(text, true),
              *Load(name)->EncodeIds(text, true));
  }
}

TEST(TokenizerTest, SaysWhatIsWrongWithAModel) {
  const TemporaryFolder folder;
  auto json = ReadJson(TestData("bpe/tokenizer.json"));
  json["model"]["merges"].push_back({"nowhere", "nothing"});
  folder.Write("tokenizer.json", json.dump());
  const absl::Status status = Tokenizer::FromFolder(folder.path()).status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("tokenizer.json"), HasSubstr("nowhere")));
}

TEST(TokenizerTest, SplitsSpecialTokensWhereTheFolderAsksForIt) {
  const TemporaryFolder folder;
  folder.Write("tokenizer.json",
               *base::ReadFile(TestData("bpe/tokenizer.json")));
  EXPECT_EQ((*Tokenizer::FromFolder(folder.path()))
                ->Encode("<|end|>", false)
                ->ids.size(),
            1u);
  folder.Write("tokenizer_config.json", "{\"split_special_tokens\": true}");
  EXPECT_GT((*Tokenizer::FromFolder(folder.path()))
                ->Encode("<|end|>", false)
                ->ids.size(),
            1u);
}

}  // namespace
}  // namespace mpsd::text
