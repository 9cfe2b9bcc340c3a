// SPDX-License-Identifier: Apache-2.0
#include "server/store/blob_store.h"

#include <sys/resource.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <thread>

#include "absl/time/clock.h"
#include "core/base/file.h"
#include "gmock/gmock.h"
#include "tests/core/status_matchers.h"
#include "tests/fakes/fake_clock.h"
#include "tests/server/store/scratch.h"

namespace mpsd::store {
namespace {

namespace fs = std::filesystem;
using enum absl::StatusCode;

// Half a disk's free bytes: its other users move them by less than that.
class DiskRoomTest : public testing::Test {
 protected:
  Scratch scratch_;
  const int64_t free_ =
      static_cast<int64_t>(fs::space(scratch_.path()).available);
};

TEST_F(DiskRoomTest, BytesThatAreWrittenAreNotCountedTwice) {
  DiskRoom room(scratch_.path(), 0);
  auto first = Ok(room.Reserve(free_ / 4 * 3));
  ASSERT_TRUE(first->Prepare(free_ / 4 * 3).ok());
  EXPECT_FALSE(room.Reserve(free_ / 2).ok());
  first->Used(free_ / 2);
  EXPECT_TRUE(room.Reserve(free_ / 2).ok());
  first->Used(free_);  // more than was left of it
  first.reset();
  EXPECT_TRUE(room.Reserve(free_ / 4 * 3).ok());
  EXPECT_FALSE(room.Reserve(free_ * 2).ok());
}

TEST_F(DiskRoomTest, AnAnnouncementAloneTakesNoRoomFromOthers) {
  DiskRoom room(scratch_.path(), 0);
  auto silent = Ok(room.Reserve(free_ / 4 * 3));
  auto sender = Ok(room.Reserve(free_ / 4 * 3));
  ASSERT_TRUE(sender->Prepare(free_ / 4 * 3).ok());
  EXPECT_THAT(silent->Prepare(free_ / 4 * 3),
              Fails(kResourceExhausted, "--min-free-bytes"));
}

TEST_F(DiskRoomTest, AFloorIsKeptFree) {
  DiskRoom room(scratch_.path(), free_ / 4 * 3);
  EXPECT_TRUE(room.Reserve(0).ok());
  for (const char* part : {"--min-free-bytes", "mpsctl delete"}) {
    EXPECT_THAT(room.Reserve(free_ / 2), Fails(kResourceExhausted, part));
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
      if (got.ok() && (*got)->Prepare(free_ / 10 * 3).ok()) {
        mine = *std::move(got);
      }
    });
  }
  for (std::thread& upload : uploads) upload.join();
  EXPECT_EQ(std::count_if(held.begin(), held.end(),
                          [](const auto& mine) { return mine != nullptr; }),
            3);
}

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
  EXPECT_EQ(ModeOf(folder_), 0700u);
  for (const auto& file : fs::directory_iterator(folder_)) {
    EXPECT_EQ(ModeOf(file), 0600u);
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
  EXPECT_EQ(parts_->KeptBytes("ann", a_), 0) << "nothing to resume with";
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
  const auto is_whole = [&](const std::string& sha256) { return sha256 == b_; };
  EXPECT_EQ(parts_->Collect(absl::Hours(100), is_whole).bytes, 4)
      << "the blob came another way";
  clock_.Advance(absl::Hours(1000));
  EXPECT_EQ(parts_->Collect(absl::Hours(1), NothingIsWhole).bytes, 0)
      << "an upload under way stays";
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

class BlobStoreTest : public testing::Test {
 protected:
  BlobStoreTest() {
    fs::create_directories(jobs_dir_);
    Open();
  }
  void Open() {
    blobs_.reset();
    auto blobs = BlobStore::Open(*database_, folder_);
    ASSERT_TRUE(blobs.ok()) << blobs.status();
    blobs_ = *std::move(blobs);
  }
  absl::Status Put(const std::string& bytes) {
    auto writer = blobs_->Begin(base::Sha256Hex(bytes), bytes.size());
    if (!writer.ok()) return writer.status();
    absl::Status appended = (*writer)->Append(bytes);
    return appended.ok() ? (*writer)->Commit() : appended;
  }
  // "SHA256 SIZE".
  std::vector<std::string> Rows() {
    Connection& c = database_->reader();
    absl::MutexLock lock(&c.mutex());
    std::vector<std::string> rows;
    Query query(c, "SELECT sha256, size_bytes FROM blobs ORDER BY sha256");
    while (query.Next()) {
      std::string row = query.Text();
      rows.push_back(row + " " + std::to_string(query.Int()));
    }
    return rows;
  }
  static std::string Bytes(int i) { return "blob " + std::to_string(i); }
  std::unique_ptr<store::BlobBatch> Batch(int count) {
    auto batch = blobs_->BeginBatch();
    for (int i = 0; i < count; ++i) {
      EXPECT_TRUE(batch->Add(base::Sha256Hex(Bytes(i)), Bytes(i)).ok());
    }
    return batch;
  }
  int Incoming() const { return FilesIn("incoming"); }
  int FilesIn(const char* folder) const {
    int count = 0;
    for (const auto& entry : fs::directory_iterator(folder_ / folder)) {
      count += entry.exists();
    }
    return count;
  }
  // An upload of "ann" from `offset` on that breaks off after `bytes`, or is
  // whole where the blob is.
  absl::Status Send(const std::string& blob, int64_t offset,
                    const std::string& bytes) {
    auto writer = blobs_->Resume("ann", base::Sha256Hex(blob),
                                 static_cast<int64_t>(blob.size()), offset);
    if (!writer.ok()) return writer.status();
    absl::StatusOr<bool> more = true;
    while (more.ok() && *more) more = (*writer)->CatchUp();
    if (!more.ok()) return more.status();
    absl::Status status = (*writer)->Append(bytes);
    if (!status.ok() || offset + bytes.size() < blob.size()) return status;
    return (*writer)->Commit();
  }
  int64_t Kept(const std::string& blob) {
    return blobs_->KeptBytes("ann", base::Sha256Hex(blob));
  }

  Scratch scratch_;
  std::unique_ptr<Database> database_ = OpenOrDie(scratch_.file());
  const fs::path folder_ = scratch_.path() / "blobs";
  const fs::path jobs_dir_ = scratch_.path() / "jobs";
  std::unique_ptr<BlobStore> blobs_;
};

TEST_F(BlobStoreTest, ABlobIsAFileUnderItsHash) {
  const std::string bytes = "{\"text\": \"hello\"}\n";
  const std::string sha256 = base::Sha256Hex(bytes);
  EXPECT_FALSE(blobs_->Has(sha256));
  ASSERT_TRUE(Put(bytes).ok());
  EXPECT_TRUE(blobs_->Has(sha256));
  EXPECT_EQ(blobs_->PathOf(sha256),
            (folder_ / sha256.substr(0, 2) / sha256).string());
  EXPECT_EQ(*base::ReadFile(blobs_->PathOf(sha256)), bytes);
  EXPECT_EQ(ModeOf(blobs_->PathOf(sha256)), 0400u);
  EXPECT_THAT(Rows(), testing::ElementsAre(sha256 + " 18"));
  EXPECT_EQ(Incoming(), 0);
}

TEST_F(BlobStoreTest, TwiceIsOnce) {
  ASSERT_TRUE(Put("a").ok());
  ASSERT_TRUE(Put("a").ok());
  EXPECT_EQ(Rows().size(), 1u);
  ASSERT_TRUE(Put("").ok()) << "an empty blob is a blob";
  EXPECT_TRUE(blobs_->Has(base::Sha256Hex("")));
}

TEST_F(BlobStoreTest, AnotherHashIsRefusedAndLeavesNothing) {
  const std::string announced = base::Sha256Hex("a");
  {
    auto writer = blobs_->Begin(announced, 1);
    ASSERT_TRUE(writer.ok());
    ASSERT_TRUE((*writer)->Append("b").ok());
    EXPECT_THAT((*writer)->Commit(), Fails(kInvalidArgument, announced));
  }
  EXPECT_FALSE(blobs_->Has(announced));
  EXPECT_EQ(Incoming(), 0);
  EXPECT_TRUE(Rows().empty());
}

TEST_F(BlobStoreTest, AnotherSizeIsRefused) {
  auto shorter = blobs_->Begin(base::Sha256Hex("ab"), 3);
  ASSERT_TRUE((*shorter)->Append("ab").ok());
  EXPECT_THAT((*shorter)->Commit(), Fails(kInvalidArgument));
  auto longer = blobs_->Begin(base::Sha256Hex("ab"), 1);
  EXPECT_THAT((*longer)->Append("ab"), Fails(kInvalidArgument));
}

TEST_F(BlobStoreTest, ImpossibleRequestsAreRefused) {
  const std::string a = base::Sha256Hex("a");
  EXPECT_THAT(blobs_->Begin("../../etc/passwd", 1), Fails(kInvalidArgument));
  EXPECT_THAT(blobs_->Begin(a, -1), Fails(kInvalidArgument));
  EXPECT_THAT(blobs_->Begin(a, INT64_MAX), Fails(kResourceExhausted));
  EXPECT_FALSE(blobs_->Has("../mpsd.db"));
  EXPECT_EQ(blobs_->PathOf("../mpsd.db"), "");
  EXPECT_FALSE(blobs_->Has(std::string(64, 'A')));
  EXPECT_EQ(Incoming(), 0);
}

TEST_F(BlobStoreTest, AnAbandonedUploadLeavesNothing) {
  {
    auto writer = blobs_->Begin(base::Sha256Hex("abc"), 3);
    ASSERT_TRUE((*writer)->Append("ab").ok());
    EXPECT_EQ(Incoming(), 1);
  }
  EXPECT_EQ(Incoming(), 0);
}

TEST_F(BlobStoreTest, OpenSweepsWhatADeadDaemonLeft) {
  const fs::path left = folder_ / "incoming" / "half";
  ASSERT_TRUE(base::WriteFileAtomic(left, "half").ok());
  Open();
  EXPECT_FALSE(fs::exists(left));
}

TEST_F(BlobStoreTest, OpenMakesTheRowsFollowTheFiles) {
  ASSERT_TRUE(Put("kept").ok());
  ASSERT_TRUE(Put("deleted").ok());
  fs::remove(blobs_->PathOf(base::Sha256Hex("deleted")));
  const std::string found = base::Sha256Hex("found");
  fs::create_directories(fs::path(blobs_->PathOf(found)).parent_path());
  ASSERT_TRUE(base::WriteFileAtomic(blobs_->PathOf(found), "found").ok());
  ASSERT_TRUE(
      base::WriteFileAtomic(folder_ / found.substr(0, 2) / "README", "x").ok());
  Open();
  EXPECT_THAT(Rows(), testing::UnorderedElementsAre(
                          base::Sha256Hex("kept") + " 4", found + " 5"));
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex("deleted")));
  EXPECT_TRUE(blobs_->Has(found));
}

