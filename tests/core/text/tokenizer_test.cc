// SPDX-License-Identifier: Apache-2.0
#include "core/text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/text/chat_template.h"
#include "core/text/folder.h"
#include "core/text/overrides.h"
#include "nlohmann/json.hpp"
#include "tests/core/status_matchers.h"
#include "tests/core/text/folders.h"

namespace mpsd::text {

namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing_support::Fails;
using testing_support::Says;

std::unique_ptr<Tokenizer> Load(const std::string& name) {
  return Tokenizer::FromFolder(TestData(name)).value();
}

// encodings.json holds what Python's tokenizers made of the same texts.
void ExpectGolden(const std::string& folder) {
  const auto tokenizer = Load(folder);
  int cases = 0;
  for (const auto& c : ReadJson(TestData("encodings.json"))) {
    if (c["folder"] != folder) continue;
    const std::string text = c["text"];
    SCOPED_TRACE(text);
    const auto encoding = tokenizer->Encode(text, c["special"]).value();
    EXPECT_EQ(nlohmann::ordered_json(encoding.ids), c["ids"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding.offsets), c["offsets"]);
    EXPECT_EQ(*tokenizer->EncodeIds(text, c["special"]), encoding.ids);
    EXPECT_EQ(*tokenizer->Decode(encoding.ids, false),
              c["decoded"].get<std::string>());
    EXPECT_EQ(*tokenizer->Decode(encoding.ids, true),
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
    const auto encoding = *tokenizers[folder + "/" + side]->EncodeForClassifier(
        text, second, c["max_length"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding.ids), c["ids"]);
    EXPECT_EQ(nlohmann::ordered_json(encoding.type_ids), c["types"]);
    EXPECT_EQ(encoding.truncated, c["truncated"]);
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
      tokenizer->EncodeForClassifier("hello world", "hello hello", 3).value();
  EXPECT_THAT(encoding.type_ids, ::testing::ElementsAre(0, 1, 1));
  EXPECT_TRUE(encoding.truncated);
}

TEST(TokenizerTest, ALengthWithoutRoomIsRefused) {
  const auto tokenizer = Load("wordpiece");
  EXPECT_TRUE(tokenizer->EncodeForClassifier("a", "b", 4).ok());
  for (const int64_t length : {-1, 0, 3}) {
    EXPECT_THAT(tokenizer->EncodeForClassifier("a", "b", length),
                Says("leaves no room besides 3 special tokens"));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      tokenizer->EncodeForClassifier("\xff", std::nullopt, 9).status()));
}

TEST(TokenizerTest, KnowsItsSpecialTokensAndThoseThatTokenizerJsonLacks) {
  const auto tokenizer = Load("bpe");
  EXPECT_EQ(tokenizer->bos_id(), std::nullopt);
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->TokenToId("<|end|>"));
  EXPECT_EQ(tokenizer->pad_id(), 3);
  EXPECT_EQ(tokenizer->TokenToId("no such token"), std::nullopt);
  EXPECT_TRUE(tokenizer->has_chat_template());
  EXPECT_FALSE(Load("unigram")->has_chat_template());
  EXPECT_EQ(tokenizer->TokenToId("<|extra|>"), tokenizer->vocab_size() - 1);
  const auto unigram = Load("unigram");
  EXPECT_EQ(unigram->TokenToId("snowman"), unigram->vocab_size() - 1);
  EXPECT_TRUE(tokenizer->EncodeForClassifier("hello hello", std::nullopt, 1)
                  ->truncated);
  EXPECT_FALSE(
      tokenizer->EncodeForClassifier("hello", std::nullopt, 1)->truncated);
}

TEST(TokenizerTest, IgnoresStoredTruncationAndPadding) {
  const auto encoding =
      Load("bpe")->Encode("hello hello hello hello hello", true).value();
  EXPECT_GT(encoding.ids.size(), 4u);
  EXPECT_LT(encoding.ids.size(), 32u);
}

TEST(TokenizerTest, OffsetsAreWholeCharactersInBytes) {
  const std::string text = "a\xf0\x9f\x91\x8d";  // A letter and one emoji.
  const auto encoding = Load("bpe")->Encode(text, false).value();
  ASSERT_GT(encoding.offsets.size(), 1u);
  EXPECT_EQ(encoding.offsets.front(), std::make_pair(size_t{0}, size_t{1}));
  EXPECT_EQ(encoding.offsets.back(), std::make_pair(size_t{1}, size_t{5}));
}

TEST(TokenizerTest, ServesManyThreads) {
  const auto tokenizer = Load("bpe");
  const auto expected = tokenizer->Encode("the quick brown fox", false).value();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        const auto got = tokenizer->Encode("the quick brown fox", false);
        if (!got.ok() || got->ids != expected.ids) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(TokenizerTest, RefusesTextThatIsNotUtf8AndNegativeIds) {
  const auto encoding = Load("bpe")->Encode("ab\xff", false);
  EXPECT_THAT(encoding, Fails(absl::StatusCode::kInvalidArgument,
                              "not UTF-8 after byte 2"));
  EXPECT_EQ(Load("bpe")->EncodeIds("ab\xff", false).status(),
            encoding.status());
  EXPECT_THAT(Load("bpe")->Decode({4, -100}, false),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("-100"), HasSubstr("at 1"))));
  EXPECT_THAT(*Load("bpe")->Decode({1000000}, false), IsEmpty());
}

