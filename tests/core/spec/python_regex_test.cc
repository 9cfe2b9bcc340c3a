// SPDX-License-Identifier: Apache-2.0
#include "core/spec/python_regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::spec {
namespace {

bool FullMatch(std::string_view pattern, std::string_view name) {
  const auto regex = PythonRegex::Compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status();
  return regex.ok() && regex->FullMatch(name);
}

struct Case {
  std::string pattern;
  std::string name;
  bool matches;  // what Python's re.fullmatch says
};

class PythonRegexCases : public ::testing::TestWithParam<Case> {};

TEST_P(PythonRegexCases, MatchAsFullmatchDoes) {
  EXPECT_EQ(FullMatch(GetParam().pattern, GetParam().name), GetParam().matches)
      << GetParam().pattern;
}

const char kQ[] = "model.layers.12.self_attn.q_proj";

INSTANTIATE_TEST_SUITE_P(
    Table, PythonRegexCases,
    ::testing::Values(
        Case{R"(.*\.(q|v)_proj)", kQ, true}, Case{"q_proj", kQ, false},
        Case{R"(^model\.layers\.(1[0-9]|2\d)\..*q_proj$)", kQ, true},
        Case{R"(model\.layers\.\d\..*)", kQ, false},
        Case{R"((?:.*)(?!k)._proj)", kQ, true},
        Case{R"((?:.*)(?!q)._proj)", kQ, false},
        Case{R"((?!.*self_attn).*)", kQ, false},
        Case{R"((?=model).*proj)", kQ, true},
        Case{R"(.*self_attn.*?)", kQ, true}, Case{R"([\w.]{10,40})", kQ, true},
        Case{R"([\w.]{40})", kQ, false}, Case{R"([^\d]+12[^\d]+)", kQ, true},
        Case{R"((?P<layer>.*)q_proj\Z)", kQ, true},
        Case{R"(\A.*\bq_proj)", kQ, true}, Case{R"(.*\Bproj)", kQ, true},
        Case{R"(.*\bproj)", kQ, false}, Case{"lm_head|.*q_proj", kQ, true},
        Case{"lm_head|.*q_proj", "lm_head", true},
        Case{"q|q_proj2", "q_proj", false}, Case{"", "", true},
        Case{"", "q", false}, Case{"a{,2}", "aa", true},
        Case{"a{,2}", "aaa", false}, Case{"a{2,}", "a", false},
        Case{"a{x}", "a{x}", true}, Case{"[]a]+", "]a", true},
        Case{"[a-]+", "a-", true}, Case{R"(\x71_proj)", "q_proj", true},
        Case{"(a*)*b", "aaab", true}, Case{"(a|)+", "aa", true},
        Case{"(a?){3}b", "ab", true}, Case{"(|a)+b", "aab", true}));

TEST(PythonRegex, TakesBoundedTime) {
  const std::string name(200, 'a');
  EXPECT_FALSE(FullMatch("((a*)*)*b", name));
  EXPECT_FALSE(FullMatch("(.*)*(.*)*(.*)*x", name));
  EXPECT_FALSE(FullMatch("((a{0,9999}){0,9999}){0,9999}b", name));
  EXPECT_FALSE(FullMatch("a*", std::string(PythonRegex::kMaxName + 1, 'a')));
  EXPECT_TRUE(FullMatch("a*", std::string(PythonRegex::kMaxName, 'a')));
}

TEST(PythonRegex, NamesThePatternAndTheReason) {
  EXPECT_EQ(std::string(PythonRegex::Compile("(?i)Q").status().message()),
            "the regular expression \"(?i)Q\" has the group \"(?i\", which is "
            "not supported");
  EXPECT_EQ(
      std::string(
          PythonRegex::Compile(std::string(2000, 'q')).status().message()),
      "the regular expression is longer than 1000 bytes");
}

TEST(PatternKeyRegex, MatchesTheEndOfANameAsPeftDoes) {
  const auto match = [](std::string_view key, const std::string& name) {
    return FullMatch(PatternKeyRegex(key), name);
  };
  EXPECT_TRUE(match("q_proj", kQ));
  EXPECT_TRUE(match("q_proj", "q_proj"));
  EXPECT_FALSE(match("proj", kQ));
  EXPECT_TRUE(match("^model.layers.12.self_attn.q_proj", kQ));
  EXPECT_TRUE(match(R"(layers\.\d+\.self_attn\.(q|k)_proj)", kQ));
}

}  // namespace
}  // namespace mpsd::spec
