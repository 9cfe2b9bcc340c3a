// SPDX-License-Identifier: Apache-2.0
#include "core/image/augment.h"

#include <cmath>
#include <set>

#include "gtest/gtest.h"

namespace mpsd::image {
namespace {

Augmentation Draw(const spec::AugmentationSpec& spec, int64_t height,
                  int64_t width, int64_t sample, int64_t epoch = 0,
                  uint64_t seed = 42) {
  data::Random random = RandomOfSample(seed, epoch, sample);
  return DrawAugmentation(spec, height, width, random);
}

TEST(DrawAugmentation, IsAFunctionOfSeedEpochAndSample) {
  const spec::AugmentationSpec spec;
  std::set<std::tuple<int64_t, int64_t, int64_t, int64_t>> boxes;
  for (uint64_t seed : {1, 2}) {
    for (int64_t epoch : {0, 1}) {
      for (int64_t sample : {0, 1, 2}) {
        const Box box = Draw(spec, 200, 300, sample, epoch, seed).crop;
        EXPECT_EQ(box, Draw(spec, 200, 300, sample, epoch, seed).crop);
        boxes.insert({box.top, box.left, box.height, box.width});
      }
    }
  }
  EXPECT_EQ(boxes.size(), 12u);
}

// Resuming a run made by another version must not change its images.
TEST(DrawAugmentation, KeepsItsNumbersForGood) {
  const Augmentation drawn = Draw({}, 200, 300, 7, 3);
  EXPECT_EQ(drawn.crop, (Box{52, 33, 141, 188}));
  EXPECT_TRUE(drawn.flip);
}

TEST(DrawAugmentation, CutsWhatTorchvisionWouldCut) {
  const spec::AugmentationSpec spec;
  const int64_t height = 240, width = 320;
  double area = 0, logarithm = 0, flips = 0, top = 0;
  constexpr int kDraws = 20000;
  for (int i = 0; i < kDraws; ++i) {
    const Augmentation drawn = Draw(spec, height, width, i);
    const Box& box = drawn.crop;
    ASSERT_GE(box.top, 0);
    ASSERT_GE(box.left, 0);
    ASSERT_LE(box.top + box.height, height);
    ASSERT_LE(box.left + box.width, width);
    const double ratio = static_cast<double>(box.width) / box.height;
    ASSERT_GT(ratio, 0.73);
    ASSERT_LT(ratio, 1.37);
    area += static_cast<double>(box.height * box.width) / (height * width);
    logarithm += std::log(ratio);
    if (box.height < height) {
      top += static_cast<double>(box.top) / (height - box.height);
    }
    flips += drawn.flip;
  }
  // Means of 200000 draws of torchvision's get_params on this size.
  EXPECT_NEAR(area / kDraws, 0.4343, 0.006);
  EXPECT_NEAR(logarithm / kDraws, 0.0307, 0.005);
  EXPECT_NEAR(top / kDraws, 0.5, 0.01);
  EXPECT_NEAR(flips / kDraws, 0.5, 0.015);
}

TEST(DrawAugmentation, TakesTheMiddleWhereNothingFits) {
  const spec::AugmentationSpec spec;
  EXPECT_EQ(Draw(spec, 10, 1000, 0).crop, (Box{0, 493, 10, 13}));
  EXPECT_EQ(Draw(spec, 1000, 10, 0).crop, (Box{493, 0, 13, 10}));
  spec::AugmentationSpec whole;
  whole.crop_scale_min = whole.crop_scale_max = 2;
  EXPECT_EQ(Draw(whole, 30, 31, 0).crop, (Box{0, 0, 30, 31}));
}

TEST(DrawAugmentation, LeavesOutWhatIsOff) {
  spec::AugmentationSpec off;
  off.random_resized_crop = false;
  off.horizontal_flip = 0;
  spec::AugmentationSpec always = off;
  always.horizontal_flip = 1;
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(Draw(off, 5, 6, i).crop, (Box{0, 0, 5, 6}));
    EXPECT_FALSE(Draw(off, 5, 6, i).flip);
    EXPECT_TRUE(Draw(always, 5, 6, i).flip);
  }
}

}  // namespace
}  // namespace mpsd::image
