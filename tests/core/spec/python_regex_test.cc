// SPDX-License-Identifier: Apache-2.0
#include "core/spec/python_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace mpsd::spec {
namespace {

bool FullMatch(std::string_view pattern, const std::string& name) {
  const auto regex = PythonRegex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  return regex.ok() && regex->FullMatch(name);
}

// Results of Python's re.fullmatch.
TEST(PythonRegex, MatchesAsFullmatch) {
  const std::string q = "model.layers.12.self_attn.q_proj";
  EXPECT_TRUE(FullMatch(R"(.*\.(q|v)_proj)", q));
  EXPECT_FALSE(FullMatch("q_proj", q));
  EXPECT_TRUE(FullMatch(R"(^model\.layers\.(1[0-9]|2\d)\..*q_proj$)", q));
  EXPECT_FALSE(FullMatch(R"(model\.layers\.\d\..*)", q));
  EXPECT_TRUE(FullMatch(R"((?:.*)(?!k)._proj)", q));
  EXPECT_FALSE(FullMatch(R"((?!.*self_attn).*)", q));
  EXPECT_TRUE(FullMatch(R"(.*self_attn.*?)", q));
  EXPECT_TRUE(FullMatch(R"([\w.]{10,40})", q));
  EXPECT_TRUE(FullMatch("lm_head|.*q_proj", q));
  EXPECT_TRUE(FullMatch("lm_head|.*q_proj", "lm_head"));
  EXPECT_FALSE(FullMatch("q|q_proj2", "q_proj"));
}

TEST(PythonRegex, RefusesWhatMeansAnotherThing) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"(?i)Q_PROJ", "has the group \"(?i\""},
      {"(?P<n>q)", "has the group \"(?P\""},
      {"(?<!k)_proj", "has the group \"(?<\""},
      {"q\\Z", "has \"\\Z\""},
      {"[]q]", "has \"]\" at the beginning of a class"},
      {"[[:alpha:]]", "has \"[\" before"},
      {"q{,2}", "has \"{\" that begins no"},
      {"q*+", "has two quantifiers in a row"},
      {"q\\", "ends in a backslash"},
      {"(q", "is malformed"},
      {"*q", "is malformed"},
  };
  for (const auto& [pattern, why] : cases) {
    const auto regex = PythonRegex::Compile(pattern);
    ASSERT_FALSE(regex.ok()) << pattern;
    EXPECT_THAT(std::string(regex.status().message()),
                ::testing::StartsWith("the regular expression \"" + pattern +
                                      "\" " + why));
  }
  EXPECT_FALSE(PythonRegex::Compile(std::string(2000, 'q')).ok());
}

TEST(PatternKeyRegex, MatchesTheEndOfANameAsPeftDoes) {
  const auto match = [](std::string_view key, const std::string& name) {
    return FullMatch(PatternKeyRegex(key), name);
  };
  EXPECT_TRUE(match("q_proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(match("q_proj", "q_proj"));
  EXPECT_FALSE(match("proj", "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(match("^model.layers.0.self_attn.q_proj",
                    "model.layers.0.self_attn.q_proj"));
  EXPECT_TRUE(match(R"(layers\.\d\.self_attn\.(q|k)_proj)",
                    "model.layers.0.self_attn.k_proj"));
}

}  // namespace
}  // namespace mpsd::spec
