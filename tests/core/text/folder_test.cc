// SPDX-License-Identifier: Apache-2.0
#include "core/text/folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"
#include "tests/core/text/folders.h"

namespace mpsd::text {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

FolderText Read(const TemporaryFolder& folder) {
  auto text = ReadFolderText(folder.path());
  EXPECT_TRUE(text.ok()) << text.status();
  return *std::move(text);
}

std::string Fault(const std::string& file, const std::string& bytes) {
  const TemporaryFolder folder;
  folder.Write(file, bytes);
  const auto text = ReadFolderText(folder.path());
  EXPECT_EQ(text.status().code(), absl::StatusCode::kInvalidArgument);
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
