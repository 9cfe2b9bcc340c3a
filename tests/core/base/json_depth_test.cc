// SPDX-License-Identifier: Apache-2.0
#include "core/base/json_depth.h"

#include <gtest/gtest.h>

#include <string>

#include "core/base/limits.h"

namespace mpsd::base {
namespace {

std::string Nested(int levels) {
  return std::string(levels, '[') + std::string(levels, ']');
}

TEST(NestsTooDeep, AtTheLimitAndOnePastIt) {
  EXPECT_FALSE(NestsTooDeep(Nested(limits::kJsonDepth)));
  EXPECT_TRUE(NestsTooDeep(Nested(limits::kJsonDepth + 1)));
  std::string mixed;
  for (int i = 0; i < limits::kJsonDepth; ++i) {
    mixed += i % 2 == 0 ? "{\"a\":" : "[";
  }
  EXPECT_FALSE(NestsTooDeep(mixed));
  EXPECT_TRUE(NestsTooDeep(mixed + "{"));
}

TEST(NestsTooDeep, CountsOpenOnesAndNoStrings) {
  std::string siblings;
  for (int i = 0; i < 1000; ++i) siblings += "[],{},";
  EXPECT_FALSE(NestsTooDeep("[" + siblings + "1]"));
  const std::string brackets(1000, '[');
  EXPECT_FALSE(NestsTooDeep("[\"" + brackets + "\\\"" + brackets + "\"]"));
  EXPECT_TRUE(NestsTooDeep("[\"\\\\\"," + brackets));
}

TEST(NestsTooDeep, EndsOnAnything) {
  EXPECT_FALSE(NestsTooDeep(""));
  EXPECT_FALSE(NestsTooDeep("\"\\"));
  EXPECT_FALSE(NestsTooDeep("]]]]}}}}"));
  EXPECT_TRUE(NestsTooDeep(std::string(100'000, '[')));
}

// What nlohmann's basic_json offers of itself.
struct FakeTree {
  enum class value_t { null, discarded };
  FakeTree(value_t v) : discarded(v == value_t::discarded) {}
  static FakeTree parse(std::string_view text, std::nullptr_t, bool throws) {
    FakeTree tree(value_t::null);
    tree.text = text;
    tree.discarded = throws;
    return tree;
  }
  std::string text;
  bool discarded;
};

TEST(ParseTree, DiscardsWhatNestsTooDeep) {
  EXPECT_EQ(ParseTree<FakeTree>("[1]").text, "[1]");
  EXPECT_FALSE(ParseTree<FakeTree>(Nested(limits::kJsonDepth)).discarded);
  EXPECT_TRUE(ParseTree<FakeTree>(Nested(limits::kJsonDepth + 1)).discarded);
}

}  // namespace
}  // namespace mpsd::base
