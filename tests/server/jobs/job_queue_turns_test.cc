// SPDX-License-Identifier: Apache-2.0
// Jobs that were moved in the queue, and jobs that wait for somebody.
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "server/jobs/job_queue.h"

namespace mpsd::jobs {
namespace {

constexpr absl::Duration kNow = absl::Seconds(1000);

JobQueue::Entry Entry(const std::string& id, int32_t priority = 0,
                      absl::Duration not_before = -absl::InfiniteDuration()) {
  return {id, priority, absl::UnixEpoch(), not_before, false};
}

JobQueue::Entry Of(const std::string& owner, const std::string& id,
                   int32_t priority = 0) {
  JobQueue::Entry entry = Entry(id, priority);
  entry.owner = owner;
  return entry;
}

JobQueue::Entry Moved(JobQueue::Entry entry, int64_t place,
                      bool among_all = false) {
  entry.place = place;
  entry.among_all = among_all;
  return entry;
}

std::vector<std::string> Order(const JobQueue& queue) {
  std::vector<std::string> ids;
  for (const JobQueue::Entry& entry : queue.First(queue.size())) {
    ids.push_back(entry.id);
  }
  return ids;
}

TEST(JobQueueTurns, WhoMovesAJobTakesNoTurnOfOthers) {
  JobQueue queue;
  for (const auto& entry : {Of("ann", "1"), Of("bob", "2"), Of("ann", "3"),
                            Moved(Of("ann", "4"), -1)}) {
    queue.Push(entry);
  }
  EXPECT_EQ(Order(queue), (std::vector<std::string>{"4", "2", "1", "3"}));
  EXPECT_EQ(queue.Next(kNow)->id, "4");
  EXPECT_EQ(queue.Position("1"), 2);
  // It leaves with the turn of 1, which has its turn from now on.
  const auto heir = queue.TakeTurn("4");
  ASSERT_TRUE(heir.has_value());
  EXPECT_EQ(heir->id, "1");
  EXPECT_EQ(heir->ticket, "4");
  EXPECT_EQ(queue.Find("4")->ticket, "1");
  EXPECT_EQ(queue.TakeTurn("4").has_value(), false);
  queue.Remove("4");
  EXPECT_EQ(Order(queue), (std::vector<std::string>{"2", "1", "3"}));
  EXPECT_EQ(queue.TakeTurn("2").has_value(), false);
  EXPECT_EQ(queue.TakeTurn("none").has_value(), false);
}

TEST(JobQueueTurns, SidesStandBeforeAndBehindEveryShare) {
  JobQueue queue;
  queue.SetShare("ann", 5);
  for (const auto& entry :
       {Moved(Of("bob", "1"), 3, true), Moved(Of("ann", "2"), -2, true),
        Of("bob", "3"), Moved(Of("cid", "4"), -1, true), Of("ann", "5"),
        Moved(Of("dan", "6"), 1, true), Of("ann", "7", -1)}) {
    queue.Push(entry);
  }
  EXPECT_EQ(Order(queue),
            (std::vector<std::string>{"2", "4", "3", "5", "6", "1", "7"}));
  queue.SetShare("ann", UsageBook::kNoShare);
  queue.SetShare("bob", 9);
  EXPECT_EQ(Order(queue),
            (std::vector<std::string>{"2", "4", "5", "3", "6", "1", "7"}));
}

TEST(JobQueueTurns, KnowsThePlacesAtTheEdges) {
  using Edge = JobQueue::Edge;
  JobQueue queue;
  queue.Push(Of("ann", "1"));
  queue.Push(Of("ann", "2"));
  queue.Push(Of("bob", "3"));
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "1", false), 0) << "it stands there";
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "2", false), -1);
  EXPECT_EQ(queue.PlaceAt(Edge::kBottom, "1", false), 1);
  EXPECT_EQ(queue.PlaceAt(Edge::kBottom, "2", false), 0);
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "3", true), -1);
  queue.Push(Moved(Of("ann", "1"), -7, true));
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "3", true), -8);
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "1", true), -7);
  EXPECT_EQ(queue.PlaceAt(Edge::kBottom, "1", true), 1);
  EXPECT_EQ(queue.LastPlace("ann", 0), 0);
  queue.Push(Moved(Of("ann", "2"), 4));
  EXPECT_EQ(queue.LastPlace("ann", 0), 4);
  EXPECT_EQ(queue.LastPlace("ann", 1), 0);
  // Of a damaged database.
  queue.Push(Moved(Of("bob", "4"), std::numeric_limits<int64_t>::min()));
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "3", false),
            std::numeric_limits<int64_t>::min());
  queue.Push(Moved(Of("bob", "4"), std::numeric_limits<int64_t>::max()));
  EXPECT_EQ(queue.PlaceAt(Edge::kBottom, "3", false),
            std::numeric_limits<int64_t>::max());
}

// A kill between the two rows that a start changes leaves the same ticket
// twice.
TEST(JobQueueTurns, TheSameTicketTwiceLosesNobody) {
  JobQueue queue;
  JobQueue::Entry one = Of("ann", "1"), two = Of("ann", "2"),
                  three = Of("bob", "3");
  one.ticket = two.ticket = three.ticket = "9";
  for (const auto& entry : {one, two, three}) queue.Push(entry);
  std::vector<std::string> order = Order(queue);
  for (size_t i = 0; i < order.size(); ++i) {
    EXPECT_EQ(queue.Position(order[i]), static_cast<int32_t>(i));
  }
  queue.Remove("2");
  queue.SetShare("ann", 2);
  EXPECT_EQ(Order(queue), (std::vector<std::string>{"3", "1"}));
  queue.Remove("3");
  queue.Remove("1");
  EXPECT_TRUE(queue.empty());
}