TEST_F(BlobStoreTest, BlobsThatNoJobUsesGo) {
  fs::create_directories(jobs_dir_ / "ID/inputs");
  ASSERT_TRUE(Put("used").ok());
  ASSERT_TRUE(Put("unused").ok());
  fs::create_hard_link(blobs_->PathOf(base::Sha256Hex("used")),
                       jobs_dir_ / "ID/inputs/train.jsonl");
  EXPECT_EQ(blobs_->Collect(jobs_dir_, absl::Hours(1))->bytes, 0);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(blobs_->Collect(jobs_dir_, absl::Milliseconds(1))->bytes, 6);
  EXPECT_TRUE(blobs_->Has(base::Sha256Hex("used")));
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex("unused")));
  EXPECT_THAT(Rows(), testing::ElementsAre(base::Sha256Hex("used") + " 4"));
  EXPECT_EQ(Incoming(), 0);
  EXPECT_TRUE(fs::exists(jobs_dir_ / "ID"));
  EXPECT_EQ(std::distance(fs::directory_iterator(jobs_dir_), {}), 1);

  // The job is deleted: its grace begins then.
  fs::remove_all(jobs_dir_ / "ID");
  EXPECT_EQ(blobs_->Collect(jobs_dir_, absl::Hours(1))->bytes, 0);
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(blobs_->Collect(jobs_dir_, absl::Milliseconds(1))->bytes, 4);
  EXPECT_TRUE(Put("used").ok());
}

