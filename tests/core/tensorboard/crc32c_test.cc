// SPDX-License-Identifier: Apache-2.0
#include "core/tensorboard/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace mpsd::tensorboard {
namespace {

// RFC 3720, B.4.
TEST(Crc32c, IsTheOneOfTheRfc) {
  EXPECT_EQ(Crc32c(""), 0u);
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  std::string rising;
  for (char c = 0; c < 32; ++c) rising.push_back(c);
  EXPECT_EQ(Crc32c(rising), 0x46dd794eu);
}

// LevelDB's and TensorFlow's mask, of the CRC 0xe3069283.
TEST(MaskedCrc32c, IsRotatedAndMoved) {
  EXPECT_EQ(MaskedCrc32c("123456789"),
            ((0xe3069283u >> 15) | (0xe3069283u << 17)) + 0xa282ead8u);
  EXPECT_EQ(MaskedCrc32c(""), 0xa282ead8u);
}

}  // namespace
}  // namespace mpsd::tensorboard