TEST(TokenizerTest, NamesTheFileThatIsMissingOrBroken) {
  const TemporaryFolder folder;
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Fails(absl::StatusCode::kNotFound, "tokenizer.json"));
  folder.Write("tokenizer.json", "{\"model\": ");
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Fails(absl::StatusCode::kInvalidArgument,
                    AllOf(HasSubstr("tokenizer.json"), HasSubstr("line 1"))));
  auto json = ReadJson(TestData("bpe/tokenizer.json"));
  json["model"]["merges"].push_back({"nowhere", "nothing"});
  folder.Write("tokenizer.json", json.dump());
  EXPECT_THAT(Tokenizer::FromFolder(folder.path()),
              Says(AllOf(HasSubstr("tokenizer.json"), HasSubstr("nowhere"))));
}

// As tokenizers.json of old have it: the library tells by what is there.
TEST(TokenizerTest, ReadsAModelThatDoesNotSayItsKind) {
  for (const char* name : {"bpe", "wordpiece", "unigram"}) {
    const TemporaryFolder folder;
    auto json = ReadJson(TestData(std::string(name) + "/tokenizer.json"));
    EXPECT_EQ(json["model"].erase("type"), 1u);
    folder.Write("tokenizer.json", json.dump());
    const auto tokenizer = Tokenizer::FromFolder(folder.path()).value();
    const char text[] = "the quick brown fox";
    EXPECT_EQ(*tokenizer->EncodeIds(text, true),
              *Load(name)->EncodeIds(text, true));
  }
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

// A base model: "bpe" without its template, "<|user|>" among its tokens.
class OverridesTest : public ::testing::Test {
 protected:
  OverridesTest() {
    model_.Write("tokenizer.json",
                 *base::ReadFile(TestData("bpe") + "/tokenizer.json"));
    auto config = ReadJson(TestData("bpe") + "/tokenizer_config.json");
    config.erase("chat_template");
    model_.Write("tokenizer_config.json", config.dump());
    other_.Write("chat.jinja", "{{ messages[0].content }}{{ eos_token }}");
    other_.Write("chat.txt", "x");
  }
  std::string Rendered(const TextOverrides& overrides) {
    return ChatTemplate::FromFolder(model_.path(), TemplateUse::kAsIs,
                                    overrides)
        .value()
        ->Render(R"([{"role": "user", "content": "hi"}])", "", false)
        ->text;
  }
  std::string Fault(const TextOverrides& overrides) {
    return std::string(
        Tokenizer::FromFolder(model_.path(), overrides).status().message());
  }

  const TemporaryFolder model_, other_;
};

TEST_F(OverridesTest, AFileIsTheTemplateOfABaseModel) {
  EXPECT_TRUE(
      absl::IsNotFound(ChatTemplate::FromFolder(model_.path()).status()));
  const TextOverrides file = {.chat_template_path =
                                  other_.path() + "/chat.jinja"};
  EXPECT_TRUE(
      (*Tokenizer::FromFolder(model_.path(), file))->has_chat_template());
  EXPECT_EQ(Rendered(file), "hi<|end|>");
  TextOverrides both = file;
  both.eos_token = "<|user|>";
  EXPECT_EQ(Rendered(both), "hi<|user|>");
  const auto tokenizer = *Tokenizer::FromFolder(model_.path(), both);
  EXPECT_EQ(tokenizer->eos_id(), tokenizer->TokenToId("<|user|>"));
}

TEST_F(OverridesTest, AFolderGivesTemplateAndEndToken) {
  other_.Write("tokenizer_config.json",
               R"({"eos_token": "<|user|>", "additional_special_tokens":
                   ["<|unused|>"], "chat_template": "x{{ eos_token }}"})");
  EXPECT_EQ(Rendered({.chat_template_path = other_.path()}), "x<|user|>");
  EXPECT_EQ(Rendered({other_.path(), "<|end|>"}), "x<|end|>");
  // Its tokens that stand in the template must be the model's.
  other_.Write("tokenizer_config.json",
               R"({"eos_token": "<|end|>", "additional_special_tokens":
                   ["<|start|>"], "chat_template": "<|start|>"})");
  EXPECT_THAT(Fault({.chat_template_path = other_.path()}),
              AllOf(HasSubstr("training.chat_template_path"),
                    HasSubstr("no token \"<|start|>\"")));
  // The end token that the job names is asked for alone.
  other_.Write("tokenizer_config.json",
               R"({"eos_token": "<|nowhere|>", "chat_template": "x"})");
  EXPECT_THAT(Fault({.chat_template_path = other_.path()}),
              HasSubstr("no token \"<|nowhere|>\""));
  EXPECT_EQ(Fault({other_.path(), "<|end|>"}), "");
  other_.Write("tokenizer_config.json", "{}");
  EXPECT_THAT(Fault({.chat_template_path = other_.path()}),
              HasSubstr("has no chat template"));
}

