// SPDX-License-Identifier: Apache-2.0
#include "core/image/decode.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/golden_images.h"

namespace mpsd::image {
namespace {

TEST(DecodeImage, GivesWhatPilGivesOfEveryKindOfFile) {
  const auto names = GoldenNames("file.");
  EXPECT_GE(names.size(), 60u);
  for (const std::string& name : names) {
    const std::string bytes = GoldenBytes("file." + name);
    auto image = DecodeImage(bytes, name);
    ASSERT_TRUE(image.ok()) << image.status();
    EXPECT_EQ(image->channels, 3);
    EXPECT_EQ(Difference(*image, GoldenImage("rgb." + name)), 0) << name;
    auto size = ReadImageSize(bytes, name);
    ASSERT_TRUE(size.ok()) << size.status();
    EXPECT_EQ(size->height, image->height);
    EXPECT_EQ(size->width, image->width);
  }
}

TEST(DecodeImage, NamesTheFileThatIsNoImage) {
  EXPECT_EQ(DecodeImage("hello", "a/b.png").status(),
            absl::InvalidArgumentError("a/b.png: neither PNG nor JPEG"));
  EXPECT_EQ(ReadImageSize("", "c.jpg").status(),
            absl::InvalidArgumentError(
                "c.jpg: the file is empty, expected PNG or JPEG"));
}

// However a file is cut or altered, there is an image or an error.
TEST(DecodeImage, SurvivesEveryCutAndFlippedByte) {
  for (const char* name :
       {"interlaced", "palette4", "progressive", "jpeg_cmyk", "restarts",
        "grey16", "turned_both", "turned_png_xmp"}) {
    const std::string bytes = GoldenBytes(std::string("file.") + name);
    for (size_t i = 0; i < bytes.size(); ++i) {
      (void)DecodeImage(bytes.substr(0, i), name);
      std::string altered = bytes;
      altered[i] = static_cast<char>(~altered[i]);
      auto image = DecodeImage(altered, name);
      if (!image.ok()) continue;
      EXPECT_EQ(std::ssize(image->pixels), image->height * image->width * 3);
    }
  }
}

}  // namespace
}  // namespace mpsd::image
