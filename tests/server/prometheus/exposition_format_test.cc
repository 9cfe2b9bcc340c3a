// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/exposition_format.h"

#include <gtest/gtest.h>

namespace mpsd::prometheus {
namespace {

constexpr char kOpen[] =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";
constexpr char kText[] = "text/plain; version=0.0.4; charset=utf-8";

TEST(ChosenFormat, IsTheOneThatThePrometheusServersAskFor) {
  // 2.42 and before, 3.0, 3 with native histograms, which are protobuf.
  for (const char* accept :
       {"application/openmetrics-text;version=1.0.0,"
        "application/openmetrics-text;version=0.0.1;q=0.75,"
        "text/plain;version=0.0.4;q=0.5,*/*;q=0.1",
        "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
        "application/openmetrics-text;version=0.0.1;q=0.4,"
        "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
        "text/plain;version=0.0.4;q=0.2,*/*;q=0.1",
        "application/vnd.google.protobuf;proto=io.prometheus.client."
        "MetricFamily;encoding=delimited;q=0.6,"
        "application/openmetrics-text;version=1.0.0;q=0.5,"
        "text/plain;version=0.0.4;q=0.3,*/*;q=0.1"}) {
    EXPECT_EQ(ChosenFormat(accept).content_type, kOpen) << accept;
    EXPECT_TRUE(ChosenFormat(accept).is_open_metrics);
  }
}

TEST(ChosenFormat, IsTextForEverybodyElse) {
  for (const char* accept :
       {"", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "text/plain",
        "application/json", "application/openmetrics-text;version=9.0.0",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.4,text/plain;version=0.0.4;q=0.5"}) {
    EXPECT_EQ(ChosenFormat(accept).content_type, kText) << accept;
    EXPECT_FALSE(ChosenFormat(accept).is_open_metrics);
  }
}

TEST(ChosenFormat, OpenMetricsHasTheVersionThatIsRead) {
  EXPECT_EQ(ChosenFormat("application/openmetrics-text").content_type, kOpen);
  EXPECT_EQ(
      ChosenFormat("application/openmetrics-text;version=0.0.1").content_type,
      "application/openmetrics-text; version=0.0.1; charset=utf-8");
}

}  // namespace
}  // namespace mpsd::prometheus
