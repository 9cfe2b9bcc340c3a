// SPDX-License-Identifier: Apache-2.0
#include "server/store/partial_blobs.h"

#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

namespace fs = std::filesystem;

class PartialBlobsTest : public testing::Test {
 protected:
  PartialBlobsTest() { Open(); }
  void Open() {
    parts_.reset();
    PartialBlobs::Options options;
    options.most_of_user = 3;
    options.clock = &clock_;
    auto parts = PartialBlobs::Open(folder_, options);
    ASSERT_TRUE(parts.ok()) << parts.status();
    parts_ = *std::move(parts);
  }
  std::unique_ptr<PartialBlobs::Hold> Take(const std::string& user,
                                           const std::string& sha256,
                                           int64_t offset = 0) {
    auto hold = parts_->Take(user, sha256, offset);
    EXPECT_TRUE(hold.ok()) << hold.status();
    return hold.ok() ? *std::move(hold) : nullptr;
  }
  static absl::Status Write(PartialBlobs::Hold& hold,
                            const std::string& bytes) {
    if (absl::Status s = hold.BeginWrite(); !s.ok()) return s;
    std::ofstream(hold.path(), std::ios::app | std::ios::binary) << bytes;
    hold.EndWrite(static_cast<int64_t>(bytes.size()));
    return absl::OkStatus();
  }
  // An upload that broke off after these bytes.
  void Send(const std::string& user, const std::string& sha256,
            const std::string& bytes, int64_t offset = 0) {
    auto hold = Take(user, sha256, offset);
    ASSERT_NE(hold, nullptr);
    ASSERT_TRUE(Write(*hold, bytes).ok());
  }
  std::ptrdiff_t Files() {
    return std::distance(fs::directory_iterator(folder_), {});
  }

  static bool NothingIsWhole(const std::string&) { return false; }

  Scratch scratch_;
  const fs::path folder_ = scratch_.path() / "partial";
  fakes::FakeClock clock_;
  std::unique_ptr<PartialBlobs> parts_;
  const std::string a_ = base::Sha256Hex("a"), b_ = base::Sha256Hex("b");
};

TEST_F(PartialBlobsTest, WhatCameIsKept) {
  Send("ann", a_, "abc");
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 3);
  Send("ann", a_, "def", 3);
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 6);
  EXPECT_EQ(parts_->BytesOf("ann"), 6);
  EXPECT_EQ(parts_->KeptBytes("ann", b_), 0);
  EXPECT_EQ(parts_->KeptBytes("bob", a_), 0) << "another's";
  EXPECT_EQ(parts_->BytesOf("bob"), 0);
}

TEST_F(PartialBlobsTest, ADaemonThatWasKilledFindsIt) {
  Send("ann smith/../é", a_, "abc");
  Send("", b_, "x");
  Open();
  EXPECT_EQ(parts_->KeptBytes("ann smith/../é", a_), 3);
  EXPECT_EQ(parts_->KeptBytes("", b_), 1);
  EXPECT_EQ(parts_->BytesOf("ann smith/../é"), 3);
  EXPECT_EQ(Files(), 2);
}

TEST_F(PartialBlobsTest, WhatIsNoPartGoes) {
  const fs::path secret = scratch_.path() / "secret";
  std::ofstream(secret) << "secret";
  Send("ann", a_, "abc");
  fs::create_symlink(secret, folder_ / (b_ + ".616e6e"));
  fs::create_directory(folder_ / (b_ + ".61"));
  for (const std::string& name :
       {std::string("README"), b_, b_ + ".6", b_ + ".6A", b_ + ".zz"}) {
    std::ofstream(folder_ / name) << "x";
  }
  std::ofstream(folder_ / (b_ + ".62"));  // empty
  Open();
  EXPECT_EQ(Files(), 1);
  EXPECT_EQ(parts_->KeptBytes("ann", b_), 0);
  EXPECT_TRUE(fs::exists(secret));
}

