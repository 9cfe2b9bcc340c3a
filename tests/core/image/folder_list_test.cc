// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_roots.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/image_files.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing_support::FreshFolder;

// "cat 1.png", … of the entries.
std::vector<std::string> Labelled(const fs::path& folder,
                                  const ListOptions& options = {}) {
  auto list = ListImages({folder}, options);
  EXPECT_TRUE(list.ok()) << list.status();
  std::vector<std::string> found;
  if (!list.ok()) return found;
  for (const Entry& e : list->entries) {
    found.push_back(e.label.text + " " + e.file.filename().string());
  }
  return found;
}

TEST(ListFolder, TakesAFolderForEachClass) {
  const fs::path folder = FreshFolder("folder_classes");
  for (const char* name : {"dog/b.png", "dog/a.png", "dog/deep/c.png",
                           "cat/1.jpg", "1.5/x.png", "7/y.png"}) {
    WriteImage(folder / name);
  }
  WriteFile(folder / "dog/.DS_Store", "x");
  WriteFile(folder / ".git/config", "x");
  WriteFile(folder / "LICENSE.txt", "x");
  EXPECT_THAT(Labelled(folder),
              ElementsAre("1.5 x.png", "7 y.png", "cat 1.jpg", "dog a.png",
                          "dog b.png", "dog c.png"));
  auto list = ListImages({folder}, {});
  EXPECT_EQ(list->entries[0].label.kind, data::LabelValue::Kind::kWord);
  EXPECT_EQ(list->entries[1].label.kind, data::LabelValue::Kind::kInteger);
}

TEST(ListFolder, TakesTheFirstOfEachClassInTurn) {
  const fs::path folder = FreshFolder("folder_first");
  for (const char* name :
       {"a/1.png", "a/2.png", "a/3.png", "b/1.png", "c/1.png", "c/2.png"}) {
    WriteImage(folder / name);
  }
  ListOptions options;
  options.max_samples = 5;
  EXPECT_THAT(
      Labelled(folder, options),
      ElementsAre("a 1.png", "a 2.png", "b 1.png", "c 1.png", "c 2.png"));
  options.max_samples = 2;
  EXPECT_THAT(Labelled(folder, options), ElementsAre("a 1.png", "b 1.png"));
  options.max_samples = 100;
  EXPECT_EQ(Labelled(folder, options).size(), 6u);
}

TEST(ListFolder, TakesLooseImagesWhereNoLabelIsNeeded) {
  const fs::path folder = FreshFolder("folder_loose");
  WriteImage(folder / "b.png");
  WriteImage(folder / "a.jpg", "photo");
  EXPECT_EQ(ErrorOf(folder), (folder / "a.jpg").string() +
                                 ": an image outside the class folders of " +
                                 folder.string());
  ListOptions options;
  options.labels_needed = false;
  EXPECT_THAT(Labelled(folder, options), ElementsAre(" a.jpg", " b.png"));
}

TEST(ListFolder, SaysWhatIsBad) {
  const std::string png = GoldenBytes("file.rgb8");
  const std::string jpeg = GoldenBytes("file.photo");
  struct Bad {
    const char* file;
    std::string bytes;
    std::string message;  // behind the file's or folder's path
  };
  for (const Bad& bad : {
           Bad{"cat/notes.txt", "hello", "neither PNG nor JPEG"},
           Bad{"cat/empty.png", "", "the file is empty, expected PNG or JPEG"},
           Bad{"cat/1.gif", "GIF89a", "neither PNG nor JPEG"},
           Bad{"cat/1.png", png.substr(0, 20),
               "a damaged PNG: the file is cut short"},
           Bad{"cat/1.jpg", jpeg.substr(0, 30),
               "a damaged JPEG: JPEG datastream contains no image"},
       }) {
    const fs::path folder = FreshFolder("folder_bad");
    WriteImage(folder / "dog/1.png");
    const std::string path = WriteFile(folder / bad.file, bad.bytes);
    EXPECT_EQ(ErrorOf(folder), path + ": " + bad.message);
  }
}

TEST(ListFolder, RefusesEmptyFolders) {
  const fs::path folder = FreshFolder("folder_empty");
  EXPECT_EQ(ErrorOf(folder),
            folder.string() +
                ": no images; expected a folder with a folder for each class");
  WriteImage(folder / "cat/1.png");
  fs::create_directories(folder / "dog/deep");
  EXPECT_EQ(ErrorOf(folder),
            (folder / "dog").string() + ": a class folder without images");
}

// Not even the names of files beyond the roots are told.
TEST(ListFolder, FollowsNoLinkOutOfTheRoots) {
  const fs::path folder = FreshFolder("folder_roots");
  WriteImage(folder / "in/cat/1.png");
  WriteImage(folder / "in/cats/2.png");
  WriteImage(folder / "out/a-secret-name.png");
  fs::create_directory_symlink("cats", folder / "in/lynx");
  base::LimitReads(base::ReadRoots({folder / "in"}));
  EXPECT_TRUE(ListImages({folder / "in"}, {}).ok());
  fs::create_directory_symlink("../out", folder / "in/dog");
  const absl::Status status = ListImages({folder / "in"}, {}).status();
  base::LimitReads(base::ReadRoots({"/"}));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("in/dog"));
  EXPECT_THAT(std::string(status.message()),
              testing::Not(testing::HasSubstr("a-secret-name")));
}

TEST(ListFolder, EndsWhereLinksGoRound) {
  const fs::path folder = FreshFolder("folder_round");
  WriteImage(folder / "cat/1.png");
  fs::create_directory_symlink(folder / "cat", folder / "cat/again");
  EXPECT_THAT(ErrorOf(folder), testing::HasSubstr("folders deep"));
}

}  // namespace
}  // namespace mpsd::image
