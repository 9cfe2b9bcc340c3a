// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/rpc_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <iterator>
#include <string>

#include "server/prometheus/label_values.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

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
