// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_queue.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace mpsd::jobs {

void UsageBook::Charge(const std::string& owner, absl::Duration used,
                       absl::Duration now) {
  if (half_life_ <= absl::ZeroDuration() || used <= absl::ZeroDuration()) {
    return;
  }
  Use& use = uses_[owner];
  use = {SecondsLeft(use, now) + absl::ToDoubleSeconds(used), now};
}

absl::Duration UsageBook::Used(const std::string& owner,
                               absl::Duration now) const {
  const auto use = uses_.find(owner);
  if (use == uses_.end()) return absl::ZeroDuration();
  return absl::Seconds(SecondsLeft(use->second, now));
}

double UsageBook::Share(const std::string& owner) const {
  const auto use = uses_.find(owner);
  if (use == uses_.end()) return kNoShare;
  // The logarithm of the use left at time t is this number less t / half_life.
  return std::log2(use->second.seconds) +
         absl::FDivDuration(use->second.at, half_life_);
}

std::vector<std::string> UsageBook::Forget(absl::Duration now) {
  std::vector<std::string> forgotten;
  std::erase_if(uses_, [&](const auto& entry) {
    if (absl::Seconds(SecondsLeft(entry.second, now)) >= kLeast) return false;
    forgotten.push_back(entry.first);
    return true;
  });
  return forgotten;
}

double UsageBook::SecondsLeft(const Use& use, absl::Duration now) const {
  if (use.seconds <= 0) return 0;
  const absl::Duration age = std::max(now - use.at, absl::ZeroDuration());
  return use.seconds * std::exp2(-absl::FDivDuration(age, half_life_));
}

namespace {

void CountDown(auto& counts, const auto& key) {
  const auto count = counts.find(key);
  base::Check(count != counts.end(), "an entry is counted");
  if (--count->second == 0) counts.erase(count);
}

bool IsEarlier(const JobQueue::Entry* a, const JobQueue::Entry* b) {
  return std::tie(a->place, a->id) < std::tie(b->place, b->id);
}

// `entry` among `jobs`.
auto FindIn(auto& jobs, const JobQueue::Entry& entry) {
  const auto found =
      std::lower_bound(jobs.begin(), jobs.end(), &entry, IsEarlier);
  base::Check(found != jobs.end() && *found == &entry,
              "an entry is where its place says");
  return found;
}

// A damaged database may hold any place.
int64_t Before(int64_t place) {
  return std::max(place, std::numeric_limits<int64_t>::min() + 1) - 1;
}
int64_t After(int64_t place) {
  return std::min(place, std::numeric_limits<int64_t>::max() - 1) + 1;
}

}  // namespace

bool JobQueue::Level::operator<(const Level& other) const {
  if (runs_last != other.runs_last) return other.runs_last;
  if (priority != other.priority) return priority > other.priority;
  return side < other.side;
}

bool JobQueue::LineKey::operator<(const LineKey& other) const {
  return std::tie(level, share) < std::tie(other.level, other.share);
}

JobQueue::Level JobQueue::LevelOf(const Entry& entry) {
  const int side = entry.place < 0 ? -1 : entry.place > 0 ? 1 : 0;
  return {entry.runs_last, entry.priority, entry.among_all ? side : 0};
}

std::string JobQueue::LaneName(const Level& level, const std::string& owner) {
  return level.side == 0 ? owner : "";
}

double JobQueue::ShareOf(const std::string& owner) const {
  const auto found = owners_.find(owner);
  return found == owners_.end() ? UsageBook::kNoShare : found->second.share;
}

JobQueue::LineKey JobQueue::KeyOf(const Level& level,
                                  const std::string& owner) const {
  return {level, level.side == 0 ? ShareOf(owner) : UsageBook::kNoShare};
}

const JobQueue::Line& JobQueue::LineOf(const Place& place) const {
  const auto line = lines_.find(KeyOf(place.level, place.entry.owner));
  base::Check(line != lines_.end(), "an entry has its line");
  return line->second;
}

const JobQueue::Lane& JobQueue::LaneOf(const Place& place) const {
  const Line& line = LineOf(place);
  const auto lane = line.lanes.find(LaneName(place.level, place.entry.owner));
  base::Check(lane != line.lanes.end(), "an entry has its lane");
  return lane->second;
}

JobQueue::Lane& JobQueue::LaneOf(const Place& place) {
  return const_cast<Lane&>(std::as_const(*this).LaneOf(place));
}

const JobQueue::Lane* JobQueue::FindLane(const Level& level,
                                         const std::string& owner) const {
  const auto line = lines_.find(KeyOf(level, owner));
  if (line == lines_.end()) return nullptr;
  const auto lane = line->second.lanes.find(LaneName(level, owner));
  return lane == line->second.lanes.end() ? nullptr : &lane->second;
}

