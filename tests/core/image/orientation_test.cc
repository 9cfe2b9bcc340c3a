// SPDX-License-Identifier: Apache-2.0
#include "core/image/orientation.h"

#include <random>

#include "gtest/gtest.h"
#include "tests/core/image/golden_images.h"

namespace mpsd::image {
namespace {

// What PIL makes of these files is compared by decode_test.cc.
TEST(ReadOrientation, OfExifInEveryOrder) {
  for (int i = 0; i < 10; ++i) {
    const std::string name = "file.turned_exif" + std::to_string(i);
    EXPECT_EQ(ReadOrientation(GoldenBytes(name)), i >= 1 && i <= 8 ? i : 1);
  }
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_exif_motorola")), 5);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_both")), 3);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_xmp6")), 6);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_png6")), 6);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.turned_png_late")), 2);
}

TEST(ReadOrientation, IsOneWhereNothingIsSaid) {
  EXPECT_EQ(ReadOrientation(""), 1);
  EXPECT_EQ(ReadOrientation("\xff\xd8\xff"), 1);
  EXPECT_EQ(ReadOrientation("Exif"), 1);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.photo")), 1);
  EXPECT_EQ(ReadOrientation(GoldenBytes("file.rgb8")), 1);
}

// Bytes that are anything but sound: cut, altered, and of random numbers. The
// memory is exactly as long as the text, for tools that watch its bounds.
TEST(ReadOrientation, ReadsNothingBehindTheEnd) {
  std::mt19937 random(7);
  for (const char* name :
       {"turned_exif6", "turned_exif_second", "turned_split", "turned_png_xmp",
        "turned_png_profile", "turned_xmp_element", "turned_png_late"}) {
    const std::string bytes = GoldenBytes(std::string("file.") + name);
    for (int i = 0; i < 20'000; ++i) {
      std::vector<char> altered(bytes.begin(), bytes.end());
      for (int n = random() % 6; n > 0; --n) {
        // The first bytes are what this reads; pixels come behind them.
        const size_t at = random() % std::min<size_t>(altered.size(), 160);
        altered[at] = static_cast<char>(random() % 3 ? random() : 0xff);
      }
      altered.resize(random() % (altered.size() + 1));
      altered.shrink_to_fit();
      const int orientation = ReadOrientation({altered.data(), altered.size()});
      ASSERT_GE(orientation, 1);
      ASSERT_LE(orientation, 8);
    }
  }
}

TEST(Upright, TurnsAndMirrors) {
  // 1 2 3
  // 4 5 6
  const Image image{2, 3, 1, {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(Upright(image, 0), image);
  EXPECT_EQ(Upright(image, 1), image);
  EXPECT_EQ(Upright(image, 9), image);
  EXPECT_EQ(Upright(image, 2), (Image{2, 3, 1, {3, 2, 1, 6, 5, 4}}));
  EXPECT_EQ(Upright(image, 3), (Image{2, 3, 1, {6, 5, 4, 3, 2, 1}}));
  EXPECT_EQ(Upright(image, 4), (Image{2, 3, 1, {4, 5, 6, 1, 2, 3}}));
  EXPECT_EQ(Upright(image, 5), (Image{3, 2, 1, {1, 4, 2, 5, 3, 6}}));
  EXPECT_EQ(Upright(image, 6), (Image{3, 2, 1, {4, 1, 5, 2, 6, 3}}));
  EXPECT_EQ(Upright(image, 7), (Image{3, 2, 1, {6, 3, 5, 2, 4, 1}}));
  EXPECT_EQ(Upright(image, 8), (Image{3, 2, 1, {3, 6, 2, 5, 1, 4}}));
}

}  // namespace
}  // namespace mpsd::image
