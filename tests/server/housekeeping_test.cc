// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeping.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/sha256.h"
#include "server/store/database.h"
#include "server/store/sqlite_job_store.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

class HousekeepingTest : public testing::Test {
 protected:
  HousekeepingTest() {
    std::string name = testing::TempDir() + "housekeepingXXXXXX";
    state_ = mkdtemp(name.data());
    fs::create_directories(state_ / "jobs");
    database_ = *store::Database::Open(state_ / "mpsd.db");
    jobs_ = std::make_unique<store::SqliteJobStore>(*database_);
    blobs_ = *store::BlobStore::Open(*database_, state_ / "blobs");
  }
  ~HousekeepingTest() override { fs::remove_all(state_); }

  std::unique_ptr<Housekeeping> Start(absl::Duration grace) {
    auto tidies = std::make_unique<Housekeeping>(
        Housekeeping::Options{state_ / "jobs", grace,
                              [this](const std::string& line) {
                                absl::MutexLock lock(&mutex_);
                                said_ += line + "\n";
                              }},
        *blobs_);
    tidies->Start(*jobs_);
    return tidies;
  }
  // False when that does not come within a minute.
  static bool Eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return holds();
  }
  std::string said() {
    absl::MutexLock lock(&mutex_);
    return said_;
  }

  fs::path state_;
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<store::SqliteJobStore> jobs_;
  std::unique_ptr<store::BlobStore> blobs_;
  absl::Mutex mutex_;
  std::string said_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(HousekeepingTest, LeftoversGoAndUnknownResultsAreNamed) {
  const fs::path staged =
      state_ / "jobs" / ".01KAH0000000000000000000AA.7.1.tmp";
  const fs::path unknown = state_ / "jobs" / "01KAH0000000000000000000BB";
  fs::create_directories(staged / "inputs");
  fs::create_directories(unknown / "out");
  auto tidies = Start(absl::Hours(1));
  EXPECT_TRUE(Eventually([&] { return !fs::exists(staged); }));
  tidies->Stop();
  EXPECT_TRUE(fs::exists(unknown / "out"));
  EXPECT_NE(said().find(unknown.string() + " holds results"),
            std::string::npos);
  EXPECT_NE(said().find("removing 1 leftovers"), std::string::npos);
}

TEST_F(HousekeepingTest, BlobsGoAfterTheirGrace) {
  const std::string sha256 = base::Sha256Hex("unused");
  auto writer = blobs_->Begin(sha256, 6);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append("unused").ok());
  ASSERT_TRUE((*writer)->Commit().ok());
  auto tidies = Start(absl::Milliseconds(300));
  const std::string path = blobs_->PathOf(sha256);
  EXPECT_TRUE(fs::exists(path));
  EXPECT_TRUE(Eventually([&] { return !fs::exists(path); }));
  tidies->Stop();
  EXPECT_NE(said().find("no job uses: 6 bytes"), std::string::npos) << said();
}

}  // namespace
}  // namespace mpsd
