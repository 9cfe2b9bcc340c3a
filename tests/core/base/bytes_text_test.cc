// SPDX-License-Identifier: Apache-2.0
#include "core/base/bytes_text.h"

#include <gtest/gtest.h>

namespace mpsd::base {
namespace {

TEST(BytesText, HasTheUnitThatFits) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(957056), "934.6 KiB");
  EXPECT_EQ(BytesText(340.0 * (1 << 20)), "340.0 MiB");
  EXPECT_EQ(BytesText(-3.0 * (1 << 20)), "-3.0 MiB");
  EXPECT_EQ(BytesText(1.5 * (1 << 30)), "1.50 GiB");
  EXPECT_EQ(BytesText(2.25 * 1024 * (1 << 30)), "2.25 TiB");
}

TEST(BytesText, NoUnitHas1024OfASmallerOne) {
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1024), "1.0 KiB");
  EXPECT_EQ(BytesText((1 << 20) - 1), "1.0 MiB");
  EXPECT_EQ(BytesText((1 << 30) - 1), "1.00 GiB");
  EXPECT_EQ(BytesText(1024.0 * (1 << 30) - 1), "1.00 TiB");
}

}  // namespace
}  // namespace mpsd::base
