// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace mpsd::jobs {

// Each owner's recent use of the device: seconds, halved after each half-life.
// Times are monotonic, so that no jump of the wall clock affects it. Not
// thread-safe.
class UsageBook {
 public:
  // Less than this is forgotten: an owner with so little use counts as one
  // without.
  static constexpr absl::Duration kLeast = absl::Seconds(1);
  // The share of an owner without use.
  static constexpr double kNoShare = -std::numeric_limits<double>::infinity();

  // With a `half_life` of zero the book stays empty.
  explicit UsageBook(absl::Duration half_life = absl::ZeroDuration())
      : half_life_(half_life) {}

  absl::Duration half_life() const { return half_life_; }

  void Charge(const std::string& owner, absl::Duration used,
              absl::Duration now);
  // The owner's use as of `now`.
  absl::Duration Used(const std::string& owner, absl::Duration now) const;
  // A number by which owners are compared: greater for more use. The order of
  // two owners does not depend on the time, because both decay alike, so that a
  // share changes only with Charge.
  double Share(const std::string& owner) const;

  // Removes the owners with less use than kLeast; returns them.
  std::vector<std::string> Forget(absl::Duration now);

 private:
  struct Use {
    double seconds = 0;  // as of `at`; positive
    absl::Duration at;
  };
  double SecondsLeft(const Use& use, absl::Duration now) const;

  absl::Duration half_life_;
  std::map<std::string, Use> uses_;  // by owner
};

// How many jobs wait, and for how long. Jobs that wait for a user or another
// job (Entry::WaitsForSomebody) count only in the first two figures.
struct QueueDepth {
  std::map<int32_t, int64_t> by_priority;
  std::map<std::string, int64_t> by_owner;
  // When the job that has waited longest was queued; absent if none waits.
  std::optional<absl::Time> oldest;
  // The time that all of them take, zero if none waits; absent if the time of
  // one is unknown.
  std::optional<absl::Duration> time_left = absl::ZeroDuration();
};

// The QUEUED jobs in the order in which they run: jobs without `runs_last`
// first, then higher priority, then jobs that an admin moved before all others,
// then the owner with the lesser share of the device, then the older turn, and
// last the jobs that an admin moved after all others. Owners of equal share,
// such as those without use, share one line.
//
// A turn is a job's id: each queued job brings one, its ticket. An owner's
// turns go to the owner's jobs by place and then by id, so moving a job among
// one's own takes no turn of others. A starting job leaves with its turn
// (TakeTurn), and has that turn again if it comes back.
//
// Waits use the monotonic clock, so that no change of the wall clock lengthens
// them. Not thread-safe.
class JobQueue {
 public:
  struct Entry {
    std::string id;
    int32_t priority = 0;
    absl::Time since;  // when the job was queued
    absl::Duration not_before = -absl::InfiniteDuration();  // monotonic
    bool runs_last = false;
    std::string owner = "";
    std::optional<absl::Duration> time_left = {};  // TimeLeft()
    std::string name = "";
    // As of jobs::Job.
    int64_t place = 0;
    bool among_all = false;
    std::string ticket = "";

    // Until a user or another job releases it, however long that takes.
    bool WaitsForSomebody() const {
      return not_before == absl::InfiniteDuration();
    }
    const std::string& OwnTicket() const {
      return ticket.empty() ? id : ticket;
    }
  };
  // The entry that has the ticket that a job gave away.
  struct Heir {
    std::string id, ticket;
  };
  enum class Edge { kTop, kBottom };

  // Replaces the entry with the same id, if there is one.
  void Push(Entry pushed);
  // False if the queue has no such entry.
  bool Remove(const std::string& id);
  // Sets the entry's not_before; does nothing if the queue has no such entry.
  void Delay(const std::string& id, absl::Duration not_before);
  // Gives the entry the ticket of its turn. Returns the entry that had that
  // ticket, with its new one; nullopt if nothing changed.
  std::optional<Heir> TakeTurn(const std::string& id);
  // Sets the owner's share, UsageBook::kNoShare for none, which every owner has
  // at first. Moves the owner's jobs: cheap if no other owner has the same
  // share, before or after.
  void SetShare(const std::string& owner, double share);

  // A copy of the entry; nullopt if the queue has no such entry.
  std::optional<Entry> Find(const std::string& id) const;
  // The position that moves the entry to the front or back of its level, among
  // its owner's jobs or all jobs; unchanged if it is there already. The queue
  // must have the entry.
  int64_t PlaceAt(Edge edge, const std::string& id, bool among_all) const;
  // The place at which a new job of the owner is the last one.
  int64_t LastPlace(const std::string& owner, int32_t priority) const;
  // The first entry that may run at `now`; the entry stays in the queue.
  std::optional<Entry> Next(absl::Duration now) const;
  // The first `limit` entries, in order.
  std::vector<Entry> First(size_t limit) const;
  // The entries, in order and at most `limit`, before which a new job of the
  // owner would not run, if it were pushed now; `all` says how many there are.
  // Does not change the queue.
  std::vector<Entry> AheadOfNew(const std::string& owner, int32_t priority,
                                size_t limit, size_t& all);
  // The time from which Next() returns an entry; infinite if the queue is
  // empty.
  absl::Duration NextTime() const;
  // The earliest not_before of the entries with a higher priority, except those
  // that wait after all others; infinite if there is none.
  absl::Duration NextTimeAbove(int32_t priority) const;
  bool empty() const { return places_.empty(); }
  size_t size() const { return places_.size(); }
  // Copies a count for each priority and owner, whatever the queue's length.
  QueueDepth Depth() const;
  // The number of the owner's entries.
  int64_t CountOf(const std::string& owner) const;

