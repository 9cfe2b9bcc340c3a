// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeping.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <memory>
#include <set>
#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "core/base/clock.h"
#include "core/base/sha256.h"
#include "server/store/blob_store.h"
#include "server/store/database.h"
#include "server/store/sqlite_job_store.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/fake_kept_jobs.h"

namespace mpsd {
namespace {

namespace fs = std::filesystem;

class Remover final : public jobs::JobRemover {
 public:
  absl::StatusOr<int64_t> RemoveJob(const std::string& id,
                                    absl::Time) override {
    absl::MutexLock lock(&mutex_);
    removed_.insert(id);
    return 10;
  }
  absl::StatusOr<int64_t> RemoveCheckpoints(const std::string&,
                                            absl::Time) override {
    return 0;
  }
  std::set<std::string> removed() {
    absl::MutexLock lock(&mutex_);
    return removed_;
  }

 private:
  absl::Mutex mutex_;
  std::set<std::string> removed_ ABSL_GUARDED_BY(mutex_);
};

class HousekeepingTest : public testing::Test {
 protected:
  HousekeepingTest() {
    fs::create_directories(state_ / "jobs");
    database_ = *store::Database::Open(state_ / "mpsd.db");
    jobs_ = std::make_unique<store::SqliteJobStore>(*database_);
    blobs_ = *store::BlobStore::Open(*database_, state_ / "blobs");
  }

  std::unique_ptr<Housekeeping> Start(absl::Duration grace,
                                      int64_t budget = 0) {
    Housekeeping::Options options{state_ / "jobs", grace};
    options.interval = absl::Milliseconds(20);
    options.budget_bytes = budget;
    options.fresh = absl::ZeroDuration();
    options.limits = &limits_;
    options.metrics = &metrics_;
    options.sweep_models = [this] { return sweeps_++ == 0 ? 2 : 0; };
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      said_ += line + "\n";
    };
    unused_ =
        std::make_unique<store::UnusedBlobs>(*blobs_, state_ / "jobs", grace);
    auto tidies = std::make_unique<Housekeeping>(
        std::move(options),
        retention::Collector::Dependencies{kept_, remover_, *unused_, folders_,
                                           base::Clock::Real()});
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
  bool Said(const std::string& words) {
    return said().find(words) != std::string::npos;
  }

  const fs::path state_ = testing_support::FreshFolder("housekeeping");
  std::unique_ptr<store::Database> database_;
  std::unique_ptr<store::SqliteJobStore> jobs_;
  std::unique_ptr<store::BlobStore> blobs_;
  int sweeps_ = 0;
  std::unique_ptr<store::UnusedBlobs> unused_;
  fakes::FakeKeptJobs kept_;
  Remover remover_;
  jobs::MeasuredFolders folders_;
  jobs::LimitSettings limits_;
  prometheus::DaemonMetrics metrics_{base::Clock::Real()};
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
  EXPECT_TRUE(Eventually([&] { return Said("removing 1 leftovers"); }));
  EXPECT_TRUE(
      Eventually([&] { return Said(unknown.string() + " holds results"); }));
  // Revisions of models are swept, too.
  EXPECT_TRUE(Eventually([&] { return Said("that no job has: 2"); }));
  tidies->Stop();
  EXPECT_TRUE(fs::exists(unknown / "out"));
}

TEST_F(HousekeepingTest, BlobsGoAfterTheirGrace) {
  const std::string sha256 = base::Sha256Hex("unused");
  auto writer = blobs_->Begin(sha256, 6);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append("unused").ok());
  const absl::Time before = absl::Now();
  ASSERT_TRUE((*writer)->Commit().ok());
  const std::string path = blobs_->PathOf(sha256);
  EXPECT_TRUE(fs::exists(path));
  auto tidies = Start(absl::Milliseconds(300));
  EXPECT_TRUE(Eventually([&] { return !fs::exists(path); }));
  // A file's time may be some milliseconds old.
  EXPECT_GT(absl::Now() - before, absl::Milliseconds(250));
  EXPECT_TRUE(Eventually([&] { return Said("no job uses: 6 bytes"); }))
      << said();
  tidies->Stop();
}

// By the rules of their owner, and for the budget once the folder is measured.
TEST_F(HousekeepingTest, JobsGoByTheRulesOfTheirOwners) {
  const absl::Time end = absl::Now() - absl::Hours(9);
  kept_.owners = {{"ada", {{1, end, 100}, {2, end + absl::Hours(1), 100}}},
                  {"bob", {{3, end, 100}}}};
  limits_.users["ada"].keep.jobs = 1;
  auto tidies = Start(absl::Hours(1), 40);
  EXPECT_TRUE(Eventually([&] { return !remover_.removed().empty(); }));
  EXPECT_EQ(remover_.removed(), std::set<std::string>{"id-1"});
  EXPECT_TRUE(Eventually([&] { return Said("retention removed 1 jobs"); }))
      << said();
  folders_.Begin();
  folders_.Set(250, {});
  EXPECT_TRUE(Eventually([&] { return remover_.removed().size() == 3; }));
  tidies->Stop();
  const std::string text =
      ::prometheus::TextSerializer().Serialize(metrics_.Collect());
  EXPECT_NE(text.find("mpsd_state_budget_bytes 40\n"), std::string::npos);
  EXPECT_NE(text.find("mpsd_collected_total{kind=\"checkpoints\"} 0\n"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("mpsd_collected_total{kind=\"job\"} 0\n"),
            std::string::npos);
}

}  // namespace
}  // namespace mpsd