TEST_F(BlobStoreTest, WithoutHardLinksNothingIsCollected) {
  ASSERT_TRUE(Put("unused").ok());
  absl::SleepFor(absl::Milliseconds(50));
  EXPECT_EQ(
      blobs_->Collect(scratch_.path() / "none", absl::Milliseconds(1))->bytes,
      0);
  EXPECT_TRUE(blobs_->Has(base::Sha256Hex("unused")));
}

TEST_F(BlobStoreTest, ABlobWithALinkFromAModelOrAFileStays) {
  fs::create_directories(scratch_.path() / "models/mine");
  ASSERT_TRUE(Put("weights").ok());
  ASSERT_TRUE(Put("unused").ok());
  ASSERT_TRUE(Put("unused and larger").ok());
  const std::string weights = base::Sha256Hex("weights");
  fs::create_hard_link(blobs_->PathOf(weights),
                       scratch_.path() / "models/mine/model.safetensors");
  absl::SleepFor(absl::Milliseconds(50));
  // What would go is listed, the largest first, and stays.
  const auto found =
      Ok(blobs_->FindUnused(jobs_dir_, absl::Milliseconds(1), 1));
  ASSERT_EQ(found.blobs.size(), 1u);
  EXPECT_EQ(found.blobs[0].sha256, base::Sha256Hex("unused and larger"));
  EXPECT_EQ(found.blobs[0].size_bytes, 17);
  EXPECT_EQ(found.more, 1);
  EXPECT_EQ(found.more_bytes, 6);
  EXPECT_EQ(Rows().size(), 3u);
  const auto removed = Ok(blobs_->Collect(jobs_dir_, absl::Milliseconds(1)));
  EXPECT_EQ(removed.blobs, 2);
  EXPECT_EQ(removed.bytes, 23);
  EXPECT_TRUE(blobs_->Has(weights));
  EXPECT_TRUE(
      blobs_->FindUnused(jobs_dir_, absl::Milliseconds(1), 1)->blobs.empty());
}

