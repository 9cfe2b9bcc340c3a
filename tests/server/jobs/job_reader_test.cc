// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/test_store.h"

namespace mpsd::jobs {
namespace {

using testing::IsEmpty;

TEST(EventHub, WakesThoseWhoWaitForTheJobUntilTheyLeave) {
  EventHub hub;
  int first = 0, second = 0, other = 0;
  const int64_t token = hub.Subscribe("A", [&] { ++first; });
  hub.Subscribe("A", [&] { ++second; });
  hub.Subscribe("B", [&] { ++other; });
  hub.Wake("A");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 1);
  EXPECT_EQ(other, 0);
  hub.Wake("nobody");
  hub.Unsubscribe(token);
  hub.Unsubscribe(token);
  hub.Wake("A");
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 2);
}

JobQueue::Entry ReadyEntry(const std::string& id) {
  JobQueue::Entry entry;
  entry.id = id;
  return entry;
}

TEST(QueueView, ReportsTheGravestHold) {
  QueueView view;
  EXPECT_TRUE(view.SetQueueHold(HoldReason::kDevice, "the self-test runs"));
  EXPECT_FALSE(view.SetQueueHold(HoldReason::kDevice, "the self-test runs"));
  EXPECT_TRUE(view.SetQueueHold(HoldReason::kStorage, "the disk is full"));
  EXPECT_EQ(view.Info().hold, "the disk is full");
  EXPECT_EQ(view.Info().hold_reason, "storage");
  EXPECT_EQ(view.holds().size(), 2);
  EXPECT_TRUE(view.SetQueueHold(HoldReason::kStorage, ""));
  EXPECT_FALSE(view.SetQueueHold(HoldReason::kStorage, ""));
  EXPECT_EQ(view.Info().hold_reason, "device");
  EXPECT_TRUE(view.SetQueueHold(HoldReason::kDevice, ""));
  EXPECT_THAT(view.Info().hold, IsEmpty());
  EXPECT_THAT(view.Info().hold_reason, IsEmpty());
}

TEST(QueueView, ListsTheQueueAndWhy) {
  QueueView view;
  const absl::Duration now = absl::Hours(1000);
  const absl::Time time = absl::FromUnixSeconds(1'000'000);
  view.SetHalfLife(absl::Hours(24));
  for (const char* id : {"a", "b", "c", "d"}) {
    JobQueue::Entry entry = ReadyEntry(id);
    entry.owner = id[0] == 'b' ? "bob" : "ann";
    entry.name = absl::StrCat("job ", id);
    entry.since = time - absl::Minutes(5);
    if (id[0] == 'c') entry.not_before = now + absl::Seconds(30);
    view.Push(entry);
  }
  view.Start("a");
  view.SetRunning("a", Pause());
  const std::optional<OwnerUse> use =
      view.Charge("ann", absl::Hours(2), now, time);
  ASSERT_TRUE(use.has_value());
  EXPECT_EQ(use->owner, "ann");
  EXPECT_NEAR(use->seconds, 7200, 1e-6);
  EXPECT_EQ(use->time, time);
  view.SetQueueHold(HoldReason::kDisk, "the disk is full");

  const QueueListing listing = view.Listing(2, time, now);
  ASSERT_EQ(listing.places.size(), 3u);
  EXPECT_EQ(listing.places[0].id, "a");
  EXPECT_EQ(listing.places[0].state, State::kRunning);
  EXPECT_EQ(listing.places[0].why, "has the device");
  EXPECT_EQ(listing.places[0].hold, "");
  EXPECT_EQ(listing.places[1].id, "b");
  EXPECT_EQ(listing.places[1].name, "job b");
  EXPECT_EQ(listing.places[1].since, time - absl::Minutes(5));
  EXPECT_EQ(listing.places[1].why,
            "priority 0, bob has not used the device lately");
  EXPECT_EQ(listing.places[1].hold, "the disk is full");
  EXPECT_EQ(listing.places[1].not_before, std::nullopt);
  EXPECT_EQ(listing.places[2].id, "c");
  EXPECT_EQ(listing.places[2].why,
            "priority 0, ann has used the device 2h lately");
  EXPECT_EQ(listing.places[2].not_before, time + absl::Seconds(30));
  EXPECT_EQ(listing.more, 1);
  ASSERT_EQ(listing.usage.size(), 1u) << "bob used nothing";
  EXPECT_EQ(listing.usage[0].owner, "ann");
  EXPECT_EQ(listing.half_life, absl::Hours(24));

  view.SetRunning("", Pause());
  EXPECT_EQ(view.Listing(1, time, now).places[0].id, "b") << "a has ended";
}

TEST(QueueView, TakesOverWhatWasStoredByItsAge) {
  QueueView view;
  const absl::Duration now = absl::Hours(1);
  const absl::Time time = absl::FromUnixSeconds(1'000'000);
  view.SetHalfLife(absl::Hours(24));
  JobQueue::Entry entry = ReadyEntry("a");
  entry.owner = "ann";
  view.Push(entry);
  const auto used = [&] {
    const QueueListing listing = view.Listing(9, time, now);
    return listing.usage.empty() ? 0 : listing.usage[0].seconds;
  };
  view.Restore({"ann", std::nan(""), time}, now, time);
  view.Restore({"ann", HUGE_VAL, time}, now, time);
  EXPECT_EQ(used(), 0) << "a damaged database says nothing";
  view.Restore({"ann", 800, time - absl::Hours(72)}, now, time);
  EXPECT_NEAR(used(), 100, 1e-6);
  // As the wall clock was set back since: it is no younger than now.
  view.Restore({"ann", 11, time + absl::Hours(9999)}, now, time);
  EXPECT_NEAR(used(), 111, 1e-6);
  EXPECT_THAT(view.ForgetUses(now), IsEmpty());
  EXPECT_THAT(view.ForgetUses(now + absl::Hours(24 * 10)),
              testing::ElementsAre("ann"));
}

constexpr char kId[] = "01KAH0AAAAAAAAAAAAAAAAAAAA";

class JobReaderTest : public testing::Test {
 protected:
  void Put(const std::string& id) {
    Job job;
    job.id = id;
    const Event first{id, 1, job.create_time, StateChanged{State::kQueued, ""}};
    ASSERT_TRUE(store_.Insert(job, first).ok());
  }

  fakes::TestStore db_;
  JobStore& store_ = db_.rows;
  fakes::FakeJobFiles files_;
  JobReader board_{store_, files_};
};

TEST_F(JobReaderTest, PathsAreThoseOfJobsAlone) {
  EXPECT_EQ(board_.LogPath(kId), std::string("/state/jobs/") + kId + "/log");
  EXPECT_EQ(board_.JobFolder(kId), std::string("/state/jobs/") + kId);
  EXPECT_EQ(board_.LogPath("../../etc"), "");
  EXPECT_EQ(board_.JobFolder("../../etc"), "");
  EXPECT_EQ(board_.RunFolder(kId), std::string("/state/jobs/") + kId + "/out");
  EXPECT_EQ(board_.RunFolder("../../etc"), "");
}

TEST_F(JobReaderTest, AJobsRequestIsNotThereForeverAgo) {
  EXPECT_TRUE(absl::IsNotFound(board_.RequestOf(kId).status()));
  Put(kId);
  EXPECT_TRUE(absl::IsFailedPrecondition(board_.RequestOf(kId).status()));
}

}  // namespace
}  // namespace mpsd::jobs