void JobQueue::CountIn(const Entry& entry) {
  if (entry.WaitsForSomebody()) return;
  times_.insert(entry.since);
  time_left_ += entry.time_left.value_or(absl::ZeroDuration());
  if (!entry.time_left) ++unknown_times_;
}

void JobQueue::CountOut(const Entry& entry) {
  if (entry.WaitsForSomebody()) return;
  times_.erase(times_.find(entry.since));
  time_left_ -= entry.time_left.value_or(absl::ZeroDuration());
  if (!entry.time_left) --unknown_times_;
}

void JobQueue::Push(Entry pushed) {
  Remove(pushed.id);
  const Level level = LevelOf(pushed);
  const std::string id = pushed.id;
  Entry& entry =
      places_.emplace(id, Place{level, std::move(pushed)}).first->second.entry;
  ++owners_[entry.owner].jobs[level];
  ++depth_.by_priority[entry.priority];
  ++depth_.by_owner[entry.owner];
  CountIn(entry);
  Line& line = lines_[KeyOf(level, entry.owner)];
  Lane& lane = line.lanes[LaneName(level, entry.owner)];
  if (entry.WaitsForSomebody()) ++lane.sleeping;
  lane.jobs.insert(
      std::lower_bound(lane.jobs.begin(), lane.jobs.end(), &entry, IsEarlier),
      &entry);
  const std::string_view ticket = entry.OwnTicket();
  lane.tickets.insert(
      std::upper_bound(lane.tickets.begin(), lane.tickets.end(), ticket),
      ticket);
  line.turns.insert(
      std::upper_bound(
          line.turns.begin(), line.turns.end(), ticket,
          [](std::string_view t, const Turn& turn) { return t < turn.ticket; }),
      {ticket, &lane});
  counted_ = false;
}

bool JobQueue::Remove(const std::string& id) {
  const auto place = places_.find(id);
  if (place == places_.end()) return false;
  const Level level = place->second.level;
  const Entry& entry = place->second.entry;
  const auto line = lines_.find(KeyOf(level, entry.owner));
  base::Check(line != lines_.end(), "an entry has its line");
  const auto lane = line->second.lanes.find(LaneName(level, entry.owner));
  base::Check(lane != line->second.lanes.end(), "an entry has its lane");
  CountDown(depth_.by_priority, entry.priority);
  CountDown(depth_.by_owner, entry.owner);
  CountOut(entry);
  if (entry.WaitsForSomebody()) --lane->second.sleeping;
  lane->second.jobs.erase(FindIn(lane->second.jobs, entry));
  EraseTicket(entry, line->second, lane->second);
  if (lane->second.jobs.empty()) line->second.lanes.erase(lane);
  if (line->second.lanes.empty()) lines_.erase(line);
  const auto owner = owners_.find(entry.owner);
  CountDown(owner->second.jobs, level);
  if (owner->second.jobs.empty() &&
      owner->second.share == UsageBook::kNoShare) {
    owners_.erase(owner);
  }
  places_.erase(place);
  counted_ = false;
  return true;
}

void JobQueue::EraseTicket(const Entry& entry, Line& line, Lane& lane) {
  // Two entries have the same ticket if mpsd was killed while a job started.
  // Only this entry's view may be removed, because the text goes with the
  // entry.
  const std::string_view text = entry.OwnTicket();
  const auto is_own = [&](std::string_view t) {
    return t.data() == text.data();
  };
  std::deque<std::string_view>& tickets = lane.tickets;
  tickets.erase(
      std::find_if(std::lower_bound(tickets.begin(), tickets.end(), text),
                   tickets.end(), is_own));
  std::deque<Turn>& turns = line.turns;
  turns.erase(std::find_if(
      std::lower_bound(
          turns.begin(), turns.end(), text,
          [](const Turn& turn, std::string_view t) { return turn.ticket < t; }),
      turns.end(), [&](const Turn& turn) { return is_own(turn.ticket); }));
}

void JobQueue::Delay(const std::string& id, absl::Duration not_before) {
  const auto place = places_.find(id);
  if (place == places_.end()) return;
  Lane& lane = LaneOf(place->second);
  Entry& entry = place->second.entry;
  CountOut(entry);
  if (entry.WaitsForSomebody()) --lane.sleeping;
  entry.not_before = not_before;
  CountIn(entry);
  if (entry.WaitsForSomebody()) ++lane.sleeping;
}

