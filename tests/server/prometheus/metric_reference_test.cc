// SPDX-License-Identifier: Apache-2.0
#include "tests/server/prometheus/metric_reference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "core/base/file.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;

TEST(MetricReference, HasARowForEachMetric) {
  const std::string text = MetricReference();
  EXPECT_THAT(text, HasSubstr("\n| `mpsd_paused` | gauge | `reason` | 1 whi"));
  EXPECT_THAT(text,
              HasSubstr("\n| `mpsd_step_seconds` | histogram | `device`"));
  EXPECT_THAT(text, HasSubstr("\n| `mpsd_host_gpu_resets` | gauge |  | Times"));
  EXPECT_THAT(text,
              HasSubstr("\n| `mpsd_job_loss` | gauge | `device`, `job_id` | "));
  EXPECT_THAT(text, HasSubstr("\n| `mpsd_worker_footprint_bytes` | gauge | "));
}

TEST(AllMetrics, EachStandsOnce) {
  std::set<std::string> names;
  for (const Metric& metric : AllMetrics()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name;
    EXPECT_EQ(std::string(metric.help).find('|'), std::string::npos);
  }
}

// MPSD_WRITE_REFERENCE=1 writes it there instead.
TEST(MetricReference, IsTheOneOfTheReadme) {
  const std::filesystem::path path =
      std::filesystem::path(MPSD_TEST_SOURCE_DIR) / "deploy/README.md";
  const std::string readme = *base::ReadFile(path);
  const std::string begin = "<!-- metrics begin -->\n\n";
  const size_t before = readme.find(begin);
  ASSERT_NE(before, std::string::npos);
  const size_t start = before + begin.size();
  const size_t to = readme.find("\n<!-- metrics end -->\n", start - 1);
  ASSERT_NE(to, std::string::npos);
  if (std::getenv("MPSD_WRITE_REFERENCE") != nullptr) {
    const std::string text =
        readme.substr(0, start) + MetricReference() + readme.substr(to);
    ASSERT_TRUE(base::WriteFileAtomic(path, text).ok());
    return;
  }
  EXPECT_EQ(readme.substr(start, to - start), MetricReference())
      << "Write it anew: MPSD_WRITE_REFERENCE=1 server_prometheus_test "
         "--gtest_filter=MetricReference.IsTheOneOfTheReadme";
}

}  // namespace
}  // namespace mpsd::prometheus
