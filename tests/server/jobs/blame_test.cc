// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <map>

#include "server/jobs/attempt_end.h"

namespace mpsd::jobs {
namespace {

// The table of attempt_end.h, once more and by hand.
TEST(BlamedPartyFor, FollowsTheTable) {
  const std::map<ExitReason, BlamedParty> expected = {
      {ExitReason::kDone, BlamedParty::kNobody},
      {ExitReason::kCancelled, BlamedParty::kNobody},
      {ExitReason::kPreempted, BlamedParty::kNobody},
      {ExitReason::kRejected, BlamedParty::kJob},
      {ExitReason::kOutOfMemory, BlamedParty::kJob},
      {ExitReason::kNonFinite, BlamedParty::kJob},
      {ExitReason::kCrashed, BlamedParty::kJob},
      {ExitReason::kHung, BlamedParty::kJob},
      {ExitReason::kProtocolError, BlamedParty::kJob},
      {ExitReason::kTimeLimit, BlamedParty::kJob},
      {ExitReason::kMachine, BlamedParty::kMachine},
      {ExitReason::kInterrupted, BlamedParty::kInterruption}};
  for (ExitReason reason : kAllExitReasons) {
    ASSERT_TRUE(expected.contains(reason)) << Name(reason);
    EXPECT_EQ(BlamedPartyFor(reason), expected.at(reason)) << Name(reason);
  }
}

TEST(BlamedParty, HasALabel) {
  EXPECT_EQ(Name(BlamedParty::kNobody), "nobody");
  EXPECT_EQ(Name(BlamedParty::kJob), "job");
  EXPECT_EQ(Name(BlamedParty::kMachine), "machine");
  EXPECT_EQ(Name(BlamedParty::kInterruption), "interruption");
}

TEST(IsForGood, OnlyWhatTheJobWouldDoAgain) {
  for (ExitReason reason : kAllExitReasons) {
    EXPECT_EQ(IsForGood(reason), reason == ExitReason::kRejected ||
                                     reason == ExitReason::kOutOfMemory ||
                                     reason == ExitReason::kNonFinite ||
                                     reason == ExitReason::kTimeLimit)
        << Name(reason);
    if (IsForGood(reason)) {
      EXPECT_EQ(BlamedPartyFor(reason), BlamedParty::kJob) << Name(reason);
    }
  }
}

}  // namespace
}  // namespace mpsd::jobs
