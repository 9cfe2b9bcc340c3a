// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace mpsd::jobs {
namespace {

constexpr absl::Duration kDay = absl::Hours(24);

TEST(UsageBook, SharesOrderOwnersAsTheirUseDoes) {
  UsageBook book(kDay);
  EXPECT_EQ(book.Share("ann"), UsageBook::kNoShare);
  std::mt19937 random(3);
  for (int hour = 0; hour < 2000; ++hour) {
    const absl::Duration now = absl::Hours(hour);
    for (const char* owner : {"ann", "bob", "cid"}) {
      if (random() % 5 == 0) {
        book.Charge(owner, absl::Minutes(1 + random() % 300), now);
      }
    }
    for (const char* a : {"ann", "bob", "cid"}) {
      for (const char* b : {"ann", "bob", "cid"}) {
        const absl::Duration later = now + absl::Hours(random() % 50);
        const absl::Duration more = book.Used(a, later) - book.Used(b, later);
        if (absl::AbsDuration(more) < absl::Milliseconds(1)) continue;
        EXPECT_EQ(book.Share(a) > book.Share(b), more > absl::ZeroDuration());
      }
    }
  }
}

// A user who had the device alone for a month waits for a newcomer for one
// half-life, no longer: what was used long ago is forgotten.
TEST(FairShare, ANewcomerHasTheDeviceAloneForOneHalfLife) {
  UsageBook book(kDay);
  for (int hour = 0; hour < 30 * 24; ++hour) {
    book.Charge("old", absl::Hours(1), absl::Hours(hour + 1));
  }
  // The newcomer takes the device until both have used as much.
  absl::Duration now = 30 * kDay;
  while (book.Share("new") < book.Share("old")) {
    now += absl::Minutes(10);
    book.Charge("new", absl::Minutes(10), now);
  }
  EXPECT_NEAR(absl::FDivDuration(now - 30 * kDay, kDay), 1, 0.2);
}

constexpr absl::Duration kQueueNow = absl::Seconds(1000);

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

JobQueue::Entry Of(const std::string& owner, const std::string& id,
                   int32_t priority = 0) {
  JobQueue::Entry entry = Entry(id, priority);
  entry.owner = owner;
  return entry;
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

TEST(JobQueueTurns, KnowsThePlacesAtTheEdges) {
  using Edge = JobQueue::Edge;
  JobQueue queue;
  queue.Push(Of("ann", "1"));
  queue.Push(Of("ann", "2"));
  queue.Push(Of("bob", "3"));
  EXPECT_EQ(queue.PlaceAt(Edge::kTop, "1", false), 0) << "it is there already";
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
TEST(JobQueueTurns, TheSameTicketTwiceLosesNoJob) {
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

TEST(JobQueueTurns, AJobThatWaitsForAUserIsNeitherNextNorStuck) {
  JobQueue queue;
  queue.Push(Entry("1", 5, absl::InfiniteDuration()));
  EXPECT_FALSE(queue.Next(kQueueNow).has_value());
  EXPECT_EQ(queue.NextTime(), absl::InfiniteDuration());
  EXPECT_EQ(queue.NextTimeAbove(0), absl::InfiniteDuration());
  EXPECT_EQ(queue.Depth().oldest, std::nullopt);
  EXPECT_EQ(queue.Depth().time_left, absl::ZeroDuration());
  EXPECT_EQ(queue.Depth().by_priority.at(5), 1);
  queue.Push(Entry("2"));
  EXPECT_EQ(queue.Next(kQueueNow)->id, "2");
  EXPECT_EQ(queue.Position("2"), 1);
  queue.Delay("2", absl::InfiniteDuration());
  EXPECT_FALSE(queue.Next(kQueueNow).has_value());
  queue.Delay("1", kQueueNow);
  EXPECT_EQ(queue.Next(kQueueNow)->id, "1");
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

TEST(MayTake, AHigherPriorityFromOneThatRanAndIsNotAboutToEnd) {
  const Holder at_work{0, true, absl::Hours(1), absl::Hours(1)};
  PreemptionPolicy on;
  on.enabled = true;
  JobQueue::Entry challenger = Entry("1", 1);
  EXPECT_TRUE(MayTake(on, challenger, at_work));
  EXPECT_FALSE(MayTake(PreemptionPolicy(), challenger, at_work));
  Holder loads = at_work, young = at_work, ends = at_work;
  loads.has_stepped = false;
  loads.left.reset();
  EXPECT_FALSE(MayTake(on, challenger, loads));
  young.run = on.least_run - absl::Seconds(1);
  EXPECT_FALSE(MayTake(on, challenger, young));
  young.run = on.least_run;
  EXPECT_TRUE(MayTake(on, challenger, young));
  ends.left = on.margin - absl::Seconds(1);
  EXPECT_FALSE(MayTake(on, challenger, ends));
  ends.left = on.margin;
  EXPECT_TRUE(MayTake(on, challenger, ends));
  for (const int32_t priority : {0, -1}) {
    EXPECT_FALSE(MayTake(on, Entry("1", priority), at_work));
  }
  challenger = Entry("1", 100);
  challenger.runs_last = true;
  EXPECT_FALSE(MayTake(on, challenger, at_work));
}

}  // namespace
}  // namespace mpsd::jobs
