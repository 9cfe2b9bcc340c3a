// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

#include "server/jobs/inputs.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;

class InputNamesTest : public testing::Test {
 protected:
  InputNamesTest() {
    std::string name = testing::TempDir() + "namesXXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~InputNamesTest() override { fs::remove_all(folder_); }

  InputNames Names(const std::vector<JobFiles::Link>& links) {
    const std::string text = InputNames::Encode(links);
    if (!text.empty()) std::ofstream(folder_ / InputNames::kFile) << text;
    return InputNames(folder_);
  }
  std::string In(const std::string& place) {
    return (folder_ / "inputs" / place).string();
  }

  fs::path folder_;
};

TEST_F(InputNamesTest, AFileThatLiesAsItIsSpelledNeedsNoList) {
  EXPECT_EQ(InputNames::Encode({{"train.jsonl", "", "train.jsonl"}}), "");
  const InputNames names = Names({{"train.jsonl", "", "train.jsonl"}});
  EXPECT_EQ(names.Respelled(In("e2.csv") + ":2: the label is empty"),
            "e2.csv:2: the label is empty");
  EXPECT_EQ(names.Respelled("nothing of it"), "nothing of it");
  EXPECT_EQ(names.Respelled(""), "");
}

TEST_F(InputNamesTest, OthersAsJobJsonSpellsThem) {
  const InputNames names = Names({{"up/e2.csv", "", "./e2.csv"},
                                  {"images/1.png", "", "../images/1.png"},
                                  {"images/1", "", "../images/1"},
                                  {"root/data/t.csv", "", "/data/t.csv"}});
  EXPECT_EQ(names.Respelled("bad: " + In("up/e2.csv") + ":2, " +
                            In("images/1.png") + ", " + In("images/1") +
                            " and '" + In("root/data/t.csv") + "'."),
            "bad: ./e2.csv:2, ../images/1.png, ../images/1 and "
            "'/data/t.csv'.");
}

TEST_F(InputNamesTest, FoldersAndWhatNobodyUploaded) {
  const InputNames names = Names({{"images/a/1.png", "", "../images/a/1.png"},
                                  {"images/b/2.png", "", "../images/b/2.png"}});
  EXPECT_EQ(names.Respelled(In("images") + ": 2 classes"),
            "../images: 2 classes");
  EXPECT_EQ(names.Respelled(In("images/a") + " and " + In("images/b/")),
            "../images/a and ../images/b/");
  EXPECT_EQ(names.Respelled(In("images/c/3.png")), "images/c/3.png");
}

TEST_F(InputNamesTest, OtherJobsAndBrokenListsAreLeftAlone) {
  std::ofstream(folder_ / InputNames::kFile) << "{\"a\": 1, \"b\": \"/b\"";
  const InputNames names(folder_);
  EXPECT_EQ(names.Respelled(In("b") + ":1"), "b:1");
  EXPECT_EQ(names.Respelled("/state/jobs/other/inputs/b"),
            "/state/jobs/other/inputs/b");
}

TEST_F(InputNamesTest, ATextFullOfPathsEnds) {
  const InputNames names = Names({{std::string(4000, 'x'), "", "y"}});
  std::string text;
  for (int i = 0; i < 100; ++i) text += In("z") + "\n";
  EXPECT_EQ(names.Respelled(text).substr(0, 32),
            "z\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\nz\n");
}

}  // namespace
}  // namespace mpsd::jobs
