// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/open_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/registry.h>

#include <cmath>
#include <limits>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/strip.h"
#include "server/prometheus/families.h"
#include "server/prometheus/metric_reference.h"

namespace mpsd::prometheus {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

class OpenMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    return OpenMetricsText(registry_.Collect(), exemplars_);
  }

  ::prometheus::Registry registry_;
  Exemplars exemplars_;
};

TEST_F(OpenMetricsTest, IsTheSpecificationsText) {
  Gauges(registry_, {"g", MetricKind::kGauge, "", "A \"gauge\"\\\n."})
      .Add({{"name", "a\"b\\c\nd"}})
      .Set(0.1);
  Counters(registry_, {"c_total", MetricKind::kCounter, "", "Counts."})
      .Add({})
      .Increment(3);
  auto& histogram =
      Histograms(registry_, {"h", MetricKind::kHistogram, "", "Waits."})
          .Add({{"device", "mps"}},
               ::prometheus::Histogram::BucketBoundaries{0.5, 1});
  histogram.Observe(0.25);
  histogram.Observe(7);
  exemplars_.Observe("h", {{"device", "mps"}}, {0.5, 1},
                     {"01JOB", 0.25, absl::FromUnixMillis(1'700'000'000'125)});
  EXPECT_EQ(Text(), R"(# HELP c Counts.
# TYPE c counter
c_total 3
# HELP g A \"gauge\"\\\n.
# TYPE g gauge
g{name="a\"b\\c\nd"} 0.1
# HELP h Waits.
# TYPE h histogram
h_bucket{device="mps",le="0.5"} 1 # {job_id="01JOB"} 0.25 1700000000.125
h_bucket{device="mps",le="1.0"} 1
h_bucket{device="mps",le="+Inf"} 2
h_count{device="mps"} 2
h_sum{device="mps"} 7.25
# EOF
)");
}

TEST_F(OpenMetricsTest, BoundsAreCanonicalNumbers) {
  Histograms(registry_, {"h", MetricKind::kHistogram, "", "x"})
      .Add({}, ::prometheus::Histogram::BucketBoundaries{
                   0, 1e-05, 0.0001, 0.001, 0.025, 1, 10, 2.5e3, 100000, 604800,
                   1e6, 1e10});
  const std::string text = Text();
  for (const char* bound :
       {"0.0", "1e-05", "0.0001", "0.001", "0.025", "1.0", "10.0", "2500.0",
        "100000.0", "604800.0", "1e+06", "1e+10", "+Inf"}) {
    EXPECT_THAT(text, HasSubstr("{le=\"" + std::string(bound) + "\"} 0\n"));
  }
}

TEST_F(OpenMetricsTest, NumbersAreExactOrNamed) {
  auto& gauges = Gauges(registry_, {"g", MetricKind::kGauge, "", "x"});
  gauges.Add({{"n", "1"}}).Set(1.0 / 3);
  gauges.Add({{"n", "2"}}).Set(std::nan(""));
  gauges.Add({{"n", "3"}}).Set(-std::numeric_limits<double>::infinity());
  gauges.Add({{"n", "4"}}).Set(1'700'000'000'123);
  const std::string text = Text();
  EXPECT_THAT(text, HasSubstr("{n=\"1\"} 0.3333333333333333\n"));
  EXPECT_THAT(text, HasSubstr("{n=\"2\"} NaN\n"));
  EXPECT_THAT(text, HasSubstr("{n=\"3\"} -Inf\n"));
  EXPECT_THAT(text, HasSubstr("{n=\"4\"} 1700000000123\n"));
}

TEST_F(OpenMetricsTest, AnExemplarIsNotLongerThanTheFormatAllows) {
  Histograms(registry_, {"h", MetricKind::kHistogram, "", "x"})
      .Add({}, ::prometheus::Histogram::BucketBoundaries{1});
  const std::string longest(128 - std::string("job_id").size(), 'x');
  exemplars_.Observe("h", {}, {1}, {longest, 0.5, absl::UnixEpoch()});
  EXPECT_THAT(Text(), HasSubstr("# {job_id=\"" + longest + "\"}"));
  exemplars_.Observe("h", {}, {1}, {longest + "x", 0.5, absl::UnixEpoch()});
  EXPECT_THAT(Text(), Not(HasSubstr("job_id")));
}

TEST_F(OpenMetricsTest, AnEmptyOneHasItsEnd) { EXPECT_EQ(Text(), "# EOF\n"); }

// A family's name has no _total, and stays a name of its own without.
TEST(OpenMetricsNames, OfAllMetricsDiffer) {
  std::set<std::string> names;
  for (const Metric& metric : AllMetrics()) {
    EXPECT_EQ(metric.kind == MetricKind::kCounter,
              absl::EndsWith(metric.name, "_total"))
        << metric.name;
    EXPECT_TRUE(
        names.insert(std::string(absl::StripSuffix(metric.name, "_total")))
            .second)
        << metric.name;
  }
}

}  // namespace
}  // namespace mpsd::prometheus
