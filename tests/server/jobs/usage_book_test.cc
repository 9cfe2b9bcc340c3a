// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "server/jobs/job_queue.h"

namespace mpsd::jobs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr absl::Duration kDay = absl::Hours(24);

TEST(UsageBook, ForgetsHalfInAHalfLife) {
  UsageBook book(kDay);
  book.Charge("ann", absl::Hours(8), absl::Hours(100));
  EXPECT_EQ(book.Used("ann", absl::Hours(100)), absl::Hours(8));
  EXPECT_NEAR(absl::ToDoubleHours(book.Used("ann", absl::Hours(124))), 4, 1e-9);
  EXPECT_NEAR(absl::ToDoubleHours(book.Used("ann", absl::Hours(148))), 2, 1e-9);
  book.Charge("ann", absl::Hours(1), absl::Hours(124));
  EXPECT_NEAR(absl::ToDoubleHours(book.Used("ann", absl::Hours(124))), 5, 1e-9);
  EXPECT_EQ(book.Used("bob", absl::Hours(124)), absl::ZeroDuration());
}

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

TEST(UsageBook, NobodyIsChargedWithoutAHalfLife) {
  UsageBook book;
  book.Charge("ann", absl::Hours(8), absl::Hours(1));
  EXPECT_EQ(book.Used("ann", absl::Hours(1)), absl::ZeroDuration());
  EXPECT_EQ(book.Share("ann"), UsageBook::kNoShare);
  EXPECT_THAT(book.Owners(), IsEmpty());
}

TEST(UsageBook, ForgetsOwnersOfWhomNothingIsLeft) {
  UsageBook book(kDay);
  book.Charge("ann", absl::Hours(1), absl::ZeroDuration());
  book.Charge("bob", absl::Hours(1), 10 * kDay);
  EXPECT_THAT(book.Forget(11 * kDay), IsEmpty());
  EXPECT_THAT(book.Forget(12 * kDay), ElementsAre("ann")) << "3600 s / 2^12";
  EXPECT_THAT(book.Owners(), ElementsAre("bob"));
  EXPECT_EQ(book.Share("ann"), UsageBook::kNoShare);
}

// --- The queue and the book together: owners who always have jobs waiting.

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

// Whoever always has work gets an equal share of the device, whatever the
// number and the length of their jobs, but for the length of a job against the
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

// Nobody waits much longer than the others together use in their turns.
TEST(FairShare, NobodyStarves) {
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

// Whoever had the device alone for a month waits for a newcomer for one
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

TEST(FairShare, OneOwnerAloneSeesFirstComeFirstServed) {
  UsageBook book(kDay);
  JobQueue queue;
  for (const char* id : {"1", "2", "3"}) {
    JobQueue::Entry entry;
    entry.id = id;
    entry.owner = "ann";
    queue.Push(entry);
  }
  for (const char* id : {"1", "2", "3"}) {
    EXPECT_EQ(queue.Next(absl::ZeroDuration())->id, id);
    queue.Remove(id);
    book.Charge("ann", absl::Hours(1), absl::Hours(id[0] - '0'));
    queue.SetShare("ann", book.Share("ann"));
  }
}

}  // namespace
}  // namespace mpsd::jobs
