// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_batch.h"

#include <sys/stat.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "core/base/file.h"
#include "core/base/sha256.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/store/blob_store.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class BlobBatchTest : public testing::Test {
 protected:
  BlobBatchTest() {
    auto blobs = BlobStore::Open(*database_, folder_);
    EXPECT_TRUE(blobs.ok()) << blobs.status();
    blobs_ = *std::move(blobs);
  }
  static std::string Bytes(int i) { return "blob " + std::to_string(i); }
  int64_t Rows() {
    Connection& c = database_->reader();
    absl::MutexLock lock(&c.mutex());
    Query query(c, "SELECT count(*) FROM blobs");
    query.Next();
    return query.Int();
  }
  bool NothingIncoming() { return fs::is_empty(folder_ / "incoming"); }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  const fs::path folder_ = scratch_.path() / "blobs";
  std::unique_ptr<BlobStore> blobs_;
};

TEST_F(BlobBatchTest, ManyBlobsBecomeFilesAndRows) {
  auto batch = blobs_->BeginBatch();
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(batch->Add(base::Sha256Hex(Bytes(i)), Bytes(i)).ok());
  }
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex(Bytes(0))));
  const absl::Status committed = batch->Commit();
  ASSERT_TRUE(committed.ok()) << committed;
  batch.reset();
  for (int i = 0; i < 500; ++i) {
    const std::string path = blobs_->PathOf(base::Sha256Hex(Bytes(i)));
    EXPECT_EQ(*base::ReadFile(path), Bytes(i));
    struct stat info;
    ASSERT_EQ(stat(path.c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0400u);
  }
  EXPECT_EQ(Rows(), 500);
  EXPECT_TRUE(NothingIncoming());
}

TEST_F(BlobBatchTest, AFewAndNoneAndTheSameAgain) {
  EXPECT_TRUE(blobs_->BeginBatch()->Commit().ok());
  for (int round = 0; round < 2; ++round) {
    auto batch = blobs_->BeginBatch();
    for (const char* bytes : {"", "a", "a"}) {
      ASSERT_TRUE(batch->Add(base::Sha256Hex(bytes), bytes).ok());
    }
    ASSERT_TRUE(batch->Commit().ok());
  }
  EXPECT_TRUE(blobs_->Has(base::Sha256Hex("")));
  EXPECT_EQ(Rows(), 2);
  EXPECT_TRUE(NothingIncoming());
}

TEST_F(BlobBatchTest, AnotherHashIsRefused) {
  auto batch = blobs_->BeginBatch();
  const absl::Status status = batch->Add(base::Sha256Hex("a"), "b");
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("SHA-256"));
}

TEST_F(BlobBatchTest, NothingStaysOfOneThatBreaksOff) {
  auto batch = blobs_->BeginBatch();
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(batch->Add(base::Sha256Hex(Bytes(i)), Bytes(i)).ok());
  }
  EXPECT_FALSE(NothingIncoming());
  batch.reset();
  EXPECT_TRUE(NothingIncoming());
  EXPECT_EQ(Rows(), 0);
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex(Bytes(0))));
}

TEST_F(BlobBatchTest, BatchesOfTheSameBlobsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      auto batch = blobs_->BeginBatch();
      for (int i = 0; i < 100; ++i) {
        EXPECT_TRUE(batch->Add(base::Sha256Hex(Bytes(i)), Bytes(i)).ok());
      }
      const absl::Status committed = batch->Commit();
      EXPECT_TRUE(committed.ok()) << committed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Rows(), 100);
  EXPECT_TRUE(NothingIncoming());
}

}  // namespace
}  // namespace mpsd::store
