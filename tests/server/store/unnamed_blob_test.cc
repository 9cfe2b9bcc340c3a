// SPDX-License-Identifier: Apache-2.0
#include "server/store/unnamed_blob.h"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/file.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/blob_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

namespace fs = std::filesystem;

class UnnamedBlobTest : public testing::Test {
 protected:
  UnnamedBlobTest() { Open(); }
  void Open(int64_t min_free_bytes = 0) {
    blobs_.reset();
    auto blobs = BlobStore::Open(*database_, folder_, min_free_bytes);
    ASSERT_TRUE(blobs.ok()) << blobs.status();
    blobs_ = *std::move(blobs);
  }
  absl::StatusOr<std::string> Put(const std::vector<std::string>& pieces,
                                  int64_t expected = 0) {
    auto blob = blobs_->BeginUnnamed(expected);
    if (!blob.ok()) return blob.status();
    for (const std::string& piece : pieces) {
      if (absl::Status s = (*blob)->Append(piece); !s.ok()) return s;
    }
    return (*blob)->Commit();
  }
  int Incoming() const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / "incoming")) {
      count += entry.exists();
    }
    return count;
  }
  std::string Content(const std::string& sha256) const {
    return *base::ReadFile(blobs_->PathOf(sha256));
  }
  ino_t Inode(const std::string& sha256) const {
    struct stat info {};
    stat(blobs_->PathOf(sha256).c_str(), &info);
    return info.st_ino;
  }

  Scratch scratch_;
  const fs::path folder_ = scratch_.path() / "blobs";
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  std::unique_ptr<BlobStore> blobs_;
};

TEST_F(UnnamedBlobTest, GetsItsNameFromItsBytes) {
  const auto sha256 = Put({"hel", "", "lo"});
  ASSERT_TRUE(sha256.ok()) << sha256.status();
  EXPECT_EQ(*sha256, base::Sha256Hex("hello"));
  EXPECT_TRUE(blobs_->Has(*sha256));
  EXPECT_EQ(Content(*sha256), "hello");
  EXPECT_EQ(*Put({}), base::Sha256Hex(""));
  EXPECT_EQ(Incoming(), 0);
  Open();  // a daemon that starts again knows it
  EXPECT_TRUE(blobs_->Has(*sha256));
}

TEST_F(UnnamedBlobTest, MoreMayComeThanWasAnnounced) {
  const std::string large(40 << 20, 'x');
  const auto sha256 = Put({large.substr(0, 3), large.substr(3)}, 10);
  ASSERT_TRUE(sha256.ok()) << sha256.status();
  EXPECT_EQ(*sha256, base::Sha256Hex(large));
  EXPECT_TRUE(Content(*sha256) == large);
}

TEST_F(UnnamedBlobTest, LeavesNothingWithoutCommit) {
  {
    auto blob = blobs_->BeginUnnamed(5);
    ASSERT_TRUE(blob.ok());
    ASSERT_TRUE((*blob)->Append("hello").ok());
    EXPECT_EQ((*blob)->size_bytes(), 5);
    EXPECT_EQ(Incoming(), 1);
  }
  EXPECT_EQ(Incoming(), 0);
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex("hello")));
}

TEST_F(UnnamedBlobTest, AFullDiskRefusesAtOnceAndOnTheWay) {
  const int64_t free = static_cast<int64_t>(fs::space(folder_).available);
  EXPECT_TRUE(absl::IsResourceExhausted(Put({}, free * 2).status()));
  EXPECT_EQ(Incoming(), 0);
  // Nothing was announced, and the disk has to keep all but 1 MiB.
  Open(free - (1 << 20));
  const auto late = Put({std::string(4 << 20, 'x')});
  EXPECT_TRUE(absl::IsResourceExhausted(late.status())) << late.status();
  EXPECT_EQ(Incoming(), 0);
}

// A new file in the place of a blob would have no links, and would be collected
// though jobs need it.
TEST_F(UnnamedBlobTest, ABlobThatIsThereKeepsItsFile) {
  const std::string sha256 = *Put({"hello"});
  const ino_t before = Inode(sha256);
  EXPECT_EQ(*Put({"hello"}), sha256);
  EXPECT_EQ(Inode(sha256), before);
  auto writer = blobs_->Begin(sha256, 5);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->Append("hello").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  EXPECT_EQ(Inode(sha256), before);
  EXPECT_EQ(Incoming(), 0);
}

TEST_F(UnnamedBlobTest, ManyAtOnceOfTheSameBytes) {
  std::vector<std::thread> senders;
  for (int i = 0; i < 8; ++i) {
    senders.emplace_back([this] {
      for (int n = 0; n < 10; ++n) {
        EXPECT_EQ(*Put({"same"}), base::Sha256Hex("same"));
      }
    });
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(Content(base::Sha256Hex("same")), "same");
  EXPECT_EQ(Incoming(), 0);
}

}  // namespace
}  // namespace mpsd::store
