// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace mpsd::jobs {
namespace {

constexpr absl::Duration kDay = absl::Hours(24);

constexpr double kLongestHours = 3;

struct Person {
  std::string name;
  int jobs_waiting;  // at any time
  double mean_hours;
};

struct Outcome {
  std::map<std::string, double> hours;         // of the device
  std::map<std::string, double> longest_wait;  // hours without the device
};

// `days` of one device. Jobs have random lengths about their owner's mean, and
// a job that starts is replaced by a new one of the same owner.
Outcome Simulate(const std::vector<Person>& people, absl::Duration half_life,
                 int days, uint32_t seed) {
  std::mt19937 random(seed);
  UsageBook book(half_life);
  JobQueue queue;
  std::map<std::string, Person> known;
  int64_t number = 0;
  const auto submit = [&](const Person& person) {
    JobQueue::Entry entry;
    entry.id = absl::StrFormat("%012d", ++number);
    entry.owner = person.name;
    queue.Push(entry);
  };
  for (const Person& person : people) {
    known[person.name] = person;
    for (int i = 0; i < person.jobs_waiting; ++i) submit(person);
  }
  Outcome outcome;
  std::map<std::string, double> last_end;
  double now = 0;  // hours
  while (now < 24.0 * days) {
    const JobQueue::Entry job = *queue.Next(absl::Hours(now));
    queue.Remove(job.id);
    submit(known.at(job.owner));
    double& waited = outcome.longest_wait[job.owner];
    waited = std::max(waited, now - last_end[job.owner]);
    std::exponential_distribution<double> length(
        1 / known.at(job.owner).mean_hours);
    const double hours = std::min(length(random), kLongestHours);
    now += hours;
    last_end[job.owner] = now;
    outcome.hours[job.owner] += hours;
    book.Charge(job.owner, absl::Hours(hours), absl::Hours(now));
    queue.SetShare(job.owner, book.Share(job.owner));
  }
  for (const auto& [name, end] : last_end) {
    double& waited = outcome.longest_wait[name];
    waited = std::max(waited, now - end);
  }
  return outcome;
}

std::vector<Person> RandomPeople(uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Person> people;
  const int count = 2 + static_cast<int>(random() % 9);
  for (int i = 0; i < count; ++i) {
    people.push_back({absl::StrFormat("p%d", i),
                      1 + static_cast<int>(random() % 40),
                      0.1 + static_cast<double>(random() % 140) / 100});
  }
  return people;
}

// How far the share of the owner who is farthest from an equal share lies from
// it, as a part of an equal share.
double FarthestFromFair(const std::vector<Person>& people,
                        absl::Duration half_life, uint32_t seed) {
  const Outcome outcome = Simulate(people, half_life, 90, seed);
  double total = 0, farthest = 0;
  for (const auto& [name, hours] : outcome.hours) total += hours;
  const double fair = total / static_cast<double>(people.size());
  for (const Person& person : people) {
    const auto hours = outcome.hours.find(person.name);
    const double got = hours == outcome.hours.end() ? 0 : hours->second;
    farthest = std::max(farthest, std::abs(got - fair) / fair);
  }
  return farthest;
}

// Users that always have work get an equal share of the device, for any
// number and length of their jobs, but for the length of a job against the
// half-life: who has just ended a long job is charged with all of it. First
// come, first served gives the device to who submits most.
TEST(FairShare, SharesConvergeWhereFifosDoNot) {
  double worst = 0, worst_week = 0, worst_fifo = 0;
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Person> people = RandomPeople(seed);
    const double bound = static_cast<double>(people.size()) * std::log(2.0) *
                         absl::FDivDuration(absl::Hours(kLongestHours), kDay);
    const double far = FarthestFromFair(people, kDay, seed);
    EXPECT_LT(far, bound) << "seed " << seed << ", " << people.size();
    const double far_week = FarthestFromFair(people, 7 * kDay, seed);
    EXPECT_LT(far_week, bound / 7) << "seed " << seed << ", " << people.size();
    worst = std::max(worst, far);
    worst_week = std::max(worst_week, far_week);
    worst_fifo = std::max(worst_fifo,
                          FarthestFromFair(people, absl::ZeroDuration(), seed));
  }
  RecordProperty("farthest_day", absl::StrFormat("%.4f", worst));
  RecordProperty("farthest_week", absl::StrFormat("%.4f", worst_week));
  RecordProperty("farthest_fifo", absl::StrFormat("%.2f", worst_fifo));
  EXPECT_LT(worst, 0.2);
  EXPECT_LT(worst_week, 0.05);
  EXPECT_GT(worst_fifo, 1);
}

// No user waits much longer than the others together use in their turns.
TEST(FairShare, NoUserStarves) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    const std::vector<Person> people = RandomPeople(seed);
    const Outcome outcome = Simulate(people, kDay, 90, seed);
    for (const Person& person : people) {
      const auto wait = outcome.longest_wait.find(person.name);
      ASSERT_NE(wait, outcome.longest_wait.end()) << person.name;
      EXPECT_LT(wait->second, 24.0 * static_cast<double>(people.size()))
          << "seed " << seed << ", " << person.name;
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
  challenger.behind = true;
  EXPECT_FALSE(MayTake(on, challenger, at_work));
}

}  // namespace
}  // namespace mpsd::jobs
