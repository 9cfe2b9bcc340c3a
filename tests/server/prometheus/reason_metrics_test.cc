// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/reason_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

class ReasonMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(registry_.Collect());
  }
  void Expect(const std::string& reason, const std::string& holds,
              const std::string& times, const std::string& seconds) {
    const std::string label = "{reason=\"" + reason + "\"} ";
    EXPECT_THAT(Text(), HasSubstr("mpsd_held" + label + holds + "\n"));
    EXPECT_THAT(Text(), HasSubstr("mpsd_holds_total" + label + times + "\n"));
    EXPECT_THAT(Text(),
                HasSubstr("mpsd_held_seconds_total" + label + seconds + "\n"));
  }

  ::prometheus::Registry registry_;
  ReasonMetrics reasons_{
      registry_, {kHeld, kHolds, kHeldSeconds}, {"disk", "storage"}};
};

TEST_F(ReasonMetricsTest, EveryReasonStartsAtZero) {
  Expect("disk", "0", "0", "0");
  Expect("storage", "0", "0", "0");
}

TEST_F(ReasonMetricsTest, CountsEachReasonFromItsBeginningToItsEnd) {
  reasons_.Set({"disk"}, absl::Seconds(10));
  Expect("disk", "1", "1", "0");
  reasons_.Set({"disk", "storage"}, absl::Seconds(15));
  Expect("disk", "1", "1", "5");
  reasons_.Set({"storage"}, absl::Seconds(17));
  Expect("disk", "0", "1", "7");
  Expect("storage", "1", "1", "2");
  reasons_.Set({"disk"}, absl::Seconds(20));
  Expect("disk", "1", "2", "7");
  Expect("storage", "0", "1", "5");
}

TEST_F(ReasonMetricsTest, AdvancesWhileAReasonHolds) {
  reasons_.Set({"disk"}, absl::Seconds(10));
  reasons_.Advance(absl::Seconds(3610));
  reasons_.Advance(absl::Seconds(3610));
  Expect("disk", "1", "1", "3600");
  Expect("storage", "0", "0", "0");
}

TEST_F(ReasonMetricsTest, AReasonThatIsNotKnownHasNoSeries) {
  reasons_.Set({"weather"}, absl::Seconds(10));
  EXPECT_THAT(Text(), Not(HasSubstr("weather")));
}

}  // namespace
}  // namespace mpsd::prometheus