TEST_F(PartialBlobsTest, OnlyTheDaemonReadsIt) {
  Send("ann", a_, "abc");
  struct stat info;
  ASSERT_EQ(stat(folder_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  for (const auto& file : fs::directory_iterator(folder_)) {
    ASSERT_EQ(stat(file.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0600u);
  }
}

TEST_F(PartialBlobsTest, AnOffsetThatDoesNotFitIsOutOfRange) {
  Send("ann", a_, "abc");
  for (const int64_t offset : {1, 2, 4}) {
    EXPECT_TRUE(absl::IsOutOfRange(parts_->Take("ann", a_, offset).status()));
  }
  EXPECT_TRUE(absl::IsOutOfRange(parts_->Take("ann", b_, 3).status()));
  EXPECT_TRUE(absl::IsOutOfRange(parts_->Take("bob", a_, 3).status()));
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 3);
}

TEST_F(PartialBlobsTest, AnewEmptiesIt) {
  Send("ann", a_, "abc");
  auto hold = Take("ann", a_);
  ASSERT_NE(hold, nullptr);
  EXPECT_EQ(fs::file_size(hold->path()), 0u);
  EXPECT_EQ(parts_->BytesOf("ann"), 0);
  ASSERT_TRUE(Write(*hold, "z").ok());
  hold.reset();
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 1);
}

TEST_F(PartialBlobsTest, WhatIsUnderWayCountsAsItWasBefore) {
  Send("ann", a_, "abc");
  auto hold = Take("ann", a_, 3);
  ASSERT_TRUE(Write(*hold, "defgh").ok());
  EXPECT_EQ(parts_->BytesOf("ann"), 3);
  hold.reset();
  EXPECT_EQ(parts_->BytesOf("ann"), 8);
}

TEST_F(PartialBlobsTest, OneWriterAtATime) {
  auto first = Take("ann", a_);
  ASSERT_TRUE(Write(*first, "abc").ok());
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 0) << "nothing to go on with";
  EXPECT_EQ(Take("ann", a_), nullptr);
  EXPECT_TRUE(absl::IsOutOfRange(parts_->Take("ann", a_, 3).status()));
  EXPECT_NE(Take("bob", a_), nullptr);
  ASSERT_TRUE(Write(*first, "def").ok());
  first.reset();
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 6);
}

TEST_F(PartialBlobsTest, OneThatIsSilentGivesWay) {
  auto silent = Take("ann", a_);
  ASSERT_TRUE(Write(*silent, "abc").ok());
  clock_.Advance(absl::Seconds(9));
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 0);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 3);
  auto next = Take("ann", a_, 3);
  ASSERT_NE(next, nullptr);
  EXPECT_TRUE(absl::IsAborted(Write(*silent, "zzz")));
  ASSERT_TRUE(Write(*next, "def").ok());
  // Nothing that the silent one does touches the part.
  silent->Drop();
  silent->Placed();
  silent.reset();
  EXPECT_EQ(fs::file_size(next->path()), 6u);
  next.reset();
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 6);
}

TEST_F(PartialBlobsTest, OneThatWaitsForTheDiskDoesNotGiveWay) {
  auto slow = Take("ann", a_);
  ASSERT_TRUE(slow->BeginWrite().ok());
  clock_.Advance(absl::Hours(1));
  EXPECT_EQ(Take("ann", a_), nullptr);
  slow->EndWrite(0);
  EXPECT_EQ(Take("ann", a_), nullptr) << "it has just been heard of";
}

TEST_F(PartialBlobsTest, WhatIsDroppedOrPlacedIsNotKept) {
  auto dropped = Take("ann", a_);
  ASSERT_TRUE(Write(*dropped, "abc").ok());
  dropped->Drop();
  EXPECT_FALSE(fs::exists(dropped->path()));
  dropped.reset();
  auto placed = Take("ann", b_);
  ASSERT_TRUE(Write(*placed, "abc").ok());
  fs::rename(placed->path(), scratch_.path() / "blob");
  placed->Placed();
  placed.reset();
  EXPECT_EQ(parts_->BytesOf("ann"), 0);
  EXPECT_EQ(Files(), 0);
  Take("ann", a_).reset();
  EXPECT_EQ(Files(), 0) << "nothing came";
}

