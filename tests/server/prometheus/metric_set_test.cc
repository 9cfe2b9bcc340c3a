// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/metric_set.h"

#include <gtest/gtest.h>
#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <set>
#include <string>

namespace mpsd::prometheus {
namespace {

std::shared_ptr<::prometheus::Registry> With(const std::string& name) {
  auto registry = std::make_shared<::prometheus::Registry>();
  ::prometheus::BuildGauge().Name(name).Register(*registry).Add({}).Set(1);
  return registry;
}

TEST(MetricSet, HasWhatEachSourceHas) {
  const MetricSet set({With("a"), With("b"), With("c")});
  std::set<std::string> names;
  for (const auto& family : set.Collect()) {
    names.insert(family.name);
    EXPECT_EQ(family.metric.size(), 1u);
  }
  EXPECT_EQ(names, (std::set<std::string>{"a", "b", "c"}));
}

TEST(MetricSet, WithoutSourcesIsEmpty) {
  EXPECT_TRUE(MetricSet({}).Collect().empty());
}

}  // namespace
}  // namespace mpsd::prometheus
