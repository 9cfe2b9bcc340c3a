// SPDX-License-Identifier: Apache-2.0
#include "core/text/assistant_mask.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "core/text/chat_template.h"
#include "tests/core/text/folders.h"

namespace mpsd::text {
namespace {

using ::testing::ElementsAre;

// Tokens of "ab", " c", one character of four bytes in two tokens, "d".
Encoding FiveTokens() {
  return {{1, 2, 3, 4, 5}, {{0, 2}, {2, 4}, {4, 8}, {4, 8}, {8, 9}}};
}

TEST(AssistantMaskTest, NoSpansMaskNothing) {
  EXPECT_THAT(AssistantMask(FiveTokens(), {}), ElementsAre(0, 0, 0, 0, 0));
}

TEST(AssistantMaskTest, CoversEveryTokenASpanTouches) {
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 4}}),
              ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{1, 3}}),
              ElementsAre(1, 1, 0, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 4}, {8, 9}}),
              ElementsAre(0, 1, 0, 0, 1));
}

TEST(AssistantMaskTest, EndsAtTheFirstTokenOfTheLastCharacter) {
  // As char_to_token of the tokenizers library does.
  EXPECT_THAT(AssistantMask(FiveTokens(), {{2, 8}}),
              ElementsAre(0, 1, 1, 0, 0));
  EXPECT_THAT(AssistantMask(FiveTokens(), {{4, 9}}),
              ElementsAre(0, 0, 1, 1, 1));
}

TEST(AssistantMaskTest, ReachesTheEndWhereItsEndIsInNoToken) {
  EXPECT_THAT(AssistantMask(FiveTokens(), {{4, 100}}),
              ElementsAre(0, 0, 1, 1, 1));
}

TEST(AssistantMaskTest, TokenZeroAsTheEndCountsAsNone) {
  // `end_token + 1 if end_token else len(ids)` in Transformers.
  EXPECT_THAT(AssistantMask(FiveTokens(), {{0, 2}}),
              ElementsAre(1, 1, 1, 1, 1));
}

TEST(AssistantMaskTest, StopsAtASpanBeyondTheTokens) {
  EXPECT_THAT(AssistantMask(FiveTokens(), {{50, 60}, {2, 4}}),
              ElementsAre(0, 0, 0, 0, 0));
}

TEST(AssistantMaskTest, MasksARenderedConversation) {
  const auto tokenizer = Tokenizer::FromFolder(TestData("bpe"));
  const auto chat = ChatTemplate::FromFolder(TestData("bpe"));
  ASSERT_TRUE(tokenizer.ok() && chat.ok());
  const auto rendered = (*chat)->Render(
      "[{\"role\": \"user\", \"content\": \"hello\"},"
      " {\"role\": \"assistant\", \"content\": \"the dog\"}]",
      "", false);
  ASSERT_TRUE(rendered.ok());
  const auto encoding = (*tokenizer)->Encode(rendered->text, false);
  ASSERT_TRUE(encoding.ok());
  const auto mask = AssistantMask(*encoding, rendered->generation_spans);
  std::vector<int32_t> kept;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) kept.push_back(encoding->ids[i]);
  }
  EXPECT_EQ(*(*tokenizer)->Decode(kept, false), "the dog<|end|>");
}

}  // namespace
}  // namespace mpsd::text
