// SPDX-License-Identifier: Apache-2.0
#include "core/spec/regex_tree.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace mpsd::spec {
namespace {

using Kind = RegexNode::Kind;

void CollectIds(const RegexNode& node, std::multiset<int>& ids) {
  ids.insert(node.id);
  for (const RegexNode& child : node.children) CollectIds(child, ids);
}

TEST(ParseRegex, BuildsATreeOfNumberedNodes) {
  const auto root = ParseRegex("a(b|c{2,5})*");
  ASSERT_TRUE(root.ok()) << root.status();
  ASSERT_EQ((*root)->kind, Kind::kSequence);
  ASSERT_EQ((*root)->children.size(), 2u);
  EXPECT_EQ((*root)->children[0].kind, Kind::kSet);
  EXPECT_TRUE((*root)->children[0].set['a']);
  const RegexNode& star = (*root)->children[1];
  EXPECT_EQ(star.kind, Kind::kRepeat);
  EXPECT_EQ(star.min, 0);
  EXPECT_EQ(star.max, RegexNode::kUnlimited);
  const RegexNode& choice = star.children[0];
  ASSERT_EQ(choice.kind, Kind::kChoice);
  const RegexNode& counted = choice.children[1].children[0];
  EXPECT_EQ(counted.min, 2);
  EXPECT_EQ(counted.max, 5);
  std::multiset<int> ids;
  CollectIds(**root, ids);
  EXPECT_EQ(std::set<int>(ids.begin(), ids.end()).size(), ids.size());
}

TEST(ParseRegex, ReadsClasses) {
  const auto set = [](std::string_view pattern) {
    return (*ParseRegex(pattern))->children[0].set;
  };
  EXPECT_EQ(set("[a-c]").count(), 3u);
  EXPECT_EQ(set("[^a-c]").count(), 253u);
  EXPECT_EQ(set(R"([\d_])").count(), 11u);
  EXPECT_EQ(set(R"(\D)").count(), 246u);
  EXPECT_EQ(set(R"(\w)").count(), 63u);
  EXPECT_EQ(set(R"(\s)").count(), 6u);
  EXPECT_EQ(set(".").count(), 255u);
  EXPECT_TRUE(set("[]]")[']']);
  EXPECT_TRUE(set(R"(\n)")['\n']);
}

struct ErrorCase {
  std::string pattern;
  std::string reason;
};

class ParseRegexErrors : public ::testing::TestWithParam<ErrorCase> {};

TEST_P(ParseRegexErrors, GiveTheReason) {
  const auto root = ParseRegex(GetParam().pattern);
  EXPECT_EQ(root.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(root.status().message()), GetParam().reason)
      << GetParam().pattern;
}

INSTANTIATE_TEST_SUITE_P(
    Table, ParseRegexErrors,
    ::testing::Values(
        ErrorCase{"(?i)q", "has the group \"(?i\", which is not supported"},
        ErrorCase{"(?<!k)q", "has the group \"(?<\", which is not supported"},
        ErrorCase{"(q)\\1", "has \"\\1\", which is not supported"},
        ErrorCase{"\\pq", "has \"\\p\", which is not supported"},
        ErrorCase{"[\\b]", "has \"\\b\", which is not supported"},
        ErrorCase{"q*+", "has a possessive quantifier, which is not supported"},
        ErrorCase{"q**", "has two quantifiers in a row"},
        ErrorCase{"q{2}{3}", "has two quantifiers in a row"},
        ErrorCase{"*q", "has a quantifier with nothing to repeat"},
        ErrorCase{"(|{2})", "has a quantifier with nothing to repeat"},
        ErrorCase{"$*", "has a quantifier with nothing to repeat"},
        ErrorCase{"(?P<n>a)(?P<n>b)", "has two groups of one name"},
        ErrorCase{"(q", "has a \"(\" without a \")\""},
        ErrorCase{"q)", "has a \")\" without a \"(\""},
        ErrorCase{"[q", "has a \"[\" without a \"]\""},
        ErrorCase{"[", "has a \"[\" without a \"]\""},
        ErrorCase{"[z-a]", "has a range that runs backwards"},
        ErrorCase{"[a-\\d]", "has a range between classes"},
        ErrorCase{"[é]",
                  "has a letter beyond ASCII in a class, which is not "
                  "supported"},
        ErrorCase{"q{3,2}", "has a {m,n} with m > n"},
        ErrorCase{"q{99999999999}", "repeats more than 10000 times"},
        ErrorCase{"\\x7", "has \"\\x\" without two hexadecimal digits"},
        ErrorCase{"(?P<n", "has a name without \">\""},
        ErrorCase{"q\\", "ends in a backslash"},
        ErrorCase{"[\\", "ends in a backslash"},
        ErrorCase{std::string(400, '('), "has groups nested too deeply"},
        ErrorCase{std::string(1001, 'q'), "is longer than 1000 bytes"}));

}  // namespace
}  // namespace mpsd::spec
