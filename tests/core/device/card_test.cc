// SPDX-License-Identifier: Apache-2.0
#include "core/device/card.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>

#include "core/device/device.h"

namespace mpsd::device {
namespace {

TEST(Card, IsTheOneThatOpens) {
  const std::optional<Card> card = FirstCard();
  const auto device = OpenCuda();
  if (!device.ok()) return;
  ASSERT_TRUE(card);
  EXPECT_EQ((*device)->chip(), card->name);
  EXPECT_EQ((*device)->GetMemory().recommended_max.value_or(0) >> 30,
            card->memory_bytes >> 30);
}

TEST(Card, WithoutADriverThereIsNone) {
  EXPECT_FALSE(FirstCard("libno-such-driver.so.1"));
  // A library that is no driver.
  EXPECT_FALSE(FirstCard("libc.so.6"));
}

#ifndef __APPLE__
TEST(Card, HasTheNameAndMemoryThatTheDriverTells) {
  constexpr char kDriver[] = MPSD_TEST_BINARY_DIR "/fake_cuda/libcuda.so.1";
  unsetenv("FAKE_CARD");
  EXPECT_FALSE(FirstCard(kDriver)) << "a driver without a card";
  setenv("FAKE_CARD", "NVIDIA H100 80GB HBM3", 1);
  const std::optional<Card> card = FirstCard(kDriver);
  ASSERT_TRUE(card);
  EXPECT_EQ(card->name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(card->memory_bytes, int64_t{141} << 30);
  // A name that fills the driver's field.
  setenv("FAKE_CARD", std::string(1000, 'x').c_str(), 1);
  EXPECT_EQ(FirstCard(kDriver)->name, std::string(255, 'x'));
  unsetenv("FAKE_CARD");
}
#endif

}  // namespace
}  // namespace mpsd::device