std::optional<JobQueue::Heir> JobQueue::TakeTurn(const std::string& id) {
  const auto place = places_.find(id);
  // Turns do not count among jobs that an admin moved.
  if (place == places_.end() || place->second.level.side != 0) {
    return std::nullopt;
  }
  const Lane& lane = LaneOf(place->second);
  const auto found = FindIn(lane.jobs, place->second.entry);
  const std::string turn(lane.tickets[found - lane.jobs.begin()]);
  if (turn == (*found)->OwnTicket()) return std::nullopt;
  const auto holder = std::find_if(
      lane.jobs.begin(), lane.jobs.end(),
      [&](const Entry* entry) { return entry->OwnTicket() == turn; });
  base::Check(holder != lane.jobs.end(), "a ticket is an entry's");
  Entry taker = **found, heir = **holder;
  heir.ticket = taker.OwnTicket();
  taker.ticket = turn;
  Heir result{heir.id, heir.ticket};
  Push(std::move(taker));
  Push(std::move(heir));
  return result;
}

void JobQueue::SetShare(const std::string& owner, double share) {
  const double before = ShareOf(owner);
  if (share == before) return;
  Owner& known = owners_[owner];
  for (const auto& [level, jobs] : known.jobs) {
    if (level.side == 0) MoveLane(owner, level, before, share);
  }
  known.share = share;
  if (known.jobs.empty() && share == UsageBook::kNoShare) owners_.erase(owner);
  counted_ = false;
}

void JobQueue::MoveLane(const std::string& owner, const Level& level,
                        double from, double to) {
  const auto line = lines_.find({level, from});
  base::Check(line != lines_.end(), "an owner's jobs have their line");
  if (line->second.lanes.size() == 1 && !lines_.contains({level, to})) {
    auto node = lines_.extract(line);
    node.key().share = to;
    lines_.insert(std::move(node));
    return;
  }
  Line& others = lines_[{level, to}];
  // The node keeps its address, to which the turns point.
  const Lane* lane =
      &others.lanes.insert(line->second.lanes.extract(owner)).position->second;
  std::deque<Turn>& all = line->second.turns;
  const auto moved = std::stable_partition(
      all.begin(), all.end(),
      [&](const Turn& turn) { return turn.lane != lane; });
  std::deque<Turn> merged;
  std::merge(moved, all.end(), others.turns.begin(), others.turns.end(),
             std::back_inserter(merged),
             [](const Turn& a, const Turn& b) { return a.ticket < b.ticket; });
  others.turns = std::move(merged);
  all.erase(moved, all.end());
  if (all.empty()) lines_.erase(line);
}

int64_t JobQueue::PlaceAt(Edge edge, const std::string& id,
                          bool among_all) const {
  const auto own = places_.find(id);
  base::Check(own != places_.end(), "the queue has the entry");
  const bool top = edge == Edge::kTop;
  Level level = own->second.level;
  level.side = !among_all ? 0 : top ? -1 : 1;
  const Lane* lane = FindLane(level, own->second.entry.owner);
  if (lane == nullptr) return level.side;
  const Entry& last = *(top ? lane->jobs.front() : lane->jobs.back());
  if (last.id == id) return last.place;
  return top ? Before(last.place) : After(last.place);
}

int64_t JobQueue::LastPlace(const std::string& owner, int32_t priority) const {
  const Lane* lane = FindLane({false, priority, 0}, owner);
  return lane == nullptr ? 0 : std::max<int64_t>(0, lane->jobs.back()->place);
}

std::optional<JobQueue::Entry> JobQueue::Find(const std::string& id) const {
  const auto place = places_.find(id);
  if (place == places_.end()) return std::nullopt;
  return place->second.entry;
}

template <typename Visit>
void JobQueue::Walk(bool awake, const Visit& visit) const {
  for (const auto& [key, line] : lines_) {
    bool all_sleep = true;
    for (const auto& [owner, lane] : line.lanes) {
      lane.walked = 0;
      if (lane.sleeping < lane.jobs.size()) all_sleep = false;
    }
    if (awake && all_sleep) continue;
    for (const Turn& turn : line.turns) {
      if (!visit(*turn.lane->jobs[turn.lane->walked++])) return;
    }
  }
}

std::optional<JobQueue::Entry> JobQueue::Next(absl::Duration now) const {
  std::optional<Entry> next;
  Walk(true, [&](const Entry& entry) {
    if (entry.not_before <= now) next = entry;
    return !next.has_value();
  });
  return next;
}

std::vector<JobQueue::Entry> JobQueue::First(size_t limit) const {
  std::vector<Entry> first;
  Walk(false, [&](const Entry& entry) {
    if (first.size() < limit) first.push_back(entry);
    return first.size() < limit;
  });
  return first;
}

