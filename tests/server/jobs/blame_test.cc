// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/blame.h"

#include <gtest/gtest.h>

#include <map>

namespace mpsd::jobs {
namespace {

// The table of blame.h, once more and by hand.
TEST(BlameFor, FollowsTheTable) {
  const std::map<ExitReason, Blame> expected = {
      {ExitReason::kDone, Blame::kNobody},
      {ExitReason::kCancelled, Blame::kNobody},
      {ExitReason::kPreempted, Blame::kNobody},
      {ExitReason::kRejected, Blame::kJob},
      {ExitReason::kOutOfMemory, Blame::kJob},
      {ExitReason::kNonFinite, Blame::kJob},
      {ExitReason::kCrashed, Blame::kJob},
      {ExitReason::kHung, Blame::kJob},
      {ExitReason::kProtocolError, Blame::kJob},
      {ExitReason::kMachine, Blame::kMachine},
      {ExitReason::kInterrupted, Blame::kInterruption}};
  for (ExitReason reason : kAllExitReasons) {
    ASSERT_TRUE(expected.contains(reason)) << Name(reason);
    EXPECT_EQ(BlameFor(reason), expected.at(reason)) << Name(reason);
  }
}

TEST(IsForGood, OnlyWhatTheJobWouldDoAgain) {
  for (ExitReason reason : kAllExitReasons) {
    EXPECT_EQ(IsForGood(reason), reason == ExitReason::kRejected ||
                                     reason == ExitReason::kOutOfMemory ||
                                     reason == ExitReason::kNonFinite)
        << Name(reason);
    if (IsForGood(reason)) {
      EXPECT_EQ(BlameFor(reason), Blame::kJob) << Name(reason);
    }
  }
}

}  // namespace
}  // namespace mpsd::jobs