TEST_F(OverridesTest, WhatCannotBeTaken) {
  EXPECT_THAT(Fault({.eos_token = "<|nowhere|>"}),
              AllOf(HasSubstr("training.eos_token"),
                    HasSubstr("no token \"<|nowhere|>\"")));
  EXPECT_THAT(Fault({.chat_template_path = other_.path() + "/chat.txt"}),
              HasSubstr("expected a .jinja or .j2 file, or a model folder"));
  EXPECT_THAT(Fault({.chat_template_path = other_.path() + "/absent.jinja"}),
              AllOf(HasSubstr("training.chat_template_path"),
                    HasSubstr("absent.jinja")));
}

TEST_F(OverridesTest, TheIdIsOfWhatIsTaken) {
  const std::string& dir = model_.path();
  EXPECT_EQ(*OverridesId(dir, {}), "");
  const TextOverrides file = {.chat_template_path =
                                  other_.path() + "/chat.jinja"};
  const std::string id = *OverridesId(dir, file);
  EXPECT_EQ(id.size(), 64u);
  EXPECT_EQ(*OverridesId(dir, file), id);
  EXPECT_NE(*OverridesId(dir, {file.chat_template_path, "<|user|>"}), id);
  other_.Write("chat.jinja", "another");
  EXPECT_NE(*OverridesId(dir, file), id);
}

