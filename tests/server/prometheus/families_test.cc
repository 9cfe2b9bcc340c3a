// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/families.h"

#include <gtest/gtest.h>

namespace mpsd::prometheus {
namespace {

constexpr Metric kGauge{"mpsd_a", MetricKind::kGauge, "", "A."};

TEST(Families, AreMadeOnce) {
  ::prometheus::Registry registry;
  Gauges(registry, kGauge).Add({}).Set(3);
  EXPECT_EQ(Gauges(registry, kGauge).Add({}).Value(), 3);
  const auto families = registry.Collect();
  ASSERT_EQ(families.size(), 1u);
  EXPECT_EQ(families[0].name, "mpsd_a");
  EXPECT_EQ(families[0].help, "A.");
  EXPECT_EQ(families[0].type, ::prometheus::MetricType::Gauge);
}

TEST(Families, MayHaveASingleValue) {
  const auto gauge = SingleValue(kGauge, 3);
  EXPECT_EQ(gauge.name, "mpsd_a");
  EXPECT_EQ(gauge.type, ::prometheus::MetricType::Gauge);
  ASSERT_EQ(gauge.metric.size(), 1u);
  EXPECT_EQ(gauge.metric[0].gauge.value, 3);
  const auto counter =
      SingleValue({"mpsd_a_total", MetricKind::kCounter, "", "A."}, 4);
  EXPECT_EQ(counter.type, ::prometheus::MetricType::Counter);
  EXPECT_EQ(counter.metric[0].counter.value, 4);
}

TEST(FamiliesDeathTest, AGaugeIsNoCounter) {
  ::prometheus::Registry registry;
  EXPECT_DEATH(Counters(registry, kGauge), "a counter is made");
  EXPECT_DEATH(Histograms(registry, kGauge), "a histogram is made");
}

}  // namespace
}  // namespace mpsd::prometheus
