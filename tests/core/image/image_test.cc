// SPDX-License-Identifier: Apache-2.0
#include "core/image/image.h"

#include <numeric>

#include "gtest/gtest.h"

namespace mpsd::image {
namespace {

// Pixels numbered from 1.
Image Numbered(int64_t height, int64_t width, int64_t channels) {
  Image image = Blank(height, width, channels);
  std::iota(image.pixels.begin(), image.pixels.end(), 1);
  return image;
}

TEST(Crop, KeepsABox) {
  EXPECT_EQ(Crop(Numbered(3, 4, 1), {1, 2, 2, 2}),
            (Image{2, 2, 1, {7, 8, 11, 12}}));
  EXPECT_EQ(Crop(Numbered(2, 2, 3), {1, 0, 1, 1}), (Image{1, 1, 3, {7, 8, 9}}));
}

TEST(CenterCrop, TakesTheMiddleRoundedUpAndLeft) {
  EXPECT_EQ(CenterCrop(Numbered(3, 4, 1), 2, 3),
            (Image{2, 3, 1, {1, 2, 3, 5, 6, 7}}));
}

TEST(CenterCrop, PadsWhatIsTooSmall) {
  EXPECT_EQ(CenterCrop(Numbered(1, 3, 1), 4, 2),
            (Image{4, 2, 1, {0, 0, 0, 0, 1, 2, 0, 0}}));
}

TEST(FlipHorizontally, TurnsRowsRound) {
  EXPECT_EQ(FlipHorizontally(Numbered(2, 3, 1)),
            (Image{2, 3, 1, {3, 2, 1, 6, 5, 4}}));
  EXPECT_EQ(FlipHorizontally(Numbered(1, 2, 3)),
            (Image{1, 2, 3, {4, 5, 6, 1, 2, 3}}));
}

TEST(ToChannels, WeighsColoursAsPilDoes) {
  const Image colours{1, 4, 3, {255, 0, 0, 0, 255, 0, 0, 0, 255, 9, 9, 9}};
  EXPECT_EQ(ToChannels(colours, 1), (Image{1, 4, 1, {76, 150, 29, 9}}));
  EXPECT_EQ(ToChannels(Image{1, 2, 1, {4, 5}}, 3),
            (Image{1, 2, 3, {4, 4, 4, 5, 5, 5}}));
}

}  // namespace
}  // namespace mpsd::image
