// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/daemon_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "server/prometheus/families.h"
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

class DiskMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(metrics_.Collect());
  }
  fakes::FakeClock clock_;
  DiskMetrics metrics_{clock_};
};

TEST_F(DiskMetricsTest, NothingIsShownBeforeItIsMeasured) {
  EXPECT_EQ(Text(), "");
}

TEST_F(DiskMetricsTest, TheLastMeasurementIsShown) {
  metrics_.SetRoom(10, 20, absl::Minutes(5));
  metrics_.SetRoom(11, 20, absl::Minutes(5));
  metrics_.SetBytes({{"logs", 1}, {"results", 2}}, absl::Minutes(5));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 11\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_size_bytes 20\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_bytes{kind=\"logs\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_bytes{kind=\"results\"} 2\n"));
}

TEST_F(DiskMetricsTest, AMeasurementWhoseTimeIsOverHasNoSeries) {
  metrics_.SetRoom(10, 20, absl::Minutes(5));
  metrics_.SetBytes({{"logs", 1}}, absl::Minutes(7));
  clock_.Advance(absl::Minutes(5) - absl::Nanoseconds(1));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 10\n"));
  clock_.Advance(absl::Nanoseconds(1));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_state_disk_")));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_bytes{kind=\"logs\"} 1\n"));
  clock_.Advance(absl::Minutes(2));
  EXPECT_EQ(Text(), "");
  metrics_.SetRoom(12, 20, absl::Minutes(5));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 12\n"));
}

// A wall clock that jumps makes no measurement older.
TEST_F(DiskMetricsTest, TheWallClockDoesNotMatter) {
  metrics_.SetRoom(10, 20, absl::Minutes(5));
  clock_.SetBack(absl::Hours(5));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 10\n"));
  clock_.SetBack(-absl::Hours(50));
  EXPECT_THAT(Text(), HasSubstr("mpsd_state_disk_free_bytes 10\n"));
}

class RpcMetricsTest : public testing::Test {
 protected:
  RpcMetricsTest() {
    metrics_.MethodServed(get_);
    metrics_.MethodServed(watch_);
  }
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  size_t Series() const {
    size_t series = 0;
    for (const auto& family : registry_.Collect()) {
      series += family.metric.size();
    }
    return series;
  }

  const jobs::CallMethod get_{"JobService.Get", /*is_stream=*/false};
  const jobs::CallMethod watch_{"JobService.Watch", /*is_stream=*/true};
  ::prometheus::Registry registry_;
  RpcMetrics metrics_{registry_};
};

TEST_F(RpcMetricsTest, AServedMethodsSeriesStartAtZero) {
  for (const char* line :
       {"mpsd_rpc_requests_total{code=\"ok\",method=\"JobService.Get\"} 0\n",
        "mpsd_rpc_requests_total{code=\"internal\",method=\"JobService.Watch\""
        "} 0\n",
        "mpsd_rpc_seconds_count{method=\"JobService.Get\"} 0\n",
        "mpsd_rpc_open_streams{method=\"JobService.Watch\"} 0\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_rpc_seconds_count{method="
                                    "\"JobService.Watch\"}")));
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_rpc_open_streams{method="
                                    "\"JobService.Get\"}")));
}

TEST_F(RpcMetricsTest, AUnaryCallIsCountedAndTimed) {
  metrics_.CallStarted(get_);
  metrics_.CallEnded(get_, absl::StatusCode::kNotFound, absl::Milliseconds(7));
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_requests_total{code=\"not_found\","
                                "method=\"JobService.Get\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_seconds_bucket{method="
                                "\"JobService.Get\",le=\"0.005\"} 0\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_seconds_bucket{method="
                                "\"JobService.Get\",le=\"0.01\"} 1\n"));
}

TEST_F(RpcMetricsTest, AStreamIsOpenUntilItEnds) {
  metrics_.CallStarted(watch_);
  metrics_.CallStarted(watch_);
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_open_streams{method="
                                "\"JobService.Watch\"} 2\n"));
  metrics_.CallEnded(watch_, absl::StatusCode::kCancelled, absl::Hours(3));
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_open_streams{method="
                                "\"JobService.Watch\"} 1\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_requests_total{code=\"cancelled\","
                                "method=\"JobService.Watch\"} 1\n"));
}

// A status that gRPC sends on may have any number.
TEST_F(RpcMetricsTest, CodesThatDoNotExistHaveOneName) {
  metrics_.CallEnded(get_, static_cast<absl::StatusCode>(17), {});
  const size_t series = Series();
  for (int code : {-1, 18, 99, 1 << 30}) {
    metrics_.CallEnded(get_, static_cast<absl::StatusCode>(code), {});
  }
  EXPECT_EQ(Series(), series);
  EXPECT_THAT(Text(), HasSubstr("mpsd_rpc_requests_total{code=\"unknown\","
                                "method=\"JobService.Get\"} 5\n"));
}

TEST_F(RpcMetricsTest, EveryCodeHasItsNameInSnakeCase) {
  for (size_t code = 0; code < std::size(kRpcCodes); ++code) {
    EXPECT_EQ(kRpcCodes[code], SnakeCase(absl::StatusCodeToString(
                                   static_cast<absl::StatusCode>(code))));
  }
  EXPECT_EQ(absl::StatusCodeToString(
                static_cast<absl::StatusCode>(std::size(kRpcCodes))),
            "");
}

}  // namespace
}  // namespace mpsd::prometheus