TEST_F(OverridesTest, AreWrittenIntoAResult) {
  const TemporaryFolder result;
  result.Write("tokenizer_config.json",
               R"({"eos_token": "<|end|>", "chat_template": "old", "a": 1})");
  result.Write("config.json", R"({"eos_token_id": 7, "model_type": "llama"})");
  result.Write("generation_config.json", R"({"eos_token_id": [7, 5]})");
  result.Write("additional_chat_templates/rag.jinja", "old");
  const std::string path = other_.path() + "/chat.jinja";
  const auto read = [&](const std::string& name) {
    return ReadJson(result.path() + "/" + name);
  };
  // A template alone leaves the end token as it is.
  ASSERT_TRUE(WriteOverrides(model_.path(), {path, ""}, 5, result.path()).ok());
  EXPECT_EQ(read("tokenizer_config.json").dump(),
            R"({"eos_token":"<|end|>","a":1})");
  EXPECT_EQ(read("config.json")["eos_token_id"], 7);
  EXPECT_FALSE(
      std::filesystem::exists(result.path() + "/additional_chat_templates"));
  EXPECT_EQ(*base::ReadFile(result.path() + "/chat_template.jinja"),
            *base::ReadFile(path));
  ASSERT_TRUE(
      WriteOverrides(model_.path(), {path, "<|user|>"}, 5, result.path()).ok());
  EXPECT_EQ(read("tokenizer_config.json")["eos_token"], "<|user|>");
  EXPECT_EQ(read("config.json")["eos_token_id"], 5);
  EXPECT_EQ(read("generation_config.json")["eos_token_id"].dump(), "[5,7]");
  EXPECT_FALSE(
      std::filesystem::exists(result.path() + "/special_tokens_map.json"));
  // What was written is what the next reader finds.
  result.Write("tokenizer.json",
               *base::ReadFile(TestData("bpe") + "/tokenizer.json"));
  const auto again = *Tokenizer::FromFolder(result.path());
  EXPECT_EQ(again->eos_id(), again->TokenToId("<|user|>"));
  EXPECT_TRUE(again->has_chat_template());
}

using testing::ElementsAre;
using testing::Pair;

FolderText Read(const TemporaryFolder& folder) {
  return ReadFolderText(folder.path()).value();
}

std::string Fault(const std::string& file, const std::string& bytes) {
  const TemporaryFolder folder;
  folder.Write(file, bytes);
  const auto text = ReadFolderText(folder.path());
  EXPECT_TRUE(absl::IsInvalidArgument(text.status()));
  return std::string(text.status().message());
}

// The contents of the tokens: those declared, those added when missing.
std::vector<std::vector<std::string>> Added(const FolderText& text) {
  std::vector<std::vector<std::string>> names;
  for (const auto& list : nlohmann::json::parse(text.added_tokens_json)) {
    names.emplace_back();
    for (const auto& token : list) names.back().push_back(token["content"]);
  }
  return names;
}

TEST(FolderTest, AnEmptyFolderSaysNothing) {
  const FolderText text = Read(TemporaryFolder());
  EXPECT_THAT(text.special_tokens, IsEmpty());
  EXPECT_THAT(text.chat_templates, IsEmpty());
  EXPECT_EQ(text.added_tokens_json, "[[],[]]");
  EXPECT_FALSE(text.split_special_tokens);
}

TEST(FolderTest, NamedTokensAreStringsOrObjectsOrNull) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"bos_token": {"content": "<s>", "lstrip": true},
                   "eos_token": "</s>", "pad_token": null,
                   "image_token": "<img>", "add_bos_token": true,
                   "extra_special_tokens": {"audio_token": "<snd>"}})");
  const FolderText text = Read(folder);
  EXPECT_THAT(
      text.special_tokens,
      ElementsAre(Pair("audio_token", "<snd>"), Pair("bos_token", "<s>"),
                  Pair("eos_token", "</s>"), Pair("image_token", "<img>")));
  EXPECT_THAT(
      Added(text),
      ElementsAre(IsEmpty(), ElementsAre("<s>", "</s>", "<img>", "<snd>")));
  EXPECT_EQ(nlohmann::json::parse(text.added_tokens_json)[1][0],
            nlohmann::json({{"content", "<s>"},
                            {"single_word", false},
                            {"lstrip", true},
                            {"rstrip", false},
                            {"normalized", false},
                            {"special", true}}));
}

