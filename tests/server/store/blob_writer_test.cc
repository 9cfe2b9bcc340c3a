// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_writer.h"

#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>
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

// --- blob writer -------------------------------------------------------------

namespace fs = std::filesystem;

class BlobWriterTest : public testing::Test {
 protected:
  BlobWriterTest() {
    fs::create_directories(scratch_.path() / "blobs");
    auto parts = PartialBlobs::Open(scratch_.path() / "partial");
    parts_ = *std::move(parts);
  }
  fs::path Final(const std::string& blob) const {
    const std::string sha256 = base::Sha256Hex(blob);
    return scratch_.path() / "blobs" / sha256.substr(0, 2) / sha256;
  }
  // For the user "ann"; nothing is kept of one without a part.
  std::unique_ptr<BlobWriter> Begin(const std::string& blob, int64_t offset,
                                    bool part = true) {
    BlobWriter::Plan plan;
    plan.final_path = Final(blob);
    plan.size_bytes = static_cast<int64_t>(blob.size());
    plan.offset_bytes = offset;
    plan.room = *room_.Reserve(plan.size_bytes - offset);
    plan.temporary = scratch_.path() / "temporary";
    if (part) {
      auto hold = parts_->Take("ann", base::Sha256Hex(blob), offset);
      EXPECT_TRUE(hold.ok()) << hold.status();
      plan.part = *std::move(hold);
    }
    auto writer = BlobWriter::Begin(*database_, names_, std::move(plan));
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  int64_t Kept(const std::string& blob) {
    return parts_->KeptBytes("ann", base::Sha256Hex(blob));
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  absl::Mutex names_;
  DiskRoom room_{scratch_.path(), 0};
  std::unique_ptr<PartialBlobs> parts_;
};

TEST_F(BlobWriterTest, WithoutAPartNothingIsKept) {
  {
    auto writer = Begin("abcdef", 0, false);
    ASSERT_TRUE(writer->Append("abc").ok());
    EXPECT_TRUE(fs::exists(scratch_.path() / "temporary"));
  }
  EXPECT_FALSE(fs::exists(scratch_.path() / "temporary"));
  auto writer = Begin("abcdef", 0, false);
  ASSERT_TRUE(writer->Append("abcdef").ok());
  ASSERT_TRUE(writer->Commit().ok());
  writer.reset();
  EXPECT_FALSE(fs::exists(scratch_.path() / "temporary"));
  EXPECT_EQ(*base::ReadFile(Final("abcdef")), "abcdef");
}

TEST_F(BlobWriterTest, APartBecomesTheBlob) {
  {
    auto writer = Begin("abcdef", 0);
    ASSERT_TRUE(writer->Append("abc").ok());
  }
  EXPECT_EQ(Kept("abcdef"), 3);
  auto writer = Begin("abcdef", 3);
  EXPECT_FALSE(*writer->CatchUp());
  ASSERT_TRUE(writer->Append("def").ok());
  ASSERT_TRUE(writer->Commit().ok());
  writer.reset();
  EXPECT_EQ(Kept("abcdef"), 0);
  EXPECT_EQ(*base::ReadFile(Final("abcdef")), "abcdef");
}

// A file that may not grow stands for a full disk.
TEST_F(BlobWriterTest, AFullDiskGetsItsBytesBack) {
  signal(SIGXFSZ, SIG_IGN);
  const std::string blob(100'000, 'b');
  auto writer = Begin(blob, 0);
  ASSERT_TRUE(writer->Append(blob.substr(0, 50'000)).ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 60'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status full = writer->Append(blob.substr(50'000));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(full.ok());
  EXPECT_TRUE(fs::is_empty(scratch_.path() / "partial"));
  writer.reset();
  EXPECT_EQ(Kept(blob), 0);
  // What it had reserved is free again.
  EXPECT_TRUE(room_.Reserve(fs::space(scratch_.path()).available / 2).ok());
}

TEST_F(BlobWriterTest, WhoLostThePartCommitsNothing) {
  PartialBlobs::Options options;
  options.silence = absl::ZeroDuration();
  parts_ = *PartialBlobs::Open(scratch_.path() / "partial", options);
  auto first = Begin("abcdef", 0);
  ASSERT_TRUE(first->Append("abcdef").ok());
  auto second = Begin("abcdef", 6);
  EXPECT_TRUE(absl::IsAborted(first->Commit()));
  first.reset();
  EXPECT_FALSE(fs::exists(Final("abcdef")));
  EXPECT_FALSE(*second->CatchUp());
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_EQ(*base::ReadFile(Final("abcdef")), "abcdef");
}

// --- blob batch --------------------------------------------------------------

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
