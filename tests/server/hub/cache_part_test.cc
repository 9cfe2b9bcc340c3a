// SPDX-License-Identifier: Apache-2.0
#include "server/hub/cache_part.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include "core/base/sha256.h"
#include "tests/core/scratch_folder.h"

namespace mpsd::hub {
namespace {

namespace fs = std::filesystem;
using absl::StatusCode;

class CachePartTest : public testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<CachePart>> Open(
      const CachePart::Stop& stop = {}) {
    return CachePart::Open(blob_, lock_, file_, stop);
  }
  void WritePart(const std::string& text) {
    std::ofstream(part_, std::ios::binary) << text;
  }
  static std::string ReadAll(const fs::path& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  const fs::path folder_ = testing_support::FreshFolder("part");
  HubFile file_{"w", 10, base::Sha256Hex("0123456789")};
  const fs::path blob_ = folder_ / file_.hash;
  const fs::path part_ = folder_ / (file_.hash + ".incomplete");
  const fs::path lock_ = folder_ / "lock";
};

TEST_F(CachePartTest, BecomesTheBlobWhenWhole) {
  auto part = Open().value();
  ASSERT_TRUE(part->Append("01234").ok());
  EXPECT_FALSE(fs::exists(blob_));
  ASSERT_TRUE(part->Append("56789").ok());
  ASSERT_TRUE(part->Finish().ok());
  EXPECT_EQ(ReadAll(blob_), "0123456789");
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(CachePartTest, GoesOnWithWhatIsThere) {
  ASSERT_TRUE(Open().value()->Append("0123").ok());
  auto part = Open().value();
  EXPECT_EQ(part->size(), 4);
  ASSERT_TRUE(part->Append("456789").ok());
  EXPECT_TRUE(part->Finish().ok());
}

TEST_F(CachePartTest, AWrongHashThrowsThePartAway) {
  auto part = Open().value();
  ASSERT_TRUE(part->Append("0123456788").ok());
  EXPECT_EQ(part->Finish().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(blob_));
  EXPECT_FALSE(fs::exists(part_));
}

TEST_F(CachePartTest, TooFewBytesAreNoBlob) {
  auto part = Open().value();
  ASSERT_TRUE(part->Append("012345678").ok());
  EXPECT_EQ(part->Finish().code(), StatusCode::kDataLoss);
  EXPECT_FALSE(fs::exists(blob_));
}

TEST_F(CachePartTest, MoreBytesThanSaidAreNotWritten) {
  auto part = Open().value();
  EXPECT_EQ(part->Append("0123456789A").code(), StatusCode::kDataLoss);
  EXPECT_EQ(fs::file_size(part_), 0u);
}

TEST_F(CachePartTest, APartThatIsTooLongBeginsAnew) {
  WritePart("01234567890123");
  auto part = Open().value();
  EXPECT_EQ(part->size(), 0);
  ASSERT_TRUE(part->Append("0123456789").ok());
  EXPECT_TRUE(part->Finish().ok());
}

TEST_F(CachePartTest, BeginsAnewWhereAsked) {
  WritePart("99999");
  auto part = Open().value();
  ASSERT_TRUE(part->Begin(5).ok());
  EXPECT_EQ(part->size(), 5);
  ASSERT_TRUE(part->Begin(0).ok());
  ASSERT_TRUE(part->Append("0123456789").ok());
  EXPECT_TRUE(part->Finish().ok());
}

TEST_F(CachePartTest, OneWriterAtATime) {
  auto part = Open().value();
  EXPECT_EQ(Open().status().code(), StatusCode::kAborted);
  part.reset();
  EXPECT_TRUE(Open().ok());
  // As huggingface_hub's filelock locks.
  const int other = open(lock_.c_str(), O_RDWR);
  ASSERT_EQ(flock(other, LOCK_EX | LOCK_NB), 0);
  EXPECT_EQ(Open().status().code(), StatusCode::kAborted);
  close(other);
  EXPECT_TRUE(Open().ok());
}

TEST_F(CachePartTest, ALinkInItsPlaceIsNotWrittenThrough) {
  const fs::path victim = folder_ / "victim";
  std::ofstream(victim) << "mine";
  fs::create_symlink(victim, part_);
  EXPECT_FALSE(Open().ok());
  EXPECT_EQ(ReadAll(victim), "mine");
  fs::remove(part_);
  ASSERT_EQ(mkfifo(part_.c_str(), 0600), 0);
  EXPECT_FALSE(Open().ok());
}

TEST_F(CachePartTest, TheReadOfALongPartCanBeEnded) {
  WritePart("0123");
  EXPECT_EQ(Open([] { return true; }).status().code(), StatusCode::kCancelled);
  EXPECT_EQ(fs::file_size(part_), 4u);
}

// A limit on the size of files fails a write as a full disk does, in its midst.
TEST_F(CachePartTest, AfterAFailedWriteTheHashFitsTheBytes) {
  signal(SIGXFSZ, SIG_IGN);
  rlimit before;
  getrlimit(RLIMIT_FSIZE, &before);
  auto part = Open().value();
  rlimit small = before;
  small.rlim_cur = 6;
  setrlimit(RLIMIT_FSIZE, &small);
  const absl::Status full = part->Append("0123456789");
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(full.ok());
  EXPECT_EQ(part->size(), 6);
  ASSERT_TRUE(part->Append("6789").ok());
  EXPECT_TRUE(part->Finish().ok());
}

}  // namespace
}  // namespace mpsd::hub
