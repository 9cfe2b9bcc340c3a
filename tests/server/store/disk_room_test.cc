// SPDX-License-Identifier: Apache-2.0
#include "server/store/disk_room.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

// Half a disk's free bytes: its other users move them by less than that.
class DiskRoomTest : public testing::Test {
 protected:
  DiskRoomTest() {
    free_ =
        static_cast<int64_t>(std::filesystem::space(scratch_.path()).available);
  }
  Scratch scratch_;
  int64_t free_ = 0;
};

TEST_F(DiskRoomTest, WhatOneUploadWasGivenNoOtherGets) {
  DiskRoom room(scratch_.path(), 0);
  auto first = room.Reserve(free_ / 4 * 3);
  ASSERT_TRUE(first.ok()) << first.status();
  const absl::Status second = room.Reserve(free_ / 2).status();
  EXPECT_TRUE(absl::IsResourceExhausted(second)) << second;
  EXPECT_TRUE(room.Reserve(free_ / 8).ok());
  first->reset();
  EXPECT_TRUE(room.Reserve(free_ / 2).ok());
}

TEST_F(DiskRoomTest, BytesThatAreWrittenAreNotCountedTwice) {
  DiskRoom room(scratch_.path(), 0);
  auto first = room.Reserve(free_ / 4 * 3);
  ASSERT_TRUE(first.ok()) << first.status();
  (*first)->Used(free_ / 2);
  EXPECT_TRUE(room.Reserve(free_ / 2).ok());
  (*first)->Used(free_);  // more than was left of it
  first->reset();
  EXPECT_TRUE(room.Reserve(free_ / 4 * 3).ok());
  EXPECT_FALSE(room.Reserve(free_ * 2).ok());
}

TEST_F(DiskRoomTest, AFloorIsKeptFree) {
  DiskRoom room(scratch_.path(), free_ / 4 * 3);
  EXPECT_TRUE(room.Reserve(0).ok());
  const absl::Status refused = room.Reserve(free_ / 2).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused));
  for (const char* part : {"--min-free-bytes", "mpsctl delete"}) {
    EXPECT_NE(refused.message().find(part), std::string::npos) << refused;
  }
  DiskRoom none(scratch_.path(), std::numeric_limits<int64_t>::max());
  EXPECT_FALSE(none.Reserve(0).ok());
  DiskRoom any(scratch_.path(), 0);
  EXPECT_FALSE(any.Reserve(std::numeric_limits<int64_t>::max()).ok());
}

TEST_F(DiskRoomTest, OfManyAtOnceOnlyThoseThatFitGetIn) {
  DiskRoom room(scratch_.path(), 0);
  std::vector<std::unique_ptr<DiskRoom::Reservation>> held(8);
  std::vector<std::thread> uploads;
  for (auto& mine : held) {
    uploads.emplace_back([&] {
      auto got = room.Reserve(free_ / 10 * 3);
      if (got.ok()) mine = *std::move(got);
    });
  }
  for (std::thread& upload : uploads) upload.join();
  EXPECT_EQ(std::count_if(held.begin(), held.end(),
                          [](const auto& mine) { return mine != nullptr; }),
            3);
}

}  // namespace
}  // namespace mpsd::store
