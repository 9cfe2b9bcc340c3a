// SPDX-License-Identifier: Apache-2.0
#include "core/text/overrides.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/file.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"
#include "tests/core/text/folders.h"

namespace mpsd::text {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
    auto chat =
        ChatTemplate::FromFolder(model_.path(), TemplateUse::kAsIs, overrides);
    EXPECT_TRUE(chat.ok()) << chat.status();
    if (!chat.ok()) return "";
    return (*chat)
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
  EXPECT_EQ(ChatTemplate::FromFolder(model_.path()).status().code(),
            absl::StatusCode::kNotFound);
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

}  // namespace
}  // namespace mpsd::text
