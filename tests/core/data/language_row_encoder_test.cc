// SPDX-License-Identifier: Apache-2.0
#include "core/data/language_row_encoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kChat[] =
    R"({"messages": [{"role": "user", "content": "hello"},)"
    R"({"role": "assistant", "content": "the dog"},)"
    R"({"role": "user", "content": "world"},)"
    R"({"role": "assistant", "content": "a fox"}]})";

class LanguageRowEncoderTest : public ::testing::Test {
 protected:
  absl::StatusOr<EncodedRow> Encode(std::string_view line, LossOptions options,
                                    const text::ChatTemplate* chat_template) {
    const LanguageRowEncoder encoder(*tokenizer_, chat_template, options);
    return encoder.Encode(ParseLanguageRow(line).value());
  }

  // The encoded row with its labels in brackets.
  std::string Shown(std::string_view line, LossOptions options) {
    return Shown(line, options, *template_);
  }
  std::string Shown(std::string_view line, LossOptions options,
                    const text::ChatTemplate& chat_template) {
    const auto encoded = Encode(line, options, &chat_template);
    EXPECT_TRUE(encoded.ok()) << encoded.status();
    if (!encoded.ok()) return "";
    const TokenSample& sample = encoded->sample;
    EXPECT_EQ(sample.input_ids.size(), sample.in_loss.size());
    std::string shown;
    std::vector<int32_t> run;
    for (size_t i = 0; i < sample.input_ids.size(); ++i) {
      run.push_back(sample.input_ids[i]);
      const bool last = i + 1 == sample.input_ids.size();
      if (!last && sample.in_loss[i + 1] == sample.in_loss[i]) continue;
      const std::string text = *tokenizer_->Decode(run, false);
      shown += sample.in_loss[i] ? "[" + text + "]" : text;
      run.clear();
    }
    return shown;
  }
  std::string Error(std::string_view line, LossOptions options,
                    const text::ChatTemplate* chat_template) {
    const auto encoded = Encode(line, options, chat_template);
    EXPECT_EQ(encoded.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(encoded.status().message());
  }

  const std::unique_ptr<text::Tokenizer> tokenizer_ = LoadTokenizer();
  const std::unique_ptr<text::ChatTemplate> template_ = LoadTemplate();
};

TEST_F(LanguageRowEncoderTest, MessagesAreAllInTheLossByDefault) {
  EXPECT_EQ(Shown(kChat, {}),
            "[<|user|>hello<|end|><|assistant|>the dog<|end|><|user|>world"
            "<|end|><|assistant|>a fox<|end|>]");
  EXPECT_EQ(Shown(kChat, {.assistant_only_loss = false}), Shown(kChat, {}));
}

TEST_F(LanguageRowEncoderTest, AssistantOnlyTakesTheGenerationBlocks) {
  EXPECT_EQ(Shown(kChat, {.assistant_only_loss = true}),
            "<|user|>hello<|end|><|assistant|>[the dog<|end|>]<|user|>world"
            "<|end|><|assistant|>[a fox<|end|>]");
}

TEST_F(LanguageRowEncoderTest, WithoutBlocksTheAssistantIsFoundByRendering) {
  const auto plain = MakeTemplate(
      "{%- for m in messages %}{{ '<|' + m.role + '|>' + m.content + '<|end|>' "
      "}}{%- endfor %}{%- if add_generation_prompt %}{{ '<|assistant|>' }}"
      "{%- endif %}");
  ASSERT_FALSE(plain->has_generation_blocks());
  EXPECT_EQ(Shown(kChat, {.assistant_only_loss = true}, *plain),
            "<|user|>hello<|end|><|assistant|>[the dog<|end|>]<|user|>world"
            "<|end|><|assistant|>[a fox<|end|>]");
}

TEST_F(LanguageRowEncoderTest, WhereRenderingIsNotExactItIsAnError) {
  // As templates do that drop the thinking of earlier turns.
  const auto forgetful = MakeTemplate(
      "{%- for m in messages %}{{ '<|' + m.role + '|>' }}"
      "{%- if loop.last %}{{ m.content }}{%- endif %}{%- endfor %}"
      "{%- if add_generation_prompt %}{{ '<|assistant|>' }}{%- endif %}");
  EXPECT_THAT(
      Error(kChat, {.assistant_only_loss = true}, forgetful.get()),
      StartsWith("assistant_only_loss needs a chat template with {% generation "
                 "%} blocks: this one has none, and what it renders does not"));
}

TEST_F(LanguageRowEncoderTest,
       CompletionsOfMessagesBeginBehindTheGenerationPrompt) {
  constexpr char kRow[] =
      R"({"prompt": [{"role": "user", "content": "hello"},)"
      R"({"role": "assistant", "content": "the dog"},)"
      R"({"role": "user", "content": "world"}],)"
      R"("completion": [{"role": "assistant", "content": "a fox"}]})";
  const std::string prompt =
      "<|user|>hello<|end|><|assistant|>the dog<|end|><|user|>world<|end|>"
      "<|assistant|>";
  EXPECT_EQ(Shown(kRow, {}), prompt + "[a fox<|end|>]");
  EXPECT_EQ(Shown(kRow, {.completion_only_loss = true}), Shown(kRow, {}));
  EXPECT_EQ(Shown(kRow, {.completion_only_loss = false}),
            "[" + prompt + "a fox<|end|>]");
  EXPECT_EQ(Shown(kRow, {.assistant_only_loss = true}),
            prompt + "[a fox<|end|>]");
  EXPECT_EQ(
      Shown(kRow, {.assistant_only_loss = true, .completion_only_loss = false}),
      "<|user|>hello<|end|><|assistant|>[the dog<|end|>]<|user|>world"
      "<|end|><|assistant|>[a fox<|end|>]");
}

TEST_F(LanguageRowEncoderTest, StringCompletionsGetTheEndToken) {
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": " world"})", {}),
            "hello[ world<|end|>]");
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": " world<|end|>"})", {}),
            "hello[ world<|end|>]");
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": ""})", {}),
            "hello[<|end|>]");
  EXPECT_EQ(Shown(R"({"prompt": "hello", "completion": " world"})",
                  {.completion_only_loss = false}),
            "[hello world<|end|>]");
}

