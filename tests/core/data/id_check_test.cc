// SPDX-License-Identifier: Apache-2.0
#include "core/data/id_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/core/data/model_folder.h"

namespace mpsd::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(TokenFaultTest, NamesTheFirstTokenWithoutARow) {
  const auto tokenizer = LoadTokenizer();
  const int32_t hello = *tokenizer->TokenToId("hello");
  const std::vector<int32_t> ids = {0, hello - 1, hello, hello + 1};
  EXPECT_EQ(TokenFault(ids, {hello + 2}, *tokenizer), "");
  EXPECT_EQ(TokenFault(ids, {0}, *tokenizer), "") << "the size is not known";
  EXPECT_EQ(TokenFault({}, {1}, *tokenizer), "");
  EXPECT_THAT(TokenFault(ids, {hello}, *tokenizer),
              AllOf(HasSubstr("token 2 is \"hello\""),
                    HasSubstr("the id " + std::to_string(hello)),
                    HasSubstr("rows for " + std::to_string(hello) + " tokens"),
                    HasSubstr("resize_token_embeddings")));
}

TEST(TypeFaultTest, HoldsTypesAgainstTheirTable) {
  const std::vector<int32_t> types = {0, 0, 1, 1};
  EXPECT_EQ(TypeFault(types, {10, 2}), "");
  EXPECT_EQ(TypeFault(types, {10, 0}), "") << "a model without types";
  EXPECT_THAT(
      TypeFault(types, {10, 1}),
      AllOf(HasSubstr("token 2 is of type 1"), HasSubstr("type_vocab_size")));
}

TEST(PaddingWithinTest, IsARowOfTheTable) {
  EXPECT_EQ(PaddingWithin(7, {8}), 7);
  EXPECT_EQ(PaddingWithin(8, {8}), 0);
  EXPECT_EQ(PaddingWithin(8, {}), 8);
}

}  // namespace
}  // namespace mpsd::data
