// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/disk_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "tests/fakes/fake_clock.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

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

}  // namespace
}  // namespace mpsd::prometheus
