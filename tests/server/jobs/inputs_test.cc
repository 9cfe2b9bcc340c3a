// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/core/scratch_folder.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_job_files.h"

namespace mpsd::jobs {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing_support::Ok;

class InputNamesTest : public testing::Test {
 protected:
  InputNames Names(const std::vector<JobFiles::Link>& links) {
    const std::string text = InputNames::Encode(links);
    if (!text.empty()) std::ofstream(folder_ / InputNames::kFile) << text;
    return InputNames(folder_);
  }
  std::string In(const std::string& place) {
    return (folder_ / "inputs" / place).string();
  }

  const fs::path folder_ = testing_support::FreshFolder("names");
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

class InputsTest : public testing::Test {
 protected:
  InputsTest() { blobs_.present = {kSha, kOther}; }

  Inputs Of(const std::vector<std::string>& paths) {
    std::vector<InputFile> files;
    for (const std::string& path : paths) files.push_back({path, kSha});
    auto inputs = Inputs::Create(files, kJob, files_, blobs_);
    EXPECT_TRUE(inputs.ok()) << inputs.status();
    return *std::move(inputs);
  }
  std::string Error(const std::vector<InputFile>& files) {
    return std::string(
        Inputs::Create(files, kJob, files_, blobs_).status().message());
  }
  static std::vector<std::string> Places(const Inputs& inputs) {
    std::vector<std::string> places;
    for (const JobFiles::Link& link : inputs.Links()) {
      places.push_back(link.relative);
    }
    return places;
  }

