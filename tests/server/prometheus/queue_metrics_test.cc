// SPDX-License-Identifier: Apache-2.0
#include "server/prometheus/queue_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "server/prometheus/names.h"

namespace mpsd::prometheus {
namespace {

using testing::HasSubstr;
using testing::Not;

class QueueMetricsTest : public testing::Test {
 protected:
  std::string Text() const {
    return ::prometheus::TextSerializer().Serialize(registry_.Collect());
  }

  ::prometheus::Registry registry_;
  QueueMetrics queue_{registry_};
};

TEST_F(QueueMetricsTest, CountsByPriorityAndOwner) {
  queue_.Set({{{-1, 1}, {0, 3}}, {{"ada", 3}, {"", 1}}, std::nullopt});
  for (const char* line : {"mpsd_queue_priority_jobs{priority=\"-1\"} 1\n",
                           "mpsd_queue_priority_jobs{priority=\"0\"} 3\n",
                           "mpsd_queue_owner_jobs{owner=\"ada\"} 3\n",
                           "mpsd_queue_owner_jobs{owner=\"unknown\"} 1\n"}) {
    EXPECT_THAT(Text(), HasSubstr(line));
  }
}

TEST_F(QueueMetricsTest, AnEtaWithoutEveryPartIsNone) {
  jobs::QueueDepth depth;
  depth.time_left = absl::Seconds(30);
  queue_.Set(depth);
  queue_.SetEta(absl::Seconds(12));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_eta_seconds 42\n"));
  queue_.SetEta(std::nullopt);
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_queue_eta_seconds ")));
  queue_.SetEta(absl::ZeroDuration());
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_eta_seconds 30\n"));
  depth.time_left.reset();
  queue_.Set(depth);
  queue_.SetEta(absl::ZeroDuration());
  EXPECT_THAT(Text(), Not(HasSubstr("mpsd_queue_eta_seconds ")));
}

TEST_F(QueueMetricsTest, AnEmptyQueueIsZeroes) {
  queue_.Set({{{0, 3}}, {{"ada", 3}}, std::nullopt});
  queue_.Set({});
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_priority_jobs{priority=\"0\"} 0"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_owner_jobs{owner=\"ada\"} 0\n"));
}

TEST_F(QueueMetricsTest, ManyOwnersAndPrioritiesShareASeries) {
  jobs::QueueDepth depth;
  const int owners = QueueMetrics::kMostOwners + 3;
  for (int i = 100; i < 100 + owners; ++i) {
    depth.by_owner[absl::StrCat("u", i)] = 2;
    depth.by_priority[i] = 1;
  }
  queue_.Set(depth);
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_owner_jobs{owner=\"u100\"} 2\n"));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_owner_jobs{owner=\"other\"} 6\n"));
  EXPECT_THAT(Text(), Not(HasSubstr("owner=\"u134\"")));
  EXPECT_THAT(
      Text(),
      HasSubstr(absl::StrCat(
          "mpsd_queue_priority_jobs{priority=\"other\"} ",
          owners - static_cast<int>(QueueMetrics::kMostPriorities), "\n")));
  // The numbers of names.h.
  EXPECT_THAT(
      kQueuedByPriority.help,
      HasSubstr(absl::StrCat("first ", QueueMetrics::kMostPriorities, " ")));
  EXPECT_THAT(kQueuedByOwner.help,
              HasSubstr(absl::StrCat("first ", QueueMetrics::kMostOwners)));
}

TEST_F(QueueMetricsTest, OwnersWhoLookAlikeAreCountedTogether) {
  const std::string name(2 * kLabelBytes, 'x');
  queue_.Set({{}, {{name + "a", 1}, {name + "b", 1}}, std::nullopt});
  EXPECT_THAT(Text(), HasSubstr("x…\"} 2\n"));
}

TEST_F(QueueMetricsTest, TheOldestJobGrowsOlder) {
  const absl::Time since = absl::UnixEpoch();
  queue_.SetAge(since);
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_oldest_age_seconds 0\n"));
  queue_.Set({{{0, 1}}, {{"ada", 1}}, since});
  queue_.SetAge(since + absl::Seconds(90));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_oldest_age_seconds 90\n"));
  queue_.SetAge(since - absl::Seconds(5));
  EXPECT_THAT(Text(), HasSubstr("mpsd_queue_oldest_age_seconds 0\n"));
}

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