TEST(JobQueueTurns, WhatWaitsForSomebodyIsNeitherNextNorStuck) {
  JobQueue queue;
  queue.Push(Entry("1", 5, absl::InfiniteDuration()));
  EXPECT_FALSE(queue.Next(kNow).has_value());
  EXPECT_EQ(queue.NextTime(), absl::InfiniteDuration());
  EXPECT_EQ(queue.NextTimeAbove(0), absl::InfiniteDuration());
  EXPECT_EQ(queue.Depth().oldest, std::nullopt);
  EXPECT_EQ(queue.Depth().time_left, absl::ZeroDuration());
  EXPECT_EQ(queue.Depth().by_priority.at(5), 1);
  queue.Push(Entry("2"));
  EXPECT_EQ(queue.Next(kNow)->id, "2");
  EXPECT_EQ(queue.Position("2"), 1);
  queue.Delay("2", absl::InfiniteDuration());
  EXPECT_FALSE(queue.Next(kNow).has_value());
  queue.Delay("1", kNow);
  EXPECT_EQ(queue.Next(kNow)->id, "1");
  EXPECT_EQ(queue.Depth().oldest, absl::UnixEpoch());
  EXPECT_EQ(queue.Depth().time_left, std::nullopt);
}

// Against turns that are dealt out anew for each question.
TEST(JobQueueTurns, DealsTurnsOutAsAListWould) {
  JobQueue queue;
  std::map<std::string, JobQueue::Entry> all;
  std::map<std::string, double> shares;
  std::map<std::string, std::string> tickets;  // of jobs that are gone, too
  std::mt19937 random(11);
  for (int i = 0; i < 3000; ++i) {
    const std::string id = std::to_string(100 + random() % 40);
    const std::string owner(1, 'a' + random() % 3);
    switch (random() % 5) {
      case 0:
        EXPECT_EQ(queue.Remove(id), all.erase(id) == 1);
        break;
      case 1:
        shares[owner] = static_cast<double>(random() % 2);
        queue.SetShare(owner, shares[owner]);
        break;
      case 2:
        if (const auto heir = queue.TakeTurn(id)) {
          all[heir->id].ticket = tickets[heir->id] = heir->ticket;
          all[id].ticket = tickets[id] = queue.Find(id)->ticket;
        }
        break;
      default: {
        JobQueue::Entry entry = Of(owner, id, static_cast<int>(random() % 2));
        entry.place = static_cast<int64_t>(random() % 5) - 2;
        entry.among_all = random() % 4 == 0;
        entry.ticket = tickets[id];
        queue.Push(entry);
        all[id] = entry;
      }
    }
    // Lines by priority, side and share; in each a lane by owner.
    using Key = std::tuple<int32_t, int, double>;
    std::map<Key, std::map<std::string, std::vector<JobQueue::Entry>>> lines;
    for (const auto& [key, e] : all) {
      const int side = !e.among_all ? 0 : e.place < 0 ? -1 : e.place > 0;
      const auto share = shares.find(e.owner);
      const bool counts = side == 0 && share != shares.end();
      const double used = counts ? share->second : UsageBook::kNoShare;
      lines[{-e.priority, side, used}][side == 0 ? e.owner : ""].push_back(e);
    }
    std::vector<std::string> expected;
    for (auto& [key, lanes] : lines) {
      std::vector<std::pair<std::string, std::string>> turns;
      for (auto& [owner, jobs] : lanes) {
        std::vector<std::string> dealt;
        for (const auto& e : jobs) dealt.push_back(e.OwnTicket());
        std::sort(dealt.begin(), dealt.end());
        std::sort(jobs.begin(), jobs.end(), [](const auto& a, const auto& b) {
          return std::tie(a.place, a.id) < std::tie(b.place, b.id);
        });
        for (size_t k = 0; k < jobs.size(); ++k) {
          turns.emplace_back(dealt[k], jobs[k].id);
        }
      }
      std::stable_sort(turns.begin(), turns.end(),
                       [](auto& a, auto& b) { return a.first < b.first; });
      for (const auto& turn : turns) expected.push_back(turn.second);
    }
    ASSERT_EQ(Order(queue), expected) << i;
    for (size_t at = 0; at < expected.size(); ++at) {
      ASSERT_EQ(queue.Position(expected[at]), static_cast<int32_t>(at)) << i;
    }
  }
}

// A step of a wholly held queue: everybody looks whether somebody may run.
TEST(JobQueueTurns, AHundredThousandHeldJobsAreLookedAtInMicroseconds) {
  JobQueue queue;
  for (int i = 0; i < 100'000; ++i) {
    queue.Push(
        Moved(Entry(absl::StrFormat("%08d", i), 0, absl::InfiniteDuration()),
              i % 3 - 1));
  }
  const absl::Time start = absl::Now();
  for (int i = 0; i < 1000; ++i) {
    ASSERT_FALSE(queue.Next(kNow).has_value());
    ASSERT_EQ(queue.NextTime(), absl::InfiniteDuration());
  }
  const absl::Duration held = absl::Now() - start;
  queue.Push(Of("zoe", "99999999"));
  const absl::Time walk = absl::Now();
  for (int i = 0; i < 10; ++i) ASSERT_EQ(queue.Next(kNow)->id, "99999999");
  const absl::Duration walked = absl::Now() - walk;
  RecordProperty("held_us", absl::ToDoubleMicroseconds(held) / 1e3);
  RecordProperty("walked_us", absl::ToDoubleMicroseconds(walked) / 10);
  EXPECT_LT(held, absl::Seconds(2));
  EXPECT_LT(walked, absl::Seconds(2));
}

}  // namespace
}  // namespace mpsd::jobs
