// SPDX-License-Identifier: Apache-2.0
#include "core/attention/block_mask.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <tuple>

namespace mpsd::attention {
namespace {

const at::TensorOptions kFloats = at::kFloat;

TEST(BandMaskTest, HidesWhatLiesAfterAQueryOrBeforeItsWindow) {
  for (const int64_t window : {0, 1, 3, 7}) {
    const int64_t count = 4, keys = 9;
    const at::Tensor band = BandMask(count, keys, window, kFloats);
    ASSERT_EQ(band.sizes(), (std::vector<int64_t>{count, keys}));
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t before = keys - count + i - j;
        const bool seen = before >= 0 && (window == 0 || before < window);
        const float value = band[i][j].item<float>();
        EXPECT_EQ(value, seen ? 0.0f : -INFINITY)
            << i << " " << j << ", window " << window;
      }
    }
  }
}

TEST(BandMaskTest, ABlocksMaskIsACorner) {
  for (const int64_t window : {0, 3}) {
    const at::Tensor band = BandMask(6, 20, window, kFloats);
    for (const auto& [count, keys] :
         {std::pair<int64_t, int64_t>{6, 20}, {6, 6}, {4, 20}, {3, 5}}) {
      const at::Tensor corner = CornerOf(band, count, keys);
      EXPECT_TRUE(at::equal(corner, BandMask(count, keys, window, kFloats)));
      EXPECT_TRUE(corner.is_alias_of(band));
    }
  }
}

TEST(KeptBandTest, IsTheLatest) {
  KeptBand band;
  const at::Tensor first = band.Get(4, 8, 0, kFloats);
  EXPECT_TRUE(band.Get(4, 8, 0, kFloats).is_alias_of(first));
  for (const auto& [count, keys, window] :
       {std::tuple<int64_t, int64_t, int64_t>{4, 8, 3}, {4, 9, 3}, {3, 9, 3}}) {
    const at::Tensor other = band.Get(count, keys, window, kFloats);
    EXPECT_TRUE(at::equal(other, BandMask(count, keys, window, kFloats)));
    EXPECT_TRUE(band.Get(count, keys, window, kFloats).is_alias_of(other));
  }
  EXPECT_TRUE(at::equal(band.Get(4, 8, 0, kFloats), first));
}

}  // namespace
}  // namespace mpsd::attention
