// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fakes/fake_job_files.h"
#include "tests/fakes/test_store.h"

namespace mpsd::jobs {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

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

JobQueue::Entry Entry(const std::string& id) {
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
    JobQueue::Entry entry = Entry(id);
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
  JobQueue::Entry entry = Entry("a");
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

TEST(QueueView, AJobsOwnReasonGoesWithIt) {
  QueueView view;
  view.Push(Entry("a"));
  view.Push(Entry("b"));
  view.HoldJob("a", "its model is away", absl::Seconds(5));
  view.HoldJob("c", "nobody", absl::Seconds(5));
  EXPECT_EQ(view.HoldOf("a"), "its model is away");
  EXPECT_THAT(view.HoldOf("b"), IsEmpty());
  EXPECT_THAT(view.HoldOf("c"), IsEmpty());
  EXPECT_EQ(view.Next(absl::Seconds(1))->id, "b");
  EXPECT_EQ(view.Position("a"), 0);
  EXPECT_TRUE(view.Remove("a"));
  view.Push(Entry("a"));
  EXPECT_THAT(view.HoldOf("a"), IsEmpty());
}

TEST(QueueView, TheQueuesReasonIsEveryWaitingJobs) {
  QueueView view;
  view.Push(Entry("a"));
  view.SetRunning("r", Pause());
  view.SetQueueHold(HoldReason::kDisk, "the disk is full");
  EXPECT_EQ(view.HoldOf("a"), "the disk is full");
  EXPECT_THAT(view.HoldOf("r"), IsEmpty());
  EXPECT_EQ(view.Info().running_job_id, "r");
}

TEST(QueueView, AJobThatWaitsForOthersHasNoTime) {
  QueueView view;
  view.Push(Entry("a"));
  view.HoldJob("a", "waits for b", absl::InfiniteDuration());
  EXPECT_EQ(view.Next(absl::Hours(1)), std::nullopt);
  EXPECT_EQ(view.NextTime(), absl::InfiniteDuration());
  const QueueListing listing =
      view.Listing(10, absl::UnixEpoch(), absl::ZeroDuration());
  ASSERT_EQ(listing.places.size(), 1u);
  EXPECT_EQ(listing.places[0].hold, "waits for b");
  EXPECT_EQ(listing.places[0].not_before, std::nullopt);
  // The time under a hold is no time in which the queue was stuck.
  view.Unhold("a", absl::UnixEpoch() + absl::Hours(9));
  EXPECT_EQ(view.Depth().oldest, absl::UnixEpoch() + absl::Hours(9));
  EXPECT_EQ(view.HoldOf("a"), "");
  EXPECT_EQ(view.Next(absl::ZeroDuration())->id, "a");
  // A back-off is no hold.
  JobQueue::Entry later = Entry("b");
  later.not_before = absl::Seconds(5);
  view.Push(later);
  view.Unhold("b", absl::UnixEpoch());
  view.Remove("a");
  EXPECT_EQ(view.NextTime(), absl::Seconds(5));
}

TEST(QueueView, AJobIsPushedWithItsHold) {
  QueueView view;
  view.Push(Entry("a"), "by ann");
  EXPECT_EQ(view.Next(absl::Hours(1)), std::nullopt);
  EXPECT_EQ(view.HoldOf("a"), "by ann");
  view.Push(Entry("a"));
  EXPECT_EQ(view.HoldOf("a"), "");
  EXPECT_EQ(view.Next(absl::ZeroDuration())->id, "a");
  view.SetQueueHold(HoldReason::kDrained, "mpsd is drained by root");
  EXPECT_TRUE(view.Info().drained);
  EXPECT_EQ(view.HoldOf("a"), "mpsd is drained by root");
  view.SetQueueHold(HoldReason::kDisk, "full");
  EXPECT_EQ(view.Info().hold_reason, "disk") << "which is graver";
  EXPECT_TRUE(view.Info().drained);
}

TEST(QueueView, ListsTheJobsAheadOfANewJobAndChangesNothing) {
  QueueView view;
  const absl::Duration now = absl::Hours(1000);
  const absl::Time time = absl::FromUnixSeconds(1'000'000);
  for (const char* id : {"a", "b", "c", "d"}) {
    JobQueue::Entry entry = Entry(id);
    entry.owner = "ann";
    entry.priority = id[0] == 'd' ? -1 : 0;
    entry.time_left = absl::Seconds(7);
    view.Push(entry, id[0] == 'c' ? "held by ann" : "");
  }
  view.Start("a");
  view.SetRunning("a", Pause());
  const QueueListing before = view.ListingBefore("bob", 0, 9, time, now);
  ASSERT_EQ(before.places.size(), 3u) << "d has less priority";
  EXPECT_EQ(before.places[0].state, State::kRunning);
  EXPECT_EQ(before.places[1].id, "b");
  EXPECT_EQ(before.places[1].time_left, absl::Seconds(7));
  EXPECT_FALSE(before.places[1].waits_for_somebody);
  EXPECT_TRUE(before.places[2].waits_for_somebody);
  EXPECT_EQ(before.more, 0);
  EXPECT_EQ(view.ListingBefore("bob", 0, 1, time, now).more, 1);
  EXPECT_EQ(view.ListingBefore("bob", 1, 9, time, now).places.size(), 1u);
  EXPECT_EQ(view.ListingBefore("bob", -1, 9, time, now).places.size(), 4u);
  EXPECT_EQ(view.Listing(9, time, now).places.size(), 4u);
  EXPECT_EQ(view.CountOf("bob"), 0);
  EXPECT_EQ(view.Depth().by_priority.size(), 2u);
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

TEST_F(JobReaderTest, ShowsWhatTheStoreHas) {
  Put(kId);
  ASSERT_TRUE(store_.AddCheckpoint(kId, {{1, "/c", 5, 0.5}, {}}).ok());
  EXPECT_EQ(board_.Get(kId)->id, kId);
  EXPECT_THAT(*board_.List({}), SizeIs(1));
  EXPECT_THAT(*board_.FindByIdPart("01KA", 5), SizeIs(1));
  EXPECT_THAT(*board_.Checkpoints(kId), SizeIs(1));
  EXPECT_THAT(*board_.Events(kId, 0), SizeIs(1));
  EXPECT_THAT(*board_.Events(kId, 1), IsEmpty());
  EXPECT_EQ(*board_.LastSequence(kId), 1);
}

TEST_F(JobReaderTest, WhatIsNotThereIsNotFound) {
  EXPECT_TRUE(absl::IsNotFound(board_.Get(kId).status()));
  EXPECT_TRUE(absl::IsNotFound(board_.Events(kId, 0).status()));
  EXPECT_TRUE(absl::IsNotFound(board_.Checkpoints(kId).status()));
}

TEST_F(JobReaderTest, ShowsWhatTheSchedulerPutUp) {
  board_.view().Push({"a", 0, absl::UnixEpoch()});
  board_.view().Push({"b", 0, absl::UnixEpoch()});
  board_.view().SetQueueHold(HoldReason::kDisk, "full");
  board_.view().SetRunning("r", {{PauseReason::kBattery}, true, {}});
  EXPECT_EQ(board_.QueuePosition("b"), 1);
  EXPECT_EQ(board_.Queue(1).places.back().id, "a");
  EXPECT_EQ(board_.Queue(1).more, 1);
  EXPECT_EQ(board_.HoldOf("b"), "full");
  EXPECT_TRUE(board_.PauseOf("r").held);
  EXPECT_EQ(board_.Info().running_job_id, "r");
  EXPECT_EQ(board_.Info().hold_reason, "disk");
}

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