  const std::string kJob = "J", kBelow = "/state/jobs/J/inputs/";
  const std::string kSha = std::string(64, 'a');
  const std::string kOther = std::string(64, 'b');
  fakes::FakeJobFiles files_;
  fakes::FakeBlobs blobs_;
};

TEST_F(InputsTest, FilesKeepTheirPlacesRelativeToEachOther) {
  EXPECT_THAT(Places(Of({"t.jsonl", "img/1.png"})),
              ElementsAre("img/1.png", "t.jsonl"));
  EXPECT_THAT(Places(Of({"t.jsonl", "../img/1.png", "../../x"})),
              ElementsAre("x", "up/img/1.png", "up/up/t.jsonl"));
  EXPECT_THAT(Places(Of({"/data/t.csv", "e.csv"})),
              ElementsAre("root/data/t.csv", "e.csv"));
}

TEST_F(InputsTest, NothingCollidesWithTheNamesItMakes) {
  EXPECT_THAT(Places(Of({"t", "../up/t"})), ElementsAre("up/t", "up_/t"));
  EXPECT_THAT(Places(Of({"/t", "root/t"})), ElementsAre("root_/t", "root/t"));
}

TEST_F(InputsTest, NothingEscapes) {
  for (const std::string& place :
       Places(Of({"a/../../../e", "../../../f", "./x/../g", "/../../h"}))) {
    EXPECT_EQ(place.find(".."), std::string::npos) << place;
    EXPECT_NE(place[0], '/');
  }
}

TEST_F(InputsTest, SpellingsOfAPathAreOne) {
  Inputs inputs = Of({"./data//t.jsonl"});
  EXPECT_EQ(*inputs.Resolve("f", "data/t.jsonl"), kBelow + "data/t.jsonl");
  EXPECT_TRUE(inputs.CheckAllUsed().ok());
  EXPECT_TRUE(
      Inputs::Create({{"t", kSha}, {"./t", kSha}}, kJob, files_, blobs_).ok());
  EXPECT_THAT(Error({{"t", kSha}, {"./t", kOther}}), HasSubstr("twice"));
  EXPECT_THAT(Error({{"t", kSha}, {"t", kSha}}), HasSubstr("twice"));
}

TEST_F(InputsTest, AFolderIsWhatLiesBelow) {
  Inputs inputs = Of({"pets/cat/1.png", "pets/dog/2.png", "petshop"});
  EXPECT_EQ(*inputs.Resolve("f", "pets/"), kBelow + "pets");
  EXPECT_THAT(std::string(inputs.CheckAllUsed().message()),
              HasSubstr("input 'petshop' is not named by the spec"));
  Inputs above = Of({"../pets/1.png"});
  EXPECT_EQ(*above.Resolve("f", "../pets"), kBelow + "pets");
}

TEST_F(InputsTest, AFolderNeedsAName) {
  Inputs inputs = Of({"cat/1.png"});
  EXPECT_THAT(inputs.Resolve("f", "."),
              testing_support::Fails(absl::StatusCode::kInvalidArgument,
                                     "f: '.' has no name of its own"));
}

TEST_F(InputsTest, WhatWasNotUploadedMayBeHere) {
  files_.paths = {"/data/t.csv"};
  Inputs inputs = Of({});
  EXPECT_EQ(*inputs.Resolve("f", "/data/t.csv"), "/data/t.csv");
  EXPECT_EQ(inputs.Resolve("f", "/data/u.csv").status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(inputs.Resolve("f", "t.csv").status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(InputsTest, WhatJobsMayNotReadIsNeverLookedFor) {
  Inputs inputs = Of({"t"});
  files_.closed = {"/secret"};
  for (const bool exists : {false, true}) {
    if (exists) files_.paths = {"/secret"};
    const absl::Status status = inputs.Resolve("f", "/secret").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status));
    EXPECT_EQ(status.message(), "f: '/secret' is closed");
  }
  EXPECT_EQ(files_.uses["/secret"], JobFiles::Use::kData);
  files_.paths = {"/a"};
  EXPECT_TRUE(inputs.Resolve("f", "/a", JobFiles::Use::kEither).ok());
  EXPECT_EQ(files_.uses["/a"], JobFiles::Use::kEither);
  // What was uploaded is not this machine's.
  files_.closed.insert("t");
  EXPECT_TRUE(inputs.Resolve("f", "t").ok());
}

TEST_F(InputsTest, RefusesWhatMakesNoSense) {
  EXPECT_THAT(Error({{"..", kSha}}), HasSubstr("path of no file"));
  EXPECT_THAT(Error({{"/", kSha}}), HasSubstr("path of no file"));
  EXPECT_THAT(Error({{"a", kSha}, {"a/b/c", kSha}}),
              HasSubstr("'a/b/c' lies below another input"));
}

TEST_F(InputsTest, WhatSortsBetweenAFolderAndItsFilesHidesNothing) {
  EXPECT_THAT(Error({{"a", kSha}, {"a!", kSha}, {"a-b", kSha}, {"a/b", kSha}}),
              HasSubstr("'a/b' lies below another input"));
  EXPECT_THAT(Error({{"/a", kSha}, {"/a/b/c", kSha}}), HasSubstr("lies below"));
  EXPECT_THAT(Error({{"../a/b", kSha}, {"../a", kSha}}),
              HasSubstr("'../a/b' lies below another input"));
  EXPECT_THAT(Places(Of({"a", "a!/b", "a-b", "ab/c"})),
              ElementsAre("a", "a!/b", "a-b", "ab/c"));
}

TEST_F(InputsTest, FoldersEndAtASlash) {
  Inputs inputs = Of({"a/1", "a!/2", "a-b/3", "../a/4", "/a/5"});
  EXPECT_EQ(*inputs.Resolve("f", "a"), kBelow + "up/a");
  EXPECT_THAT(std::string(inputs.CheckAllUsed().message()),
              HasSubstr("is not named"));
  EXPECT_EQ(*inputs.Resolve("f", "a!"), kBelow + "up/a!");
  EXPECT_EQ(*inputs.Resolve("f", "a-b/3"), kBelow + "up/a-b/3");
  EXPECT_EQ(*inputs.Resolve("f", "/a"), kBelow + "root/a");
  EXPECT_FALSE(inputs.CheckAllUsed().ok());
  EXPECT_EQ(*inputs.Resolve("f", "../a"), kBelow + "a");
  EXPECT_TRUE(inputs.CheckAllUsed().ok());
}

// The same places as by std::filesystem, of every short path of these.
TEST_F(InputsTest, PathsAreNormalAsTheFileSystemHasThem) {
  const std::string letters = "./a";
  int compared = 0;
  for (int code = 0; code < 3 * 3 * 3 * 3 * 3 * 3 * 3; ++code) {
    std::string path;
    for (int i = 0, rest = code; i < 7; ++i, rest /= 3) {
      path += letters[rest % 3];
    }
    auto normal = std::filesystem::path(path).lexically_normal();
    if (!normal.has_filename()) normal = normal.parent_path();
    const std::string text = normal.generic_string();
    if (text.find("..") != std::string::npos || text == "." || text == "/" ||
        text.empty()) {
      continue;
    }
    EXPECT_THAT(Places(Of({path})),
                ElementsAre(text[0] == '/' ? "root" + text : text))
        << path;
    ++compared;
  }
  EXPECT_GT(compared, 500);
}

// As many as a request may have, as deep and as long: each step of theirs is
// looked at a few times, not once for each step around it.
TEST_F(InputsTest, AsManyPathsAsThereMayBe) {
  std::vector<InputFile> files;
  std::string deep;
  for (int i = 0; i < 61; ++i) deep += "d/";
  for (int i = 0; i < 118'000; ++i) {
    files.push_back(
        {deep + std::to_string(i % 100) + "/" + std::to_string(i), kSha});
  }
  const std::string step(60, 's');
  std::string longest;
  for (int i = 0; i < 62; ++i) longest += step + "/";
  for (int i = 0; i < 2000; ++i) {
    files.push_back({longest + std::to_string(i), kSha});
  }
  auto inputs = Ok(Inputs::Create(files, kJob, files_, blobs_));
  for (int i = 0; i < 118'000; ++i) {
    EXPECT_TRUE(inputs.Resolve("f", deep + std::to_string(i % 100)).ok());
    EXPECT_TRUE(inputs.Resolve("f", "d/d").ok());
  }
  EXPECT_FALSE(inputs.CheckAllUsed().ok());
  EXPECT_TRUE(inputs.Resolve("f", longest).ok());
  EXPECT_TRUE(inputs.CheckAllUsed().ok());
  EXPECT_EQ(inputs.Links().size(), files.size());
}

TEST_F(InputsTest, LinksPointAtTheirBlobs) {
  const auto links = Of({"t"}).Links();
  ASSERT_EQ(links.size(), 1u);
  EXPECT_EQ(links[0].target, "/state/blobs/" + kSha);
  EXPECT_EQ(Of({"../t"}).Links()[0].spelled, "../t");
}

}  // namespace
}  // namespace mpsd::jobs