TEST(FolderTest, DeclaredTokensComeInTheOrderOfTheirIds) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"added_tokens_decoder": {
                     "10": {"content": "b", "special": false},
                     "9": {"content": "a", "special": true}},
                   "eos_token": "a",
                   "additional_special_tokens": ["b", "c"]})");
  EXPECT_THAT(Added(Read(folder)),
              ElementsAre(ElementsAre("a", "b"), ElementsAre("c")));
}

TEST(FolderTest, LegacyFilesCountWhereNoTokensAreDeclared) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               "{\"bos_token\": \"old\", \"eos_token\": \"e\"}");
  folder.Write("special_tokens_map.json", "{\"bos_token\": \"new\"}");
  folder.Write("added_tokens.json", "{\"new\": 7, \"word\": 6}");
  const FolderText text = Read(folder);
  EXPECT_THAT(text.special_tokens,
              ElementsAre(Pair("bos_token", "new"), Pair("eos_token", "e")));
  EXPECT_THAT(Added(text),
              ElementsAre(ElementsAre("word", "new"), ElementsAre("e")));
  const auto declared = nlohmann::json::parse(text.added_tokens_json)[0];
  EXPECT_EQ(declared[0]["special"], false);
  EXPECT_EQ(declared[1]["special"], true);

  folder.Write("tokenizer_config.json",
               "{\"bos_token\": \"old\", \"added_tokens_decoder\": {}}");
  EXPECT_THAT(Read(folder).special_tokens,
              ElementsAre(Pair("bos_token", "old")));
}

TEST(FolderTest, TemplateFilesWinOverTheConfig) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json", "{\"chat_template\": \"config\"}");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "config")));
  folder.Write("chat_template.jinja", "file");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "file")));
  folder.Write("additional_chat_templates/tool_use.jinja", "tools");
  folder.Write("additional_chat_templates/README.md", "no template");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "file"), Pair("tool_use", "tools")));
}

TEST(FolderTest, NamedTemplatesComeAsAList) {
  const TemporaryFolder folder;
  folder.Write("tokenizer_config.json",
               R"({"chat_template": [{"name": "default", "template": "d"},
                                     {"name": "rag", "template": "r"}]})");
  EXPECT_THAT(Read(folder).chat_templates,
              ElementsAre(Pair("default", "d"), Pair("rag", "r")));
}

TEST(FolderTest, FaultsNameFileAndField) {
  const std::string config = "tokenizer_config.json";
  EXPECT_THAT(Fault(config, "{\"a\": \n }"),
              AllOf(HasSubstr(config), HasSubstr("line 2")));
  EXPECT_THAT(Fault(config, "[]"), HasSubstr("a JSON object expected"));
  EXPECT_THAT(Fault("special_tokens_map.json", "{"),
              HasSubstr("special_tokens_map.json"));
  EXPECT_THAT(Fault("added_tokens.json", "{\"x\": \"y\"}"),
              AllOf(HasSubstr("added_tokens.json"), HasSubstr("\"x\"")));
  EXPECT_THAT(Fault(config, "{\"eos_token\": 3}"), HasSubstr("eos_token"));
  EXPECT_THAT(Fault(config, "{\"added_tokens_decoder\": {\"x\": {}}}"),
              HasSubstr("added_tokens_decoder.x"));
  EXPECT_THAT(Fault(config, "{\"added_tokens_decoder\": 1}"),
              HasSubstr("added_tokens_decoder"));
  EXPECT_THAT(Fault(config, "{\"chat_template\": 1}"),
              HasSubstr("chat_template"));
  EXPECT_THAT(Fault(config, "{\"chat_template\": [{\"name\": \"x\"}]}"),
              HasSubstr("chat_template[0]"));
  EXPECT_THAT(Fault(config, "{\"extra_special_tokens\": [1]}"),
              HasSubstr("extra_special_tokens"));
  EXPECT_THAT(Fault(config, "{\"a\": " + std::string(100'000, '[') +
                                std::string(100'000, ']') + "}"),
              AllOf(HasSubstr(config), HasSubstr("nested too deep")));
  EXPECT_THAT(Fault(config, "{\"split_special_tokens\": \"x\"}"),
              HasSubstr(config));
}

}  // namespace

}  // namespace mpsd::text
