// SPDX-License-Identifier: Apache-2.0
#include "core/image/image_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/image_files.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::image {
namespace {

namespace fs = std::filesystem;
using testing_support::FreshFolder;

TEST(ListImages, JoinsSetsOfEveryKind) {
  const fs::path folder = FreshFolder("list_all");
  WriteImage(folder / "set/cat/1.png");
  const std::string rows = WriteFile(
      folder / "rows.jsonl", R"({"image": "set/cat/1.png", "label": "dog"})");
  const std::string arrays = WriteArrays(
      folder / "a.safetensors", at::zeros({2, 4, 5}, at::kByte), at::arange(2));
  auto list = ListImages({folder / "set", rows, arrays}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  std::vector<std::string> labels, places;
  const auto place = PlacesOf(*list);
  for (size_t i = 0; i < list->entries.size(); ++i) {
    labels.push_back(LabelValues(*list)[i].text);
    places.push_back(place(i));
  }
  EXPECT_THAT(labels, testing::ElementsAre("cat", "dog", "0", "1"));
  EXPECT_THAT(places, testing::ElementsAre((folder / "set/cat/1.png").string(),
                                           rows + ":1", arrays + "[0]",
                                           arrays + "[1]"));
  EXPECT_EQ(list->hash.size(), 64u);
  EXPECT_EQ(list->entries[0].width, 13);
  EXPECT_EQ(list->entries[3].width, 5);
}

TEST(ListImages, HashesNamesAndContents) {
  const auto hash = [](const char* set, const char* name, const char* golden) {
    const fs::path folder = FreshFolder(set);
    WriteImage(folder / name, golden);
    auto list = ListImages({folder}, {});
    EXPECT_TRUE(list.ok()) << list.status();
    return list.ok() ? list->hash : "";
  };
  const std::string first = hash("h1", "cat/1.png", "rgb8");
  EXPECT_EQ(first, hash("h2", "cat/1.png", "rgb8"));
  EXPECT_NE(first, hash("h3", "dog/1.png", "rgb8"));
  EXPECT_NE(first, hash("h4", "cat/1.png", "rgb16"));
}

TEST(ListImages, SaysWhichPathThereIsNot) {
  auto list = ListImages({"/nowhere/images"}, {});
  EXPECT_EQ(list.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(ErrorOf("/nowhere/images"),
              testing::HasSubstr("/nowhere/images"));
}

TEST(ListImages, StopsAtFiveFaults) {
  const fs::path folder = FreshFolder("list_faults");
  for (int i = 0; i < 9; ++i) {
    WriteFile(folder / "cat" / std::to_string(i), "no image");
  }
  const std::string error = ErrorOf(folder);
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 5);
  EXPECT_THAT(error, testing::EndsWith("(reading stopped at 5 bad rows)"));
}

TEST(ReadImage, DecodesFilesAndCopiesArrays) {
  const fs::path folder = FreshFolder("read_image");
  WriteImage(folder / "set/cat/1.jpg", "photo");
  const std::string arrays = WriteArrays(
      folder / "a.safetensors", at::arange(24, at::kByte).view({1, 2, 4, 3}),
      at::zeros({1}, at::kLong));
  auto list = ListImages({folder / "set", arrays}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  auto photo = ReadImage(list->entries[0]);
  ASSERT_TRUE(photo.ok()) << photo.status();
  EXPECT_EQ(*photo, GoldenImage("rgb.photo"));
  auto array = ReadImage(list->entries[1]);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->channels, 3);
  EXPECT_EQ(array->pixels[23], 23);
}

TEST(ReadImage, NamesTheFileThatIsDamaged) {
  const fs::path folder = FreshFolder("read_damaged");
  const std::string photo = GoldenBytes("file.photo");
  WriteFile(folder / "1.jpg", photo.substr(0, photo.size() - 100));
  const std::string rows =
      WriteFile(folder / "rows.jsonl", R"({"image": "1.jpg", "label": "dog"})");
  auto list = ListImages({rows}, {});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(
      ReadImage(list->entries[0]).status(),
      absl::InvalidArgumentError(rows + ":1: " + (folder / "1.jpg").string() +
                                 ": a damaged JPEG: the file is cut short"));
}

}  // namespace
}  // namespace mpsd::image
