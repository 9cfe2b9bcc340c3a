// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/daemon_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>
#include <thread>
#include <vector>

#include "tests/fakes/fake_clock.h"
#include "tests/server/prometheus/told_daemon_metrics.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

class DaemonMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(metrics_.Collect());
  }
  fakes::FakeClock clock_;
  DaemonMetrics metrics_{clock_};
};

TEST_F(DaemonMetricsTest, ACommitFallsIntoItsBucket) {
  EXPECT_THAT(Text(), HasSubstr("mpsd_database_commit_seconds_count 0\n"));
  metrics_.Committed(absl::Microseconds(200));
  metrics_.Committed(absl::Seconds(20));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_database_commit_seconds_bucket{le=\"0.0001\"} "
                        "0\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_database_commit_seconds_bucket{le=\"0.00025\"} "
                        "1\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_database_commit_seconds_bucket{le=\"10\"} 1\n"));
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_database_commit_seconds_bucket{le=\"30\"} 2\n"));
}

TEST_F(DaemonMetricsTest, TellsWhenADevicePassedItsTest) {
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_selftest_timestamp_seconds{")));
  metrics_.SelftestPassed("mps", absl::FromUnixSeconds(1'700'000'000));
  metrics_.SelftestPassed("mps", absl::FromUnixSeconds(1'700'000'060));
  EXPECT_THAT(
      Text(),
      HasSubstr("mpsd_selftest_timestamp_seconds{device=\"mps\"} 1700000060"));
}

TEST_F(DaemonMetricsTest, CountsPulls) {
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_model_pulls_total{result=\"failed\"} 0\n"));
  metrics_.PullsRun(2);
  metrics_.PullEnded("failed");
  metrics_.PullReceived(1000);
  EXPECT_THAT(Text(),
              HasSubstr("mpsd_model_pulls_total{result=\"failed\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_model_pulls_running 2\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_model_pulled_bytes_total 1000\n"));
}

TEST_F(DaemonMetricsTest, HasTheSeriesOfApiAndDisk) {
  TellEverythingOf(metrics_);
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_requests_total{"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_bytes{"));
}

TEST_F(DaemonMetricsTest, ManyTellAndCollectAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this] {
      for (int n = 0; n < 200; ++n) {
        TellEverythingOf(metrics_);
        metrics_.Collect();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(Text(), HasSubstr("mpsd_database_commit_seconds_count 800\n"));
}

}  // namespace
}  // namespace mpsd::prometheus
