// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_name.h"

#include <string>

#include "core/base/limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace mpsd::models {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(ModelName, NamesOfTheHubAreNames) {
  for (const char* name :
       {"gpt2", "meta-llama/Llama-3.1-8B", "a", "0/1", "Qwen2.5_x",
        "HuggingFaceTB/SmolLM2-135M-Instruct"}) {
    EXPECT_TRUE(CheckModelName("name", name).ok()) << name;
  }
  const std::string longest(limits::kModelIdBytes, 'a');
  EXPECT_TRUE(CheckModelName("name", longest).ok());
}

// What is a path, an option, a hidden file or no text anywhere is no name.
TEST(ModelName, TricksAreNoNames) {
  for (const std::string& name :
       {std::string(),
        std::string("/"),
        std::string("/etc"),
        std::string(".."),
        std::string("../x"),
        std::string("a/.."),
        std::string("a/../b"),
        std::string("a//b"),
        std::string("a/"),
        std::string("a/b/c"),
        std::string(".git"),
        std::string("a/.hidden"),
        std::string("-rf"),
        std::string("a/-b"),
        std::string("a b"),
        std::string("a\\b"),
        std::string("job:01ARZ3NDEKTSV4RRFFQ69G5FAV"),
        std::string("a@main"),
        std::string("a\0b", 3),
        std::string("a\nb"),
        std::string("\x1b[2J"),
        std::string("caf\xc3\xa9"),
        std::string("e\xcc\x81"),
        std::string("\xff\xfe"),
        std::string("~/x"),
        std::string("a:b"),
        std::string("a--b"),
        std::string(limits::kModelIdBytes + 1, 'a')}) {
    const absl::Status status = CheckModelName("name", name);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_THAT(std::string(status.message()), StartsWith("name: '"));
  }
}

TEST(ModelName, TheErrorShowsNoControlCharactersAndNoEnd) {
  const std::string name = "\x1b]0;" + std::string(1 << 20, 'a');
  const std::string text(CheckModelName("name", name).message());
  EXPECT_LT(text.size(), 1000u);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_THAT(text, HasSubstr("NAME or ORG/NAME"));
}

TEST(ModelName, Revisions) {
  for (const char* revision : {"main", "v1.0", "refs/pr/1", "feature/x-y",
                               "0123456789abcdef0123456789abcdef01234567"}) {
    EXPECT_TRUE(CheckRevision("revision", revision).ok()) << revision;
  }
  for (const char* revision :
       {"", "..", "a/..", "a//b", "/main", "main/", ".git", "a b", "a?b=c",
        "a#b", "a%2fb", "a@b", "ma\xc3\xafn"}) {
    EXPECT_EQ(CheckRevision("revision", revision).code(),
              absl::StatusCode::kInvalidArgument)
        << revision;
  }
}

TEST(ModelName, FoldedNamesAreEqualBeyondCase) {
  EXPECT_EQ(FoldedName("Org/Model"), FoldedName("oRG/mODEL"));
  EXPECT_NE(FoldedName("a.b"), FoldedName("a-b"));
}

}  // namespace
}  // namespace mpsd::models
