// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/jobs/job_deletion.h"

namespace mpsd::jobs {
namespace {

using testing::HasSubstr;

TEST(FolderClaims, WhoComesSecondIsToldToTryAgain) {
  FolderClaims claims;
  {
    const auto use = claims.Take({"a", "b"}, nullptr);
    ASSERT_TRUE(use.ok()) << use.status();
    EXPECT_TRUE(claims.Take({"b"}, nullptr).ok()) << "many may need a job";
    const auto refused = claims.Remove("b");
    EXPECT_TRUE(absl::IsAborted(refused.status()));
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("job b is needed"));
    EXPECT_TRUE(claims.Remove("c").ok());
  }
  {
    const auto removal = claims.Remove("b");
    ASSERT_TRUE(removal.ok()) << removal.status();
    EXPECT_TRUE(absl::IsAborted(claims.Remove("b").status()));
    const auto refused = claims.Take({"a", "b"}, nullptr);
    EXPECT_TRUE(absl::IsAborted(refused.status()));
    EXPECT_THAT(std::string(refused.status().message()),
                HasSubstr("files of job b are being removed"));
    // A refused Take keeps nothing.
    EXPECT_TRUE(claims.Remove("a").ok());
  }
  EXPECT_TRUE(claims.Take({"a", "b"}, nullptr).ok());
}

TEST(FolderClaims, ASubmissionLearnsWhatWentWhileItLooked) {
  FolderClaims claims;
  { ASSERT_TRUE(claims.Remove("early").ok()); }
  const FolderClaims::Watch watch = claims.Begin();
  { ASSERT_TRUE(claims.Remove("late").ok()); }
  EXPECT_TRUE(claims.Take({"early"}, &watch).ok());
  EXPECT_TRUE(absl::IsAborted(claims.Take({"late"}, &watch).status()));
  // One that begins now sees the truth of the disk.
  const FolderClaims::Watch next = claims.Begin();
  EXPECT_TRUE(claims.Take({"late"}, &next).ok());
}

TEST(FolderClaims, AClaimThatWasMovedEndsOnce) {
  FolderClaims claims;
  {
    std::optional<FolderClaims::Use> kept;
    {
      absl::StatusOr<FolderClaims::Use> use = claims.Take({"a"}, nullptr);
      kept.emplace(*std::move(use));
    }
    EXPECT_FALSE(claims.Remove("a").ok());
  }
  EXPECT_TRUE(claims.Remove("a").ok());
}

// A job is never both needed and removed, whoever comes when.
TEST(FolderClaims, NobodyNeedsWhatIsRemoved) {
  FolderClaims claims;
  std::atomic<int> uses = 0, removals = 0, both = 0;
  const auto use = [&] {
    const auto claim = claims.Take({"a"}, nullptr);
    if (!claim.ok()) return false;
    ++uses;
    if (removals > 0) ++both;
    --uses;
    return true;
  };
  const auto remove = [&] {
    const auto claim = claims.Remove("a");
    if (!claim.ok()) return false;
    if (++removals > 1 || uses > 0) ++both;
    --removals;
    return true;
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      // Who is refused lets the others go on, so that each comes to its turn.
      for (int claimed = 0; claimed < 2000;) {
        if (t % 2 == 0 ? use() : remove()) {
          ++claimed;
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(both, 0);
}

}  // namespace
}  // namespace mpsd::jobs
