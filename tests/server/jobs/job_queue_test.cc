// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace mpsd::jobs {
namespace {

constexpr absl::Duration kNow = absl::Seconds(1000);

JobQueue::Entry Entry(const std::string& id, int32_t priority = 0,
                      absl::Duration not_before = -absl::InfiniteDuration()) {
  return {id, priority, absl::UnixEpoch(), not_before, false};
}

TEST(JobQueue, AddsUpTheTimesOnlyWhereEachIsKnown) {
  JobQueue queue;
  EXPECT_EQ(queue.Depth().time_left, absl::ZeroDuration());
  JobQueue::Entry slow = Entry("1"), quick = Entry("2"), fresh = Entry("3");
  slow.time_left = absl::Hours(2);
  quick.time_left = absl::Seconds(5);
  queue.Push(slow);
  queue.Push(quick);
  queue.Push(fresh);
  EXPECT_EQ(queue.Depth().time_left, std::nullopt);
  queue.Remove("3");
  EXPECT_EQ(queue.Depth().time_left, absl::Hours(2) + absl::Seconds(5));
  queue.Push(Entry("2"));
  EXPECT_EQ(queue.Depth().time_left, std::nullopt);
  queue.Push(quick);
  queue.Remove("1");
  EXPECT_EQ(queue.Depth().time_left, absl::Seconds(5));
  queue.Remove("2");
  EXPECT_EQ(queue.Depth().time_left, absl::ZeroDuration());
}

TEST(JobQueue, CountsWhoWaitsAndForHowLong) {
  JobQueue queue;
  EXPECT_EQ(queue.Depth().oldest, std::nullopt);
  const absl::Time start = absl::UnixEpoch();
  for (const char* id : {"1", "2", "3"}) {
    JobQueue::Entry entry = Entry(id, id[0] == '3' ? 7 : 0);
    entry.owner = id[0] == '1' ? "ada" : "bob";
    entry.since = start - absl::Seconds(id[0] - '0');
    queue.Push(entry);
  }
  const QueueDepth depth = queue.Depth();
  EXPECT_EQ(depth.by_priority, (std::map<int32_t, int64_t>{{0, 2}, {7, 1}}));
  EXPECT_EQ(depth.by_owner,
            (std::map<std::string, int64_t>{{"ada", 1}, {"bob", 2}}));
  EXPECT_EQ(depth.oldest, start - absl::Seconds(3));
  queue.Remove("3");
  EXPECT_EQ(queue.Depth().oldest, start - absl::Seconds(2));
  queue.Push(Entry("2", 5));  // in the place of the other
  EXPECT_EQ(queue.Depth().by_priority,
            (std::map<int32_t, int64_t>{{0, 1}, {5, 1}}));
  queue.Remove("1");
  queue.Remove("2");
  EXPECT_TRUE(queue.Depth().by_owner.empty());
  EXPECT_EQ(queue.Depth().oldest, std::nullopt);
}

TEST(JobQueue, IsFifoWithinPriority) {
  JobQueue queue;
  for (const auto& entry :
       {Entry("3"), Entry("1"), Entry("4", 5), Entry("2"), Entry("5", -1)}) {
    queue.Push(entry);
  }
  for (const char* id : {"4", "1", "2", "3", "5"}) {
    ASSERT_TRUE(queue.Next(kNow).has_value());
    EXPECT_EQ(queue.Next(kNow)->id, id);
    EXPECT_TRUE(queue.Remove(id));
  }
  EXPECT_FALSE(queue.Next(kNow).has_value());
  EXPECT_FALSE(queue.Remove("1"));
}

TEST(JobQueue, OthersOvertakeAJobThatWaits) {
  JobQueue queue;
  queue.Push(Entry("1", 9, kNow + absl::Seconds(10)));
  EXPECT_FALSE(queue.Next(kNow).has_value());
  queue.Push(Entry("2"));
  EXPECT_EQ(queue.Next(kNow)->id, "2");
  EXPECT_EQ(queue.Next(kNow + absl::Seconds(10))->id, "1");
}

TEST(JobQueue, OneThatStaysBehindRunsAfterEveryPriority) {
  JobQueue queue;
  JobQueue::Entry behind = Entry("1", 100);
  behind.behind = true;
  queue.Push(behind);
  queue.Push(Entry("2", -5));
  EXPECT_EQ(queue.Next(kNow)->id, "2");
  EXPECT_EQ(queue.Position("1"), 1);
  queue.Remove("2");
  EXPECT_EQ(queue.Next(kNow)->id, "1");
}

TEST(JobQueue, ADelayedJobKeepsItsPlace) {
  JobQueue queue;
  queue.Push(Entry("1"));
  queue.Push(Entry("2"));
  queue.Delay("1", kNow + absl::Seconds(5));
  queue.Delay("3", kNow);
  EXPECT_EQ(queue.Next(kNow)->id, "2");
  EXPECT_EQ(queue.Position("1"), 0);
  EXPECT_EQ(queue.Position("3"), std::nullopt);
  EXPECT_EQ(queue.Next(kNow + absl::Seconds(5))->id, "1");
}

TEST(JobQueue, KnowsWhenToLookAgain) {
  JobQueue queue;
  EXPECT_EQ(queue.NextTime(), absl::InfiniteDuration());
  queue.Push(Entry("1", 9, kNow + absl::Seconds(10)));
  queue.Push(Entry("2", 0, kNow + absl::Seconds(5)));
  EXPECT_EQ(queue.NextTime(), kNow + absl::Seconds(5));
  queue.Push(Entry("3"));
  EXPECT_LE(queue.NextTime(), kNow);
}

TEST(JobQueue, AJobIsThereOnce) {
  JobQueue queue;
  queue.Push(Entry("1"));
  queue.Push(Entry("2"));
  queue.Push(Entry("1", -1));
  EXPECT_EQ(queue.Position("2"), 0);
  EXPECT_EQ(queue.Position("1"), 1);
  EXPECT_TRUE(queue.Remove("1"));
  EXPECT_FALSE(queue.Remove("1"));
}

// Against a list that is sorted anew for each question.
TEST(JobQueue, StandsAsASortedListWould) {
  JobQueue queue;
  std::map<std::string, JobQueue::Entry> all;
  std::map<std::string, double> shares;
  std::mt19937 random(7);
  const auto random_owner = [&] { return std::string(1, 'a' + random() % 6); };
  for (int i = 0; i < 3000; ++i) {
    const std::string id = std::to_string(100 + random() % 60);
    if (random() % 4 == 0) {
      EXPECT_EQ(queue.Remove(id), all.erase(id) == 1);
    } else if (random() % 3 == 0) {
      // Few values, so that owners often have the same.
      const std::string owner = random_owner();
      shares[owner] = random() % 3 == 0 ? UsageBook::kNoShare
                                        : static_cast<double>(random() % 4);
      queue.SetShare(owner, shares[owner]);
    } else {
      JobQueue::Entry entry = Entry(id, static_cast<int>(random() % 3) - 1);
      entry.behind = random() % 4 == 0;
      entry.owner = random_owner();
      queue.Push(entry);
      all[id] = entry;
    }
    std::vector<std::tuple<bool, int32_t, double, std::string>> sorted;
    for (const auto& [key, e] : all) {
      const auto share = shares.find(e.owner);
      sorted.emplace_back(
          e.behind, -e.priority,
          share == shares.end() ? UsageBook::kNoShare : share->second, key);
    }
    std::sort(sorted.begin(), sorted.end());
    ASSERT_EQ(queue.size(), sorted.size());
    const std::vector<JobQueue::Entry> first = queue.First(sorted.size());
    for (size_t at = 0; at < sorted.size(); ++at) {
      const std::string& expected = std::get<3>(sorted[at]);
      ASSERT_EQ(queue.Position(expected), static_cast<int32_t>(at));
      ASSERT_EQ(first[at].id, expected);
      ASSERT_EQ(queue.Find(expected)->owner, all[expected].owner);
    }
    const auto next = queue.Next(kNow);
    ASSERT_EQ(next.has_value(), !sorted.empty());
    if (next) {
      ASSERT_EQ(next->id, std::get<3>(sorted[0]));
    }
  }
}

JobQueue::Entry Of(const std::string& owner, const std::string& id,
                   int32_t priority = 0) {
  JobQueue::Entry entry = Entry(id, priority);
  entry.owner = owner;
  return entry;
}

TEST(JobQueue, WhoUsedTheDeviceLeastIsFirstAmongEqualPriorities) {
  JobQueue queue;
  queue.SetShare("ann", 3);
  for (const auto& entry : {Of("ann", "1"), Of("ann", "2", 1), Of("bob", "3"),
                            Of("cid", "4"), Of("bob", "5")}) {
    queue.Push(entry);
  }
  queue.SetShare("cid", 2);
  for (const char* id : {"2", "3", "5", "4", "1"}) {
    EXPECT_EQ(queue.Next(kNow)->id, id);
    queue.Remove(id);
  }
}

TEST(JobQueue, OwnersOfEqualShareStandInOneLine) {
  JobQueue queue;
  queue.Push(Of("ann", "1"));
  queue.Push(Of("bob", "2"));
  queue.Push(Of("ann", "3"));
  queue.SetShare("ann", 1);
  EXPECT_EQ(queue.Position("2"), 0);
  queue.SetShare("bob", 1);
  EXPECT_EQ(queue.Position("2"), 1);
  queue.SetShare("ann", UsageBook::kNoShare);
  EXPECT_EQ(queue.Position("2"), 2);
}

TEST(JobQueue, AShareOutlivesTheOwnersJobs) {
  JobQueue queue;
  queue.Push(Of("ann", "1"));
  queue.SetShare("ann", 1);
  queue.Remove("1");
  queue.Push(Of("bob", "3"));
  queue.Push(Of("ann", "2"));
  EXPECT_EQ(queue.Next(kNow)->id, "3");
  queue.SetShare("ann", UsageBook::kNoShare);
  EXPECT_EQ(queue.Next(kNow)->id, "2");
}

TEST(JobQueue, KnowsWhenAHigherPriorityMayRun) {
  JobQueue queue;
  EXPECT_EQ(queue.NextTimeAbove(0), absl::InfiniteDuration());
  queue.Push(Entry("1", 0));
  queue.Push(Entry("2", 2, kNow + absl::Seconds(9)));
  queue.Push(Entry("3", 1, kNow + absl::Seconds(5)));
  JobQueue::Entry behind = Entry("4", 9, kNow);
  behind.behind = true;
  queue.Push(behind);
  EXPECT_EQ(queue.NextTimeAbove(0), kNow + absl::Seconds(5));
  EXPECT_EQ(queue.NextTimeAbove(1), kNow + absl::Seconds(9));
  EXPECT_EQ(queue.NextTimeAbove(2), absl::InfiniteDuration());
}

// What a daemon with a long queue does: it takes over the jobs, charges the
// running job's owner at each step and shows pages of places meanwhile.
TEST(JobQueue, AHundredThousandJobsOfFiftyOwnersTakeMicroseconds) {
  JobQueue queue;
  const auto owner_of = [](int i) { return "owner " + std::to_string(i % 50); };
  for (int i = 0; i < 50; i += 2) queue.SetShare(owner_of(i), i);
  const absl::Time start = absl::Now();
  for (int i = 0; i < 100'000; ++i) {
    queue.Push(Of(owner_of(i), absl::StrFormat("%08d", i)));
  }
  const absl::Time pushed = absl::Now();
  for (int page = 0; page < 200; ++page) {
    queue.SetShare(owner_of(page), 0.25 * page);
    for (int i = 0; i < 500; ++i) {
      ASSERT_TRUE(queue.Position(absl::StrFormat("%08d", page * 500 + i)));
    }
  }
  const absl::Time shown = absl::Now();
  RecordProperty("push_us", absl::ToDoubleMicroseconds(pushed - start) / 1e5);
  RecordProperty("place_us", absl::ToDoubleMicroseconds(shown - pushed) / 1e5);
  EXPECT_LT(pushed - start, absl::Seconds(20));
  EXPECT_LT(shown - pushed, absl::Seconds(20));
}

TEST(JobQueue, CountsThoseAhead) {
  JobQueue queue;
  queue.Push(Entry("1"));
  queue.Push(Entry("2", 1));
  queue.Push(Entry("3"));
  EXPECT_EQ(queue.Position("2"), 0);
  EXPECT_EQ(queue.Position("1"), 1);
  EXPECT_EQ(queue.Position("3"), 2);
  EXPECT_EQ(queue.Position("4"), std::nullopt);
}

}  // namespace
}  // namespace mpsd::jobs
