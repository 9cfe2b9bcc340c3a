// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/job_reader.h"

#include <algorithm>
#include <cmath>

#include "core/base/check.h"
#include "core/base/status_macros.h"
#include "server/jobs/job_files.h"

namespace mpsd::jobs {
namespace {

// More than possible, so that no number of a damaged database is accepted
// without bound.
constexpr double kMostSeconds = 1e10;

constexpr int kMaxEvents = 1000;

}  // namespace

std::optional<absl::Time> WallTime(const JobQueue::Entry& entry,
                                   absl::Time time, absl::Duration now) {
  if (entry.not_before <= now || entry.WaitsForSomebody()) return std::nullopt;
  return time + (entry.not_before - now);
}

int64_t EventHub::Subscribe(const std::string& job_id,
                            std::function<void()> wake) {
  base::Check(wake != nullptr, "there is a watcher to wake");
  absl::MutexLock lock(&mutex_);
  subscribers_[++last_token_] = {job_id, std::move(wake)};
  return last_token_;
}

void EventHub::Unsubscribe(int64_t token) {
  absl::MutexLock lock(&mutex_);
  subscribers_.erase(token);
}

void EventHub::Wake(const std::string& job_id) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [token, subscriber] : subscribers_) {
    if (subscriber.job_id == job_id) subscriber.wake();
  }
}

void QueueView::Push(JobQueue::Entry entry, const std::string& hold) {
  absl::MutexLock lock(&mutex_);
  job_holds_.erase(entry.id);
  if (!hold.empty()) {
    job_holds_[entry.id] = hold;
    entry.not_before = absl::InfiniteDuration();
  }
  queue_.Push(std::move(entry));
}

bool QueueView::Remove(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  job_holds_.erase(id);
  unchecked_.erase(id);
  return queue_.Remove(id);
}

void QueueView::HoldJob(const std::string& id, const std::string& why,
                        absl::Duration not_before) {
  absl::MutexLock lock(&mutex_);
  // A Cancel may have removed the entry since the caller looked; nothing would
  // remove a hold added afterwards.
  if (!queue_.Position(id)) return;
  job_holds_[id] = why;
  queue_.Delay(id, not_before);
}

void QueueView::Unhold(const std::string& id, absl::Time since) {
  absl::MutexLock lock(&mutex_);
  if (job_holds_.erase(id) == 0) return;
  std::optional<JobQueue::Entry> entry = queue_.Find(id);
  if (!entry) return;
  entry->not_before = -absl::InfiniteDuration();
  entry->since = since;
  queue_.Push(*std::move(entry));
}

void QueueView::AwaitCheck(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const std::optional<JobQueue::Entry> entry = queue_.Find(id);
  if (!entry) return;
  unchecked_.insert(id);
  if (!entry->WaitsForSomebody()) job_holds_[id] = kCheckHold;
}

void QueueView::EndCheck(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  unchecked_.erase(id);
  const auto hold = job_holds_.find(id);
  if (hold == job_holds_.end() || hold->second != kCheckHold) return;
  job_holds_.erase(hold);
  queue_.Delay(id, -absl::InfiniteDuration());
}

std::optional<std::string> QueueView::NextToCheck() {
  absl::MutexLock lock(&mutex_);
  using Place = std::pair<int32_t, std::string>;  // and the job
  std::map<std::string, Place> firsts;            // by owner
  for (const std::string& id : unchecked_) {
    const Place place(queue_.Position(id).value_or(0), id);
    const std::string owner = queue_.Find(id).value_or(JobQueue::Entry()).owner;
    const auto [first, is_new] = firsts.emplace(owner, place);
    if (!is_new) first->second = std::min(first->second, place);
  }
  if (firsts.empty()) return std::nullopt;
  auto next = firsts.upper_bound(checked_owner_);
  if (next == firsts.end()) next = firsts.begin();
  checked_owner_ = next->first;
  return next->second.second;
}

bool QueueView::SetQueueHold(HoldReason reason, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (why.empty()) return holds_.erase(reason) > 0;
  std::string& known = holds_[reason];
  return std::exchange(known, why) != why;
}

std::string QueueView::HoldOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  return HoldOfLocked(id);
}

std::string QueueView::HoldOfLocked(const std::string& id) const {
  if (auto own = job_holds_.find(id); own != job_holds_.end()) {
    return own->second;
  }
  if (id == info_.running_job_id) return "";
  return Gravest();
}

void QueueView::Start(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  running_ = queue_.Find(id);
  job_holds_.erase(id);
  unchecked_.erase(id);
  queue_.Remove(id);
}

void QueueView::SetRunning(const std::string& id, const Pause& pause) {
  absl::MutexLock lock(&mutex_);
  if (running_ && running_->id != id) running_.reset();
  info_.running_job_id = id;
  info_.pause = pause;
}

Pause QueueView::PauseOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  if (id == info_.running_job_id) return info_.pause;
  return {info_.pause_reasons, false, std::nullopt};
}

QueueInfo QueueView::Info() const {
  absl::MutexLock lock(&mutex_);
  QueueInfo info = info_;
  info.hold = Gravest();
  if (!holds_.empty()) info.hold_reason = Name(holds_.begin()->first);
  info.drained = holds_.contains(HoldReason::kDrained);
  return info;
}

