// SPDX-License-Identifier: Apache-2.0
#include "core/image/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/golden_images.h"

namespace mpsd::image {
namespace {

std::string Jpeg() { return GoldenBytes("file.photo"); }

TEST(DecodeJpeg, KnowsItsMarker) {
  EXPECT_TRUE(IsJpeg(Jpeg()));
  EXPECT_FALSE(IsJpeg(Jpeg().substr(1)));
}

TEST(DecodeJpeg, SaysThatAFileIsCut) {
  const std::string cut = Jpeg().substr(0, Jpeg().size() - 200);
  EXPECT_EQ(DecodeJpeg(cut, false).error,
            "a damaged JPEG: the file is cut short");
  EXPECT_EQ(DecodeJpeg(cut, true).error, "");
}

// As PIL does.
TEST(DecodeJpeg, RefusesAFileWithoutItsLastMarker) {
  EXPECT_EQ(DecodeJpeg(Jpeg().substr(0, Jpeg().size() - 2), false).error,
            "a damaged JPEG: the file is cut short");
}

TEST(DecodeJpeg, SaysWhatLibjpegFinds) {
  EXPECT_THAT(DecodeJpeg(Jpeg().substr(0, 100), false).error,
              testing::StartsWith("a damaged JPEG: "));
  EXPECT_EQ(DecodeJpeg("\xff\xd8\xff\xd9", true).error,
            "a damaged JPEG: JPEG datastream contains no image");
}

TEST(DecodeJpeg, RefusesABombByItsHeader) {
  std::string jpeg = Jpeg();
  const size_t frame = jpeg.find("\xff\xc0");  // then length and depth
  ASSERT_NE(frame, std::string::npos);
  jpeg.replace(frame + 5, 4, "\xff\x00\xff\x00", 4);
  EXPECT_EQ(DecodeJpeg(jpeg, false).error,
            "an image of 65280x65280 pixels, at most 89478485 are unpacked");
}

}  // namespace
}  // namespace mpsd::image
