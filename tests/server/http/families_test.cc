// SPDX-License-Identifier: Apache-2.0
#include "server/http/families.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <sstream>
#include <string>

#include "server/jobs/job.h"
#include "server/jobs/pause_gate.h"

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

TEST(SnakeCase, HoldsForEveryNameThatIsALabel) {
  EXPECT_EQ(SnakeCase("OutOfMemory"), "out_of_memory");
  EXPECT_EQ(SnakeCase("out_of_memory"), "out_of_memory");
  EXPECT_EQ(SnakeCase("QUEUED"), "queued");
  EXPECT_EQ(SnakeCase(""), "");
  const auto check = [](std::string_view name) {
    const std::string text = SnakeCase(name);
    EXPECT_EQ(text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"),
              std::string::npos)
        << text;
    EXPECT_EQ(text.find("__"), std::string::npos) << text;
    EXPECT_FALSE(text.starts_with('_')) << text;
  };
  for (jobs::ExitReason reason : jobs::kAllExitReasons) check(Name(reason));
  for (jobs::PauseReason reason : jobs::kAllPauseReasons) check(Name(reason));
  for (jobs::HoldReason reason : jobs::kAllHoldReasons) check(Name(reason));
  for (jobs::State state : jobs::kAllStates) check(Name(state));
}

TEST(BoundedLabel, IsShortAndPrintable) {
  EXPECT_EQ(BoundedLabel("night run"), "night run");
  EXPECT_EQ(BoundedLabel(std::string(kLabelBytes, 'x')),
            std::string(kLabelBytes, 'x'));
  EXPECT_LE(BoundedLabel(std::string(kLabelBytes + 1, 'x')).size(),
            kLabelBytes);
  EXPECT_TRUE(BoundedLabel(std::string(kLabelBytes + 1, 'x')).ends_with("…"));
  EXPECT_EQ(BoundedLabel("a\nb\xff"), "a\\nb\\xff");
}

TEST(LabelCap, TheFirstKeepTheirNames) {
  LabelCap cap(2);
  EXPECT_EQ(cap.Of("a"), "a");
  EXPECT_EQ(cap.Of("b"), "b");
  EXPECT_EQ(cap.Of("c"), "other");
  EXPECT_EQ(cap.Of("a"), "a");
  EXPECT_EQ(cap.Of("b"), "b");
}

// The lines of a scrape but for comments.
std::string Samples(const host::ProcessUsage& usage) {
  std::istringstream text(
      ::prometheus::TextSerializer().Serialize(ProcessFamilies(usage)));
  std::string samples;
  for (std::string line; std::getline(text, line);) {
    if (line[0] != '#') samples += line + "\n";
  }
  return samples;
}

TEST(ProcessFamilies, HaveTheNamesOfEveryClientLibrary) {
  EXPECT_EQ(Samples({4096, 1.5, 7, 1024, 100.25}),
            "process_cpu_seconds_total 1.5\n"
            "process_resident_memory_bytes 4096\n"
            "process_open_fds 7\n"
            "process_max_fds 1024\n"
            "process_start_time_seconds 100.25\n");
  // What the system does not tell is absent.
  EXPECT_EQ(Samples({}), "");
  host::ProcessUsage usage;
  usage.open_descriptors = 3;
  EXPECT_EQ(Samples(usage), "process_open_fds 3\n");
}

}  // namespace
}  // namespace mpsd::prometheus
