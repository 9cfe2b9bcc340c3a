// SPDX-License-Identifier: Apache-2.0
#include "core/image/image_cache.h"

#include "gtest/gtest.h"

namespace mpsd::image {
namespace {

using Form = ImageCache::Form;

std::shared_ptr<const Image> Of(int64_t bytes) {
  return std::make_shared<const Image>(Blank(1, bytes, 1));
}

TEST(ImageCache, KeepsOneFormOfAnImage) {
  ImageCache cache(2, 100);
  EXPECT_EQ(cache.Find(1, Form::kDecoded), nullptr);
  const auto image = Of(10);
  cache.Offer(1, Form::kFitted, image);
  cache.Offer(1, Form::kDecoded, Of(20));
  EXPECT_EQ(cache.Find(1, Form::kFitted), image);
  EXPECT_EQ(cache.Find(1, Form::kDecoded), nullptr);
  EXPECT_EQ(cache.Find(0, Form::kFitted), nullptr);
  EXPECT_EQ(cache.bytes(), 10u);
}

TEST(ImageCache, TakesNoMoreThanItsBytes) {
  ImageCache cache(3, 25);
  cache.Offer(0, Form::kDecoded, Of(20));
  cache.Offer(1, Form::kDecoded, Of(6));
  cache.Offer(2, Form::kDecoded, Of(5));
  EXPECT_NE(cache.Find(0, Form::kDecoded), nullptr);
  EXPECT_EQ(cache.Find(1, Form::kDecoded), nullptr);
  EXPECT_NE(cache.Find(2, Form::kDecoded), nullptr);
  EXPECT_EQ(cache.bytes(), 25u);
}

}  // namespace
}  // namespace mpsd::image