TEST_F(LanguageRowEncoderTest, TextGetsTheEndToken) {
  EXPECT_EQ(Shown(R"({"text": "hello world"})", {}), "[hello world<|end|>]");
  EXPECT_EQ(Shown(R"({"text": "hello<|end|>"})", {}), "[hello<|end|>]");
}

TEST_F(LanguageRowEncoderTest, ACompletionThatMergesWithThePromptIsNoticed) {
  const auto split =
      Encode(R"({"prompt": "the", "completion": " dog"})", {}, nullptr);
  ASSERT_TRUE(split.ok());
  EXPECT_TRUE(split->prompt_is_prefix);
  const auto merged =
      Encode(R"({"prompt": "th", "completion": "e dog"})", {}, nullptr);
  ASSERT_TRUE(merged.ok());
  EXPECT_FALSE(merged->prompt_is_prefix);
  EXPECT_EQ(Shown(R"({"prompt": "th", "completion": "e dog"})", {}),
            "t[he dog<|end|>]");
}

TEST_F(LanguageRowEncoderTest, TextGetsTheTokenizersSpecialTokens) {
  const auto wordpiece = LoadTokenizer("wordpiece");
  const LanguageRowEncoder encoder(*wordpiece, nullptr, {});
  const auto encoded =
      encoder.Encode(ParseLanguageRow(R"({"text": "the dog"})").value());
  ASSERT_TRUE(encoded.ok());
  EXPECT_EQ(encoded->sample.input_ids.front(), wordpiece->TokenToId("[CLS]"));
  EXPECT_EQ(encoded->sample.input_ids.back(), wordpiece->TokenToId("[SEP]"));
}

TEST_F(LanguageRowEncoderTest, ChatTemplateArgumentsReachTheTemplate) {
  const auto chat_template = MakeTemplate(
      "{{ tools | length if tools else 0 }}{{ style }}{{ messages[0].role }}");
  EXPECT_EQ(Shown(R"({"messages": [{"role": "user", "content": ""}],)"
                  R"("tools": [{}, {}], "chat_template_kwargs": )"
                  R"({"style": "x"}})",
                  {}, *chat_template),
            "[2xuser]");
}

TEST_F(LanguageRowEncoderTest, OptionsMustGoWithTheRows) {
  EXPECT_EQ(Error(R"({"text": "a"})", {.assistant_only_loss = true}, nullptr),
            "assistant_only_loss needs conversations: rows with \"messages\"");
  EXPECT_THAT(Error(R"({"prompt": "a", "completion": "b"})",
                    {.assistant_only_loss = true}, nullptr),
              StartsWith("assistant_only_loss needs conversations"));
  for (const char* line : {kChat, R"({"text": "a"})"}) {
    EXPECT_EQ(Error(line, {.completion_only_loss = true}, template_.get()),
              "completion_only_loss needs rows with \"prompt\" and "
              "\"completion\"; for messages there is assistant_only_loss");
  }
  EXPECT_THAT(Error(kChat, {}, nullptr),
              StartsWith("the model has no chat template for messages; use"));
}

TEST_F(LanguageRowEncoderTest, TheTemplatesRefusalIsToldOn) {
  const auto strict =
      MakeTemplate("{{ raise_exception('roles must alternate') }}");
  EXPECT_THAT(Error(kChat, {}, strict.get()),
              ::testing::AllOf(StartsWith("the chat template refused it: "),
                               HasSubstr("roles must alternate")));
}

}  // namespace
}  // namespace mpsd::data