// A submission: asked for or uploaded, then linked.
TEST_F(BlobStoreTest, AReportedBlobIsFound) {
  const std::string sha256 = base::Sha256Hex("wanted");
  std::atomic<bool> done{false};
  std::atomic<int> collected{0};
  std::thread collects([&] {
    while (!done) {
      collected +=
          blobs_->Collect(jobs_dir_, absl::Milliseconds(200))->bytes > 0;
    }
  });
  int uploads = 0;
  for (int i = 0; i < 40; ++i) {
    const absl::Time asked = absl::Now();
    if (!blobs_->Has(sha256)) {
      ++uploads;
      ASSERT_TRUE(Put("wanted").ok());
    }
    std::error_code error;
    fs::create_hard_link(blobs_->PathOf(sha256), jobs_dir_ / "link", error);
    // Unless this thread was held up for the grace. (A file's time may be some
    // milliseconds old.)
    if (absl::Now() - asked < absl::Milliseconds(150)) {
      EXPECT_FALSE(error) << error.message();
    }
    fs::remove(jobs_dir_ / "link");
    // Every now and then no job uses it, until it goes.
    for (int n = 0; i % 8 == 7 && n < 6000; ++n) {
      if (!fs::exists(blobs_->PathOf(sha256))) break;
      absl::SleepFor(absl::Milliseconds(10));
    }
  }
  done = true;
  collects.join();
  EXPECT_GT(collected, 0);
  EXPECT_GT(uploads, 1);
}

