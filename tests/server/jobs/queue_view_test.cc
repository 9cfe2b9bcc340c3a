// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/queue_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mpsd::jobs {
namespace {

using testing::IsEmpty;

JobQueue::Entry Entry(const std::string& id) {
  JobQueue::Entry entry;
  entry.id = id;
  return entry;
}

TEST(QueueView, TellsTheGravestHold) {
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

TEST(QueueView, CountsTheJobsThatWait) {
  QueueView view;
  EXPECT_TRUE(view.Depth().by_priority.empty());
  view.Push(Entry("a"));
  EXPECT_EQ(view.Depth().by_priority.at(0), 1);
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

}  // namespace
}  // namespace mpsd::jobs