void QueueView::SetHalfLife(absl::Duration half_life) {
  absl::MutexLock lock(&mutex_);
  book_ = UsageBook(half_life);
}

std::optional<OwnerUse> QueueView::Charge(const std::string& owner,
                                          absl::Duration used,
                                          absl::Duration now, absl::Time time) {
  absl::MutexLock lock(&mutex_);
  if (book_.half_life() <= absl::ZeroDuration()) return std::nullopt;
  book_.Charge(owner, used, now);
  queue_.SetShare(owner, book_.Share(owner));
  return OwnerUse{owner, absl::ToDoubleSeconds(book_.Used(owner, now)), time};
}

void QueueView::Restore(const OwnerUse& use, absl::Duration now,
                        absl::Time time) {
  if (!std::isfinite(use.seconds)) return;
  absl::MutexLock lock(&mutex_);
  // Setting back the wall clock makes no use younger than now.
  const absl::Duration age = std::max(time - use.time, absl::ZeroDuration());
  book_.Charge(use.owner, absl::Seconds(std::min(use.seconds, kMostSeconds)),
               now - age);
  queue_.SetShare(use.owner, book_.Share(use.owner));
}

std::vector<std::string> QueueView::ForgetUses(absl::Duration now) {
  absl::MutexLock lock(&mutex_);
  std::vector<std::string> forgotten = book_.Forget(now);
  for (const std::string& owner : forgotten) {
    queue_.SetShare(owner, UsageBook::kNoShare);
  }
  return forgotten;
}

QueueListing QueueView::Listing(size_t limit, absl::Time time,
                                absl::Duration now) const {
  absl::MutexLock lock(&mutex_);
  const std::vector<JobQueue::Entry> first = queue_.First(limit);
  QueueListing listing = List(first, time, now);
  listing.more = static_cast<int64_t>(queue_.size() - first.size());
  return listing;
}

QueueListing QueueView::ListingBefore(const std::string& owner,
                                      int32_t priority, size_t limit,
                                      absl::Time time, absl::Duration now) {
  absl::MutexLock lock(&mutex_);
  size_t all = 0;
  const std::vector<JobQueue::Entry> ahead =
      queue_.AheadOfNew(owner, priority, limit, all);
  QueueListing listing = List(ahead, time, now);
  listing.more = static_cast<int64_t>(all - ahead.size());
  return listing;
}

QueueListing QueueView::List(const std::vector<JobQueue::Entry>& queued,
                             absl::Time time, absl::Duration now) const {
  QueueListing listing;
  listing.half_life = book_.half_life();
  std::set<std::string> owners;
  const auto add = [&](const JobQueue::Entry& entry,
                       State state) ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    QueuePlace& place = listing.places.emplace_back();
    place.id = entry.id;
    place.name = entry.name;
    place.owner = entry.owner;
    place.priority = entry.priority;
    place.state = state;
    place.since = entry.since;
    place.why =
        state == State::kRunning
            ? "has the device"
            : WhyThere(entry, book_.Used(entry.owner, now), listing.half_life);
    place.hold = HoldOfLocked(entry.id);
    place.not_before = WallTime(entry, time, now);
    place.time_left = entry.time_left;
    place.waits_for_somebody = entry.WaitsForSomebody();
    owners.insert(entry.owner);
  };
  if (running_) add(*running_, State::kRunning);
  for (const JobQueue::Entry& entry : queued) add(entry, State::kQueued);
  for (const std::string& owner : owners) {
    const double used = absl::ToDoubleSeconds(book_.Used(owner, now));
    if (used > 0) listing.usage.push_back({owner, used, time});
  }
  std::sort(listing.usage.begin(), listing.usage.end(),
            [](const OwnerUse& a, const OwnerUse& b) {
              return a.seconds != b.seconds ? a.seconds > b.seconds
                                            : a.owner < b.owner;
            });
  return listing;
}

std::string QueueView::Gravest() const {
  return holds_.empty() ? "" : holds_.begin()->second;
}

absl::StatusOr<std::vector<Checkpoint>> JobReader::Checkpoints(
    const std::string& id) {
  ASSIGN_OR_RETURN(Job job, store_.Get(id));
  return store_.Checkpoints(id);
}

absl::StatusOr<SubmitRequest> JobReader::RequestOf(const std::string& id) {
  ASSIGN_OR_RETURN(Job job, store_.Get(id));
  return RequestFile::Read(files_.Folder(id));
}

absl::StatusOr<std::vector<Event>> JobReader::Events(const std::string& id,
                                                     int64_t after) {
  absl::StatusOr<std::vector<Event>> events =
      store_.Events(id, after, kMaxEvents);
  if (events.ok() && events->empty()) {
    if (absl::StatusOr<Job> job = store_.Get(id); !job.ok()) {
      return job.status();
    }
  }
  return events;
}

std::string JobReader::LogPath(const std::string& id) const {
  return IsJobId(id) ? files_.LogPath(id) : "";
}

std::string JobReader::JobFolder(const std::string& id) const {
  return IsJobId(id) ? files_.Folder(id) : "";
}

std::string JobReader::RunFolder(const std::string& id) const {
  return IsJobId(id) ? files_.OutputDir(id) : "";
}

}  // namespace mpsd::jobs