TEST_F(BlobStoreTest, AnUploadResumesWhereItBrokeOff) {
  const std::string blob(100'000, 'z');
  ASSERT_TRUE(Send(blob, 0, blob.substr(0, 60'000)).ok());
  EXPECT_EQ(Kept(blob), 60'000);
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex(blob)));
  EXPECT_EQ(Incoming(), 0);
  Open();  // killed and started again
  EXPECT_EQ(Kept(blob), 60'000);
  EXPECT_TRUE(absl::IsOutOfRange(Send(blob, 59'999, "z")));
  ASSERT_TRUE(Send(blob, 60'000, "zz").ok());
  ASSERT_TRUE(Send(blob, 60'002, blob.substr(60'002)).ok());
  EXPECT_EQ(Kept(blob), 0);
  const std::string sha256 = base::Sha256Hex(blob);
  EXPECT_EQ(*base::ReadFile(blobs_->PathOf(sha256)), blob);
  EXPECT_EQ(ModeOf(blobs_->PathOf(sha256)), 0400u);
  EXPECT_EQ(FilesIn("partial"), 0);
  EXPECT_EQ(Rows().size(), 1u);
}

// kill -9 after the last byte, before the rename.
TEST_F(BlobStoreTest, AWholePartNeedsNoMoreBytes) {
  ASSERT_TRUE(Send("whole", 0, "whol").ok());
  ASSERT_TRUE(Send("whole", 4, "").ok());
  for (const auto& part : fs::directory_iterator(folder_ / "partial")) {
    ASSERT_EQ(chmod(part.path().c_str(), 0600), 0);
    ASSERT_TRUE(base::WriteFileAtomic(part.path(), "whole").ok());
    ASSERT_EQ(chmod(part.path().c_str(), 0400), 0);
  }
  Open();
  EXPECT_EQ(Kept("whole"), 5);
  EXPECT_TRUE(Send("whole", 5, "").ok());
  EXPECT_TRUE(blobs_->Has(base::Sha256Hex("whole")));
}

TEST_F(BlobStoreTest, APartThatIsNotTheBeginningIsThrownAway) {
  ASSERT_TRUE(Send("right", 0, "wro").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Send("right", 3, "ht")));
  EXPECT_EQ(Kept("right"), 0);
  EXPECT_EQ(FilesIn("partial"), 0);
  // More than announced, too.
  ASSERT_TRUE(Send("right", 0, "rig").ok());
  EXPECT_TRUE(absl::IsInvalidArgument(Send("right", 3, "ht.")));
  EXPECT_EQ(Kept("right"), 0);
  EXPECT_TRUE(Send("right", 0, "right").ok());
}

TEST_F(BlobStoreTest, AnUploadThatEndsTooEarlyKeepsItsBytes) {
  {
    auto writer = blobs_->Resume("ann", base::Sha256Hex("abc"), 3, 0);
    ASSERT_TRUE((*writer)->Append("ab").ok());
    EXPECT_TRUE(absl::IsInvalidArgument((*writer)->Commit()));
  }
  EXPECT_EQ(Kept("abc"), 2);
}

TEST_F(BlobStoreTest, APartThatTheDiskLostIsThrownAway) {
  ASSERT_TRUE(Send("abcdef", 0, "abcd").ok());
  {
    auto writer = Ok(blobs_->Resume("ann", base::Sha256Hex("abcdef"), 6, 4));
    for (const auto& part : fs::directory_iterator(folder_ / "partial")) {
      fs::resize_file(part.path(), 2);
    }
    EXPECT_TRUE(absl::IsDataLoss(writer->CatchUp().status()));
  }
  EXPECT_EQ(Kept("abcdef"), 0);
  EXPECT_TRUE(Send("abcdef", 0, "abcdef").ok());
}

TEST_F(BlobStoreTest, AnOffsetBeyondTheBlobIsRefused) {
  const std::string sha256 = base::Sha256Hex("abc");
  for (const int64_t offset : {int64_t{-1}, int64_t{4}, INT64_MAX}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        blobs_->Resume("ann", sha256, 3, offset).status()));
  }
}

TEST_F(BlobStoreTest, TwoUploadsOfOneUserAtOnce) {
  const std::string sha256 = base::Sha256Hex("abc");
  auto first = blobs_->Resume("ann", sha256, 3, 0);
  auto second = blobs_->Resume("ann", sha256, 3, 0);
  ASSERT_TRUE((*first)->Append("ab").ok());
  ASSERT_TRUE((*second)->Append("abc").ok());
  ASSERT_TRUE((*second)->Commit().ok());
  EXPECT_TRUE(blobs_->Has(sha256));
  ASSERT_TRUE((*first)->Append("c").ok());
  ASSERT_TRUE((*first)->Commit().ok());
  EXPECT_EQ(*base::ReadFile(blobs_->PathOf(sha256)), "abc");
  EXPECT_EQ(FilesIn("partial") + Incoming(), 0);
}

TEST_F(BlobStoreTest, PartsGoWithTheUnusedUploads) {
  ASSERT_TRUE(Send("abcdef", 0, "abcd").ok());
  EXPECT_EQ(blobs_->KeptBytesOf("ann"), 4);
  EXPECT_EQ(blobs_->Parts().size(), 1u);
  EXPECT_EQ(blobs_->Collect(jobs_dir_, absl::Hours(1))->part_bytes, 0);
  ASSERT_TRUE(Put("abcdef").ok());
  const auto removed = blobs_->Collect(jobs_dir_, absl::Hours(1));
  EXPECT_EQ(removed->part_bytes, 4);
  EXPECT_EQ(removed->parts, 1) << "whole meanwhile, though not old";
  EXPECT_EQ(blobs_->KeptBytesOf("ann"), 0);
}

TEST_F(BlobStoreTest, UploadsUnderWayShareTheDisk) {
  const auto free = static_cast<int64_t>(fs::space(folder_).available);
  const std::string one = base::Sha256Hex("one"), two = base::Sha256Hex("two");
  auto first = Ok(blobs_->Begin(one, free / 4 * 3));
  EXPECT_TRUE(blobs_->Begin(two, free / 2).ok()) << "an announcement";
  EXPECT_TRUE(absl::IsResourceExhausted(blobs_->Begin(two, 2 * free).status()));
}

TEST_F(BlobStoreTest, WritersOfOneBlobDoNotDisturbEachOther) {
  const std::string bytes(300'000, 'q');
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { EXPECT_TRUE(Put(bytes).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(*base::ReadFile(blobs_->PathOf(base::Sha256Hex(bytes))), bytes);
  EXPECT_EQ(Rows().size(), 1u);
}

TEST_F(BlobStoreTest, ManyBlobsOfABatchBecomeFilesAndRows) {
  auto batch = Batch(500);
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex(Bytes(0))));
  const absl::Status committed = batch->Commit();
  ASSERT_TRUE(committed.ok()) << committed;
  batch.reset();
  for (int i = 0; i < 500; ++i) {
    const std::string path = blobs_->PathOf(base::Sha256Hex(Bytes(i)));
    EXPECT_EQ(*base::ReadFile(path), Bytes(i));
    EXPECT_EQ(ModeOf(path), 0400u);
  }
  EXPECT_EQ(Rows().size(), 500u);
  EXPECT_EQ(Incoming(), 0);
}

TEST_F(BlobStoreTest, ABatchRefusesAnotherHash) {
  auto batch = blobs_->BeginBatch();
  EXPECT_THAT(batch->Add(base::Sha256Hex("a"), "b"),
              Fails(kInvalidArgument, "SHA-256"));
}

TEST_F(BlobStoreTest, NothingStaysOfABatchThatBreaksOff) {
  auto batch = Batch(20);
  EXPECT_GT(Incoming(), 0);
  batch.reset();
  EXPECT_EQ(Incoming(), 0);
  EXPECT_TRUE(Rows().empty());
  EXPECT_FALSE(blobs_->Has(base::Sha256Hex(Bytes(0))));
}

TEST_F(BlobStoreTest, BatchesOfTheSameBlobsDoNotDisturbEachOther) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this] {
      const absl::Status committed = Batch(100)->Commit();
      EXPECT_TRUE(committed.ok()) << committed;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Rows().size(), 100u);
  EXPECT_EQ(Incoming(), 0);
}

// A file that may not grow acts as a full disk.
TEST_F(BlobStoreTest, AFullDiskGetsItsBytesBack) {
  signal(SIGXFSZ, SIG_IGN);
  const std::string blob(100'000, 'b');
  auto writer = Ok(blobs_->Resume("ann", base::Sha256Hex(blob), 100'000, 0));
  ASSERT_TRUE(writer->Append(blob.substr(0, 50'000)).ok());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  rlimit small = before;
  small.rlim_cur = 60'000;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const absl::Status full = writer->Append(blob.substr(50'000));
  setrlimit(RLIMIT_FSIZE, &before);
  EXPECT_FALSE(full.ok());
  EXPECT_EQ(FilesIn("partial"), 0);
  writer.reset();
  EXPECT_EQ(Kept(blob), 0);
  // What it had reserved is free again.
  const auto free = static_cast<int64_t>(fs::space(folder_).available);
  EXPECT_TRUE(blobs_->Begin(base::Sha256Hex("a"), free / 2).ok());
}

TEST_F(BlobStoreTest, BytesThatFindNoRoomAreNotWritten) {
  DiskRoom full(scratch_.path(), std::numeric_limits<int64_t>::max());
  absl::Mutex names;
  BlobWriter::Plan plan;
  plan.size_bytes = 6;
  plan.room = std::make_unique<DiskRoom::Reservation>(full, 6);
  plan.temporary = scratch_.path() / "temporary";
  auto writer = *BlobWriter::Begin(*database_, names, std::move(plan));
  EXPECT_THAT(writer->Append("abc"), Fails(kResourceExhausted));
  EXPECT_EQ(fs::file_size(scratch_.path() / "temporary"), 0u);
}

TEST_F(BlobStoreTest, APartForWhichThereIsNoRoomStays) {
  const auto parts = *PartialBlobs::Open(scratch_.path() / "parts", {});
  DiskRoom full(scratch_.path(), std::numeric_limits<int64_t>::max());
  absl::Mutex names;
  const std::string sha256 = base::Sha256Hex("abcdef");
  const auto append = [&](const std::string& bytes, DiskRoom& room) {
    BlobWriter::Plan plan;
    plan.offset_bytes = parts->KeptBytes("ann", sha256);
    plan.size_bytes = 6;
    plan.room =
        std::make_unique<DiskRoom::Reservation>(room, 6 - plan.offset_bytes);
    plan.part = *parts->Take("ann", sha256, plan.offset_bytes);
    auto writer = *BlobWriter::Begin(*database_, names, std::move(plan));
    while (*writer->CatchUp()) {
    }
    return writer->Append(bytes);
  };
  DiskRoom room(scratch_.path(), 0);
  EXPECT_TRUE(append("abc", room).ok());
  EXPECT_THAT(append("def", full), Fails(kResourceExhausted));
  EXPECT_EQ(parts->KeptBytes("ann", sha256), 3);
}

TEST_F(BlobStoreTest, WhoLostThePartCommitsNothing) {
  PartialBlobs::Options options;
  options.silence = absl::ZeroDuration();
  const auto parts = *PartialBlobs::Open(scratch_.path() / "parts", options);
  DiskRoom room(scratch_.path(), 0);
  absl::Mutex names;
  const std::string sha256 = base::Sha256Hex("abcdef");
  const fs::path final_path = folder_ / sha256.substr(0, 2) / sha256;
  const auto begin = [&](int64_t offset) {
    BlobWriter::Plan plan;
    plan.final_path = final_path;
    plan.size_bytes = 6;
    plan.offset_bytes = offset;
    plan.room = *room.Reserve(6 - offset);
    plan.part = *parts->Take("ann", sha256, offset);
    return *BlobWriter::Begin(*database_, names, std::move(plan));
  };
  auto first = begin(0);
  ASSERT_TRUE(first->Append("abcdef").ok());
  auto second = begin(6);
  EXPECT_TRUE(absl::IsAborted(first->Commit()));
  first.reset();
  EXPECT_FALSE(fs::exists(final_path));
  EXPECT_FALSE(*second->CatchUp());
  ASSERT_TRUE(second->Commit().ok());
  EXPECT_EQ(*base::ReadFile(final_path), "abcdef");
}

}  // namespace
}  // namespace mpsd::store
