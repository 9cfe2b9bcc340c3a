// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <chrono>
#include <fstream>
#include <set>
#include <thread>

#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "tests/core/data/model_folder.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::data {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing_support::FreshFolder;

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
  EXPECT_EQ(found.stats().rows, 3);
  EXPECT_EQ(found.stats().tokens, 17);
  EXPECT_EQ(found.stats().label_tokens, 14);
  EXPECT_EQ(found.stats().truncated_rows, 4);
  EXPECT_EQ(found.stats().dropped_rows, 5);
  EXPECT_EQ(found.stats().prompt_mismatch_rows, 6);
  EXPECT_EQ(found.stats().prompt_rows, 7);
}

TEST(TokenCacheTest, FindsWhatWasPut) {
  const TokenCache cache(FreshFolder("cache"), kPlenty);
  EXPECT_FALSE(cache.Find("a", kOptions)->has_value());
  ASSERT_TRUE(cache.Put("a", Made()).ok());
  const auto found = cache.Find("a", kOptions);
  ASSERT_TRUE(found.ok() && found->has_value()) << found.status();
  ExpectMade(**found);
  EXPECT_FALSE(cache.Find("b", kOptions)->has_value());
}

TEST(TokenCacheTest, EveryBrokenByteIsNoticed) {
  const TokenCache cache(FreshFolder("broken"), kPlenty);
  ASSERT_TRUE(cache.Put("a", Made()).ok());
  const std::string whole = *base::ReadFile(cache.PathOf("a"));
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string bytes = whole;
    bytes[at] ^= 0x20;
    ASSERT_TRUE(base::WriteFileAtomic(cache.PathOf("a"), bytes).ok());
    EXPECT_EQ(cache.Find("a", kOptions).status().code(),
              absl::StatusCode::kDataLoss)
        << at;
  }
  for (size_t size : {size_t{0}, size_t{5}, whole.size() - 1}) {
    ASSERT_TRUE(
        base::WriteFileAtomic(cache.PathOf("a"), whole.substr(0, size)).ok());
    EXPECT_FALSE(cache.Find("a", kOptions).ok()) << size;
  }
}

// What nobody's accident makes, and nothing that is read may leave the file.
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
  TokenizeOptions other = kOptions;
  other.max_length = 17;
  EXPECT_NE(Key(other), key);
  other = kOptions;
  other.assistant_only_loss = false;
  EXPECT_NE(Key(other), key);
  other = kOptions;
  other.text_id = "the job's own template";
  EXPECT_NE(Key(other), key);
  std::set<std::string> keys = {key};
  for (const LanguageRowFormat& rows :
       {LanguageRowFormat{.messages_column = "x"},
        LanguageRowFormat{.prompt_column = "x"},
        LanguageRowFormat{.completion_column = "x"},
        LanguageRowFormat{.text_column = "x"},
        LanguageRowFormat{.format = "x"}}) {
    other = kOptions;
    other.rows = rows;
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
  const auto made = Load();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(loads_, 1);
  ASSERT_TRUE(fs::exists(Kept()));
  // Something else in its place shows that it is what is read.
  ASSERT_TRUE(TokenCache(cache_, kPlenty).Put(Key(), Made()).ok());
  const auto read = Load();
  ASSERT_TRUE(read.ok()) << read.status();
  ExpectMade(*read);
  EXPECT_EQ(loads_, 0);
  EXPECT_EQ(warning_, "");
}

TEST_F(LoadCachedTest, PaddingIsOfTheDataThatAreKept) {
  TokenizeOptions options = kOptions;
  options.pad_id = 77;
  for (int i = 0; i < 2; ++i) {
    const auto made = LoadCachedTokens(
        {data_.string()}, {.max_length = 16}, model_, cache_,
        [&] {
          EXPECT_EQ(i, 0);
          return LoadTokenDataset({data_.string()}, options, *tokenizer_,
                                  nullptr, nullptr);
        },
        [](const std::string& text) { ADD_FAILURE() << text; });
    ASSERT_TRUE(made.ok()) << made.status();
    EXPECT_EQ(made->pad_id(), 77);
    const Batch batch = *made->Collate({{0}}, {});
    EXPECT_EQ(batch.input_ids.back(), 77);
  }
}

TEST_F(LoadCachedTest, ABrokenFileIsMadeAgainWithAWarning) {
  ASSERT_TRUE(Load().ok());
  ASSERT_TRUE(base::WriteFileAtomic(Kept(), "rubbish").ok());
  const auto made = Load();
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->size(), 2);
  EXPECT_THAT(warning_, HasSubstr("is broken"));
  EXPECT_TRUE(Load().ok());
  EXPECT_EQ(warning_, "");
}

TEST_F(LoadCachedTest, AFolderThatCannotBeWrittenCostsAWarning) {
  fs::remove_all(cache_);
  ASSERT_TRUE(base::WriteFileAtomic(cache_, "a file").ok());
  EXPECT_TRUE(Load().ok());
  EXPECT_THAT(warning_, HasSubstr("not kept"));
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
  EXPECT_THAT(warning_, HasSubstr("not kept"));
  EXPECT_TRUE(fs::is_empty(cache_));
}

TEST_F(LoadCachedTest, TwoAtOnceBothHaveTheData) {
  std::vector<std::thread> threads;
  std::vector<int64_t> sizes(4);
  for (int64_t& size : sizes) {
    threads.emplace_back([this, &size] {
      const auto made = LoadCachedTokens(
          {data_.string()}, kOptions, model_, cache_,
          [this] { return Tokenize(); },
          [](const std::string& text) { ADD_FAILURE() << text; });
      ASSERT_TRUE(made.ok()) << made.status();
      size = made->size();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sizes, std::vector<int64_t>(4, 2));
  EXPECT_TRUE(fs::exists(Kept()));
  EXPECT_EQ(std::distance(fs::directory_iterator(cache_), {}), 1);
}

TEST_F(LoadCachedTest, BadDataIsSaidAsWithoutACache) {
  Write("{\"text\": 3}\n");
  EXPECT_THAT(std::string(Load().status().message()),
              HasSubstr("train.jsonl:1:"));
}

}  // namespace
}  // namespace mpsd::data
