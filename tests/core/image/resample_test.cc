// SPDX-License-Identifier: Apache-2.0
#include "core/image/resample.h"

#include <cstdio>

#include "gtest/gtest.h"
#include "tests/core/image/golden_images.h"

namespace mpsd::image {
namespace {

TEST(Resize, GivesWhatPillowGivesToTheLastBit) {
  const Image photo = GoldenImage("rgb.photo");
  const auto names = GoldenNames("resized.");
  EXPECT_EQ(names.size(), 48u);
  for (const std::string& name : names) {
    int filter = 0, height = 0, width = 0;
    ASSERT_EQ(std::sscanf(name.c_str(), "%d.%dx%d", &filter, &height, &width),
              3);
    const Image resized =
        Resize(photo, height, width, static_cast<Filter>(filter));
    EXPECT_EQ(Difference(resized, GoldenImage("resized." + name)), 0) << name;
  }
}

TEST(Resize, TreatsGreyAsEachOfThreeEqualChannels) {
  const Image grey = ToChannels(GoldenImage("rgb.photo"), 1);
  for (int filter = 0; filter < 6; ++filter) {
    const Image one = Resize(grey, 17, 50, static_cast<Filter>(filter));
    const Image three =
        Resize(ToChannels(grey, 3), 17, 50, static_cast<Filter>(filter));
    EXPECT_EQ(ToChannels(one, 3), three) << filter;
  }
}

TEST(Resize, LeavesAnImageOfTheSizeAsItIs) {
  const Image photo = GoldenImage("rgb.photo");
  EXPECT_EQ(Resize(photo, photo.height, photo.width, Filter::kLanczos), photo);
}

}  // namespace
}  // namespace mpsd::image