  // The number of entries before `id`; nullopt if the queue has no such entry.
  // A list calls this for each of its jobs: the cost is three binary searches
  // whatever the queue's length, and once after a change a walk over the lines,
  // of which there is one for each priority and share.
  std::optional<int32_t> Position(const std::string& id) const;

 private:
  // The values that decide the place before share and turn do.
  struct Level {
    bool runs_last = false;
    int32_t priority = 0;
    // -1 and 1: an admin moved the jobs before or after all others, and shares
    // do not count among them.
    int side = 0;
    bool operator==(const Level&) const = default;
    bool operator<(const Level& other) const;
  };
  struct LineKey {
    Level level;
    double share = 0;
    bool operator<(const LineKey& other) const;
  };
  // The jobs of one owner in a line, or of all owners if the level has a side.
  // Points into places_, as a turn does, so that a line is kept sorted by moves
  // of pointers.
  struct Lane {
    std::deque<Entry*> jobs;               // by place and id
    std::deque<std::string_view> tickets;  // those of the jobs, sorted
    size_t sleeping = 0;                   // jobs that wait for a user or a job
    mutable size_t walked = 0;             // jobs that Walk has passed
  };
  struct Turn {
    std::string_view ticket;
    Lane* lane = nullptr;
  };
  struct Line {
    std::map<std::string, Lane> lanes;  // by owner
    std::deque<Turn> turns;             // by ticket
    mutable size_t before = 0;  // entries of earlier lines, once counted_
  };
  using Lines = std::map<LineKey, Line>;
  struct Owner {
    double share = UsageBook::kNoShare;
    std::map<Level, size_t> jobs;  // how many of the owner's
  };
  struct Place {
    Level level;
    Entry entry;
  };
  using Places = std::map<std::string, Place>;

  static Level LevelOf(const Entry& entry);
  static std::string LaneName(const Level& level, const std::string& owner);
  double ShareOf(const std::string& owner) const;
  LineKey KeyOf(const Level& level, const std::string& owner) const;
  // The line and the lane of an entry that is in the queue.
  const Line& LineOf(const Place& place) const;
  const Lane& LaneOf(const Place& place) const;
  Lane& LaneOf(const Place& place);
  // The lane of the owner's jobs at `level`; null if there are none.
  const Lane* FindLane(const Level& level, const std::string& owner) const;
  // Adds the entry to what Depth() reports of jobs that can run, or removes it.
  void CountIn(const Entry& entry);
  void CountOut(const Entry& entry);
  // Removes the entry's ticket from its line and lane.
  static void EraseTicket(const Entry& entry, Line& line, Lane& lane);
  // Calls visit(entry) in the order of the queue until it returns false. With
  // `awake`, skips lines in which every job waits for a user or another job.
  template <typename Visit>
  void Walk(bool awake, const Visit& visit) const;
  // Moves an owner's lane of a level from one share to another.
  void MoveLane(const std::string& owner, const Level& level, double from,
                double to);

  Lines lines_;
  Places places_;                        // by id
  std::map<std::string, Owner> owners_;  // those with jobs or a share
  mutable bool counted_ = true;          // Line::before is right
  QueueDepth depth_;                     // except `oldest` and `time_left`
  absl::Duration time_left_;             // of the entries that report theirs
  size_t unknown_times_ = 0;             // entries that do not
  std::multiset<absl::Time> times_;      // when the entries were queued
};

// Why a queued job is at its place, human-readable. `used`: its owner's recent
// use of the device; `half_life`: zero if use does not count.
std::string WhyThere(const JobQueue::Entry& entry, absl::Duration used,
                     absl::Duration half_life);

// A human-readable time, to the second below an hour and to the minute above:
// "2h5m".
std::string RoundTime(absl::Duration time);

// When a queued job takes the device from a running job of lower priority.
struct PreemptionPolicy {
  bool enabled = false;
  // A running job that trains for less than this keeps the device: writing a
  // checkpoint and loading it again would cost about as much.
  absl::Duration margin = absl::Minutes(5);
  // An attempt keeps the device for at least this long.
  absl::Duration least_run = absl::Minutes(5);
};

// The criteria for the running job.
struct Holder {
  int32_t priority = 0;
  // A step of this attempt has finished: however often the device is taken from
  // a job, the job advances by a step with each attempt.
  bool has_stepped = false;
  absl::Duration run;                  // the attempt's time on the device
  std::optional<absl::Duration> left;  // to train; absent if unknown
};

// Whether `challenger`, which may start now, takes the device from `holder`. A
// challenger that waits after all others never preempts.
bool MayTake(const PreemptionPolicy& policy, const JobQueue::Entry& challenger,
             const Holder& holder);

}  // namespace mpsd::jobs
