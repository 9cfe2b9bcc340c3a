// SPDX-License-Identifier: Apache-2.0
#include "core/image/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/core/image/golden_images.h"

namespace mpsd::image {
namespace {

// PNG specification, annex D.
uint32_t Crc(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) {
      crc = crc & 1 ? 0xedb88320 ^ (crc >> 1) : crc >> 1;
    }
  }
  return ~crc;
}

std::string BigEndian(uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(value >> shift);
  }
  return bytes;
}

// The header of a PNG that claims to be of this size.
std::string WithSize(std::string png, uint32_t width, uint32_t height) {
  png.replace(16, 8, BigEndian(width) + BigEndian(height));
  return png.replace(29, 4, BigEndian(Crc(png.substr(12, 17))));
}

std::string Png() { return GoldenBytes("file.rgb8"); }

TEST(DecodePng, KnowsItsSignature) {
  EXPECT_TRUE(IsPng(Png()));
  EXPECT_FALSE(IsPng(Png().substr(1)));
  EXPECT_FALSE(IsPng(Png().substr(0, 7)));
}

TEST(DecodePng, SaysWhereAFileIsCut) {
  for (const size_t length : {size_t{8}, size_t{20}, Png().size() / 2}) {
    EXPECT_EQ(DecodePng(Png().substr(0, length), false).error,
              "a damaged PNG: the file is cut short");
  }
}

TEST(DecodePng, RefusesAlteredBytes) {
  std::string png = Png();
  png[60] ^= 1;
  EXPECT_THAT(DecodePng(png, false).error,
              testing::StartsWith("a damaged PNG: IDAT: "));
  png = Png();
  png[17] ^= 1;
  EXPECT_THAT(DecodePng(png, true).error,
              testing::StartsWith("a damaged PNG: IHDR: "));
}

TEST(DecodePng, RefusesABombByItsHeader) {
  for (const bool header_only : {true, false}) {
    EXPECT_EQ(DecodePng(WithSize(Png(), 65536, 65536), header_only).error,
              "an image of 65536x65536 pixels, at most 89478485 are unpacked");
  }
  const Decoded large = DecodePng(WithSize(Png(), 9000, 9000), true);
  EXPECT_EQ(large.error, "");
  EXPECT_EQ(large.image.height, 9000);
  EXPECT_TRUE(large.image.pixels.empty());
}

}  // namespace
}  // namespace mpsd::image
