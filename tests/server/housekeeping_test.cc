// SPDX-License-Identifier: Apache-2.0
#include "server/housekeeping.h"

#include <gmock/gmock.h>
#include <prometheus/text_serializer.h>

#include <set>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "server/store/blob_store.h"
#include "tests/core/scratch_folder.h"
#include "tests/fakes/fake_clock.h"
#include "tests/fakes/test_store.h"

namespace mpsd {
namespace {

using testing::HasSubstr;

// False when that does not come within a minute.
template <typename Condition>
bool Eventually(const Condition& holds) {
  for (int i = 0; i < 6000 && !holds(); ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  return holds();
}

TEST(Ticker, APokeDuringATickIsNotLost) {
  std::atomic<int> ticks = 0;
  Ticker ticker;
  ticker.Start([&] {
    if (++ticks == 1) ticker.WakeUp();
    return absl::InfiniteFuture();
  });
  ticker.Await([&] { return ticks == 2; });
  EXPECT_EQ(ticks, 2);
}

TEST(Ticker, StopEndsTicksAndWaiters) {
  std::atomic<int> ticks = 0;
  Ticker ticker;
  ticker.WakeUp();  // before it is started
  ticker.Start([&] {
    ++ticks;
    return absl::InfinitePast();
  });
  ticker.Stop();
  const int last = ticks;
  ticker.WakeUp();
  ticker.Await([] { return false; });
  EXPECT_EQ(ticks, last);
}

TEST(Ticker, ATickThatHangsBlocksNoCallerForEver) {
  absl::Notification hang;
  std::atomic<bool> done = false;
  Ticker ticker;
  ticker.Start([&] {
    hang.WaitForNotification();
    done = true;
    return absl::InfiniteFuture();
  });
  EXPECT_FALSE(
      ticker.Await([&] { return done.load(); }, absl::Milliseconds(20)));
  hang.Notify();
  EXPECT_TRUE(ticker.Await([&] { return done.load(); }));
}

class HousekeepingTest : public testing::Test {
 protected:
  HousekeepingTest() { fs::create_directories(state_ / "jobs"); }

  std::unique_ptr<Housekeeping> Start(absl::Duration grace,
                                      int64_t budget = 0) {
    Housekeeping::Options options{state_ / "jobs", grace};
    options.interval = absl::Milliseconds(20);
    options.budget_bytes = budget;
    options.fresh = absl::ZeroDuration();
    options.limits = &limits_;
    options.metrics = &metrics_;
    options.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      said_ += line + "\n";
    };
    unused_ =
        std::make_unique<jobs::UnusedBlobs>(*blobs_, state_ / "jobs", grace);
    auto tidies = std::make_unique<Housekeeping>(
        std::move(options),
        jobs::Collector::Dependencies{
            db_.kept,
            [this](const std::string& id, absl::Time) {
              absl::MutexLock lock(&mutex_);
              removed_.insert(id);
              return int64_t{10};
            },
            [](const std::string&, absl::Time) { return int64_t{0}; }, *unused_,
            folders_, base::Clock::Real()});
    tidies->Start(db_.rows);
    return tidies;
  }
  std::string said() {
    absl::MutexLock lock(&mutex_);
    return said_;
  }
  std::set<std::string> removed() {
    absl::MutexLock lock(&mutex_);
    return removed_;
  }
  bool Said(const std::string& words) {
    return said().find(words) != std::string::npos;
  }

  const fs::path state_ = FreshFolder("housekeeping");
  fakes::TestStore db_{state_ / "mpsd.db"};
  std::unique_ptr<store::BlobStore> blobs_ =
      *store::BlobStore::Open(db_.database(), state_ / "blobs");
  std::unique_ptr<jobs::UnusedBlobs> unused_;
  jobs::MeasuredFolders folders_;
  jobs::LimitSettings limits_;
  prometheus::DaemonMetrics metrics_{base::Clock::Real()};
  absl::Mutex mutex_;
  std::string said_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> removed_ ABSL_GUARDED_BY(mutex_);
};

// By the rules of their owner, and for the budget once the folder is measured.
TEST_F(HousekeepingTest, JobsGoByTheRulesOfTheirOwners) {
  const absl::Time end = absl::Now() - absl::Hours(9);
  db_.PutEnded(1, "ada", end, 100);
  db_.PutEnded(2, "ada", end + absl::Hours(1), 100);
  db_.PutEnded(3, "bob", end, 100);
  limits_.users["ada"].keep.jobs = 1;
  auto tidies = Start(absl::Hours(1), 40);
  EXPECT_TRUE(Eventually([&] { return !removed().empty(); }));
  EXPECT_EQ(removed(), std::set<std::string>{"id-1"});
  EXPECT_TRUE(Eventually([&] { return Said("retention removed 1 jobs"); }))
      << said();
  folders_.Begin();
  folders_.Set(250, {});
  EXPECT_TRUE(Eventually([&] { return removed().size() == 3; }));
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

class DiskWatchTest : public testing::Test {
 protected:
  DiskWatchTest() {
    options_.state_dir = "/state";
    options_.room_interval = options_.usage_interval = absl::Milliseconds(1);
    options_.measure_room = [this](const fs::path& folder) {
      EXPECT_EQ(folder, "/state");
      ++rooms_;
      return absl::StatusOr<DiskWatch::Room>(DiskWatch::Room{10, 20});
    };
    options_.measure_usage = [this](const fs::path& folder,
                                    const std::atomic<bool>&) {
      EXPECT_EQ(folder, "/state");
      ++usages_;
      return absl::StatusOr<StateUsage>(
          StateUsage{{{"logs", 3}}, {{"01J", {"01J", 7, 2}}}});
    };
    options_.log = [this](const std::string& line) {
      absl::MutexLock lock(&mutex_);
      log_ += line + "\n";
    };
  }
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(metrics_->Collect());
  }
  std::string Log() {
    absl::MutexLock lock(&mutex_);
    return log_;
  }

  // The clock of the metrics; the watch itself follows the real one.
  fakes::FakeClock clock_;
  const std::shared_ptr<prometheus::DaemonMetrics> metrics_ =
      std::make_shared<prometheus::DaemonMetrics>(clock_);
  DiskWatch::Options options_;
  std::atomic<int> rooms_ = 0, usages_ = 0;
  absl::Mutex mutex_;
  std::string log_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(DiskWatchTest, MeasuresAgainAndAgain) {
  const DiskWatch watch(options_, metrics_);
  EXPECT_TRUE(Eventually([&] { return rooms_ > 3 && usages_ > 3; }));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 10\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_size_bytes 20\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_bytes{kind=\"logs\"} 3\n"));
  EXPECT_EQ(options_.folders->BytesOf("01J"), 7);
  EXPECT_EQ(options_.folders->BytesOf("01K"), 0);
  EXPECT_EQ(options_.folders->TotalBytes(), 3);
}

TEST_F(DiskWatchTest, AFailureKeepsTheLastMeasurementUntilItIsTooOld) {
  std::atomic<bool> fails = false;
  options_.measure_room = [&](const fs::path&) {
    ++rooms_;
    if (fails) {
      return absl::StatusOr<DiskWatch::Room>(
          absl::UnavailableError("/state: Input/output error"));
    }
    return absl::StatusOr<DiskWatch::Room>(DiskWatch::Room{10, 20});
  };
  const DiskWatch watch(options_, metrics_);
  ASSERT_TRUE(Eventually([&] { return rooms_ > 1; }));
  fails = true;
  const int rooms = rooms_;
  ASSERT_TRUE(Eventually([&] { return rooms_ > rooms + 5; }));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 10\n"));
  clock_.Advance(absl::Minutes(6));
  EXPECT_THAT(Text(), testing::Not(HasSubstr("mpsd_state_disk_free_bytes")));
  fails = false;
  EXPECT_TRUE(Eventually([&] {
    return Text().find("mpsd_state_disk_free_bytes 10\n") != std::string::npos;
  }));
}

TEST_F(DiskWatchTest, AFailureIsLoggedOnce) {
  options_.measure_usage = [this](const fs::path&, const std::atomic<bool>&) {
    ++usages_;
    return absl::StatusOr<StateUsage>(
        absl::UnavailableError("/state/jobs: Input/output error"));
  };
  const DiskWatch watch(options_, metrics_);
  ASSERT_TRUE(Eventually([&] { return usages_ > 5; }));
  EXPECT_EQ(Log(),
            "the metrics of the disk: /state/jobs: Input/output error\n");
}

TEST_F(DiskWatchTest, ADeadDiskHoldsUpNeitherAScrapeNorTheEnd) {
  auto hangs = std::make_shared<absl::Notification>();
  auto revives = std::make_shared<absl::Notification>();
  auto left = std::make_shared<absl::Notification>();
  options_.measure_usage = [=](const fs::path&, const std::atomic<bool>& stop) {
    hangs->Notify();
    revives->WaitForNotification();
    // What the thread uses outlives the watch.
    EXPECT_TRUE(stop);
    left->Notify();
    return absl::StatusOr<StateUsage>(absl::CancelledError("stopped"));
  };
  {
    const DiskWatch watch(options_, metrics_);
    hangs->WaitForNotification();
    EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 10\n"));
  }
  revives->Notify();
  EXPECT_TRUE(left->WaitForNotificationWithTimeout(absl::Minutes(1)));
  EXPECT_EQ(Log(), "");
}

}  // namespace
}  // namespace mpsd