std::vector<JobQueue::Entry> JobQueue::AheadOfNew(const std::string& owner,
                                                  int32_t priority,
                                                  size_t limit, size_t& all) {
  Entry entry;
  entry.id = "~";  // after every id of a job
  entry.owner = owner;
  entry.priority = priority;
  entry.since = absl::InfiniteFuture();
  entry.place = LastPlace(owner, priority);
  const std::string id = entry.id;
  Push(std::move(entry));
  all = static_cast<size_t>(*Position(id));
  std::vector<Entry> ahead = First(std::min(limit, all));
  Remove(id);
  return ahead;
}

absl::Duration JobQueue::NextTime() const {
  absl::Duration time = absl::InfiniteDuration();
  Walk(true, [&](const Entry& entry) {
    time = std::min(time, entry.not_before);
    return true;
  });
  return time;
}

absl::Duration JobQueue::NextTimeAbove(int32_t priority) const {
  absl::Duration time = absl::InfiniteDuration();
  Walk(true, [&](const Entry& entry) {
    if (entry.runs_last || entry.priority <= priority) return false;
    time = std::min(time, entry.not_before);
    return true;
  });
  return time;
}

int64_t JobQueue::CountOf(const std::string& owner) const {
  const auto found = depth_.by_owner.find(owner);
  return found == depth_.by_owner.end() ? 0 : found->second;
}

QueueDepth JobQueue::Depth() const {
  QueueDepth depth = depth_;
  if (!times_.empty()) depth.oldest = *times_.begin();
  depth.time_left.reset();
  if (unknown_times_ == 0) depth.time_left = time_left_;
  return depth;
}

std::optional<int32_t> JobQueue::Position(const std::string& id) const {
  const auto place = places_.find(id);
  if (place == places_.end()) return std::nullopt;
  if (!std::exchange(counted_, true)) {
    size_t before = 0;
    for (const auto& [key, line] : lines_) {
      line.before = before;
      before += line.turns.size();
    }
  }
  const Line& line = LineOf(place->second);
  const Lane& lane = LaneOf(place->second);
  const auto rank = FindIn(lane.jobs, place->second.entry) - lane.jobs.begin();
  const std::string_view ticket = lane.tickets[rank];
  // The lane's first turn of equal tickets goes to its first job.
  auto equal = rank - (std::lower_bound(lane.tickets.begin(),
                                        lane.tickets.end(), ticket) -
                       lane.tickets.begin());
  auto turn = std::lower_bound(
      line.turns.begin(), line.turns.end(), ticket,
      [](const Turn& t, std::string_view text) { return t.ticket < text; });
  while (turn->lane != &lane || equal-- > 0) ++turn;
  return static_cast<int32_t>(line.before + (turn - line.turns.begin()));
}

namespace {

std::string OwnerOf(const JobQueue::Entry& entry) {
  return entry.owner.empty() ? "its owner, who has no name," : entry.owner;
}

}  // namespace

std::string WhyThere(const JobQueue::Entry& entry, absl::Duration used,
                     absl::Duration half_life) {
  if (entry.runs_last) {
    return "after all others once: its last attempt ended early without a new "
           "checkpoint";
  }
  std::string priority = absl::StrCat("priority ", entry.priority);
  if (entry.among_all && entry.place != 0) {
    return absl::StrCat(priority, ", moved ",
                        entry.place < 0 ? "before" : "after",
                        " all others of it by an admin");
  }
  if (entry.place < 0) absl::StrAppend(&priority, ", moved up");
  if (entry.place > 0) absl::StrAppend(&priority, ", moved down");
  if (half_life <= absl::ZeroDuration()) {
    return priority + ", first come, first served";
  }
  if (used <= absl::ZeroDuration()) {
    return absl::StrCat(priority, ", ", OwnerOf(entry),
                        " has not used the device lately");
  }
  return absl::StrCat(priority, ", ", OwnerOf(entry), " has used the device ",
                      RoundTime(used), " lately");
}

std::string RoundTime(absl::Duration time) {
  return absl::FormatDuration(absl::Floor(
      time, time < absl::Hours(1) ? absl::Seconds(1) : absl::Minutes(1)));
}

bool MayTake(const PreemptionPolicy& policy, const JobQueue::Entry& challenger,
             const Holder& holder) {
  return policy.enabled && !challenger.runs_last &&
         challenger.priority > holder.priority && holder.has_stepped &&
         holder.run >= policy.least_run &&
         (!holder.left || *holder.left >= policy.margin);
}

}  // namespace mpsd::jobs
