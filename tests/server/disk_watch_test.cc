// SPDX-License-Identifier: Apache-2.0
#include "server/disk_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <string>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/fakes/fake_clock.h"

namespace mpsd {
namespace {

using testing::HasSubstr;

class DiskWatchTest : public testing::Test {
 protected:
  DiskWatchTest() {
    options_.state_dir = "/state";
    options_.room_interval = options_.usage_interval = absl::Milliseconds(1);
    options_.measure_room = [this](const std::filesystem::path& folder) {
      EXPECT_EQ(folder, "/state");
      ++rooms_;
      return absl::StatusOr<DiskWatch::Room>(DiskWatch::Room{10, 20});
    };
    options_.measure_usage = [this](const std::filesystem::path& folder,
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
  // False when that does not come within a minute.
  template <typename Condition>
  static bool Eventually(const Condition& holds) {
    for (int i = 0; i < 6000 && !holds(); ++i) {
      absl::SleepFor(absl::Milliseconds(10));
    }
    return holds();
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

TEST_F(DiskWatchTest, WalksLessOftenThanItAsksForTheRoom) {
  options_.usage_interval = absl::Hours(1);
  const DiskWatch watch(options_, metrics_);
  EXPECT_TRUE(Eventually([&] { return rooms_ > 5; }));
  EXPECT_EQ(usages_, 1);
}

// A walk that takes long is not begun again at once.
TEST_F(DiskWatchTest, ASlowWalkIsRare) {
  options_.measure_usage = [this](const std::filesystem::path&,
                                  const std::atomic<bool>&) {
    ++usages_;
    absl::SleepFor(absl::Milliseconds(500));
    return absl::StatusOr<StateUsage>(StateUsage{});
  };
  const absl::Time start = absl::Now();
  const DiskWatch watch(options_, metrics_);
  EXPECT_TRUE(Eventually([&] { return rooms_ > 10; }));
  const int walks = usages_;
  // The pause is ten seconds at least, and a busy machine may need as many.
  EXPECT_GE(walks, 1);
  EXPECT_LE(walks, 1 + (absl::Now() - start) / absl::Seconds(10));
}

TEST_F(DiskWatchTest, AFailureKeepsTheLastMeasurementUntilItIsTooOld) {
  std::atomic<bool> fails = false;
  options_.measure_room = [&](const std::filesystem::path&) {
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
  options_.measure_usage = [this](const std::filesystem::path&,
                                  const std::atomic<bool>&) {
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
  options_.measure_usage = [=](const std::filesystem::path&,
                               const std::atomic<bool>& stop) {
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

TEST_F(DiskWatchTest, ARealDiskTellsItsRoom) {
  const auto room = DiskWatch::MeasureRoom(testing::TempDir());
  ASSERT_TRUE(room.ok()) << room.status();
  EXPECT_GT(room->size_bytes, 0);
  EXPECT_GE(room->size_bytes, room->free_bytes);
  EXPECT_EQ(DiskWatch::MeasureRoom("/missing/folder").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace mpsd