TEST_F(PartialBlobsTest, SoManyOfAUser) {
  for (int i = 0; i < 10; ++i) {
    clock_.Advance(absl::Seconds(1));
    Send("ann", base::Sha256Hex(std::to_string(i)), "abc");
  }
  EXPECT_EQ(Files(), 3);
  EXPECT_EQ(parts_->BytesOf("ann"), 9);
  EXPECT_EQ(parts_->KeptBytes("ann", base::Sha256Hex("9")), 3);
  EXPECT_EQ(parts_->KeptBytes("ann", base::Sha256Hex("6")), 0);
  std::vector<std::unique_ptr<PartialBlobs::Hold>> holds;
  for (int i = 20; i < 23; ++i) {
    holds.push_back(Take("ann", base::Sha256Hex(std::to_string(i))));
    ASSERT_NE(holds.back(), nullptr);
  }
  EXPECT_EQ(Take("ann", a_), nullptr) << "all three are written to";
  EXPECT_NE(Take("bob", a_), nullptr);
}

TEST_F(PartialBlobsTest, ANameThatNoFileCanHaveKeepsNothing) {
  EXPECT_EQ(Take(std::string(65, 'u'), a_), nullptr);
  Send(std::string(64, 'u'), a_, "abc");
  EXPECT_EQ(Files(), 1);
}

TEST_F(PartialBlobsTest, TheyGoAfterAGrace) {
  Send("ann", a_, "abc");
  clock_.Advance(absl::Hours(2));
  Send("ann", b_, "defg");
  auto held = Take("bob", a_);
  ASSERT_TRUE(Write(*held, "x").ok());
  EXPECT_EQ(parts_->Collect(absl::Hours(3), NothingIsWhole).bytes, 0);
  EXPECT_EQ(parts_->Collect(absl::Hours(1), NothingIsWhole).bytes, 3);
  EXPECT_EQ(parts_->KeptBytes("ann", b_), 4);
  clock_.SetBack(absl::Hours(24));
  EXPECT_EQ(parts_->Collect(absl::Hours(1), NothingIsWhole).bytes, 0);
  EXPECT_EQ(
      parts_
          ->Collect(absl::Hours(100),
                    [&](const std::string& sha256) { return sha256 == b_; })
          .bytes,
      4)
      << "the blob came another way";
  clock_.Advance(absl::Hours(1000));
  EXPECT_EQ(parts_->Collect(absl::Hours(1), NothingIsWhole).bytes, 0)
      << "an upload under way stays";
}

TEST_F(PartialBlobsTest, TellsWhatIsIdle) {
  Send("ann", a_, "abc");
  auto held = Take("bob", b_);
  const std::vector<BlobPart> idle = parts_->Idle();
  ASSERT_EQ(idle.size(), 1u);
  EXPECT_EQ(idle[0].user, "ann");
  EXPECT_EQ(idle[0].sha256, a_);
  EXPECT_EQ(idle[0].size_bytes, 3);
  EXPECT_EQ(idle[0].last_write, clock_.Now());
}

TEST_F(PartialBlobsTest, ManyThreadsWriteEachByteOnce) {
  Send("ann", a_, "x");
  std::vector<std::thread> threads;
  std::atomic<int64_t> bytes{1};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        const int64_t kept = parts_->KeptBytes("ann", a_);
        if (kept == 0) continue;  // another thread writes
        auto hold = parts_->Take("ann", a_, kept);
        if (hold.ok() && Write(**hold, "x").ok()) ++bytes;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(bytes, 1);
  EXPECT_EQ(parts_->KeptBytes("ann", a_), bytes);
  EXPECT_EQ(static_cast<int64_t>(
                fs::file_size(fs::directory_iterator(folder_)->path())),
            bytes);
}

}  // namespace
}  // namespace mpsd::store
