// SPDX-License-Identifier: Apache-2.0
#include "server/notify/door_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace mpsd::notify {
namespace {

// The machine may sleep while the thread waits, so the thread looks at the
// clock at least this often.
constexpr absl::Duration kLongestNap = absl::Minutes(1);

}  // namespace

DoorQueue::DoorQueue(Options options, std::unique_ptr<Door> door,
                     const base::Clock& clock)
    : options_(std::move(options)), door_(std::move(door)), clock_(clock) {
  thread_ = std::thread([this] { Run(); });
}

void DoorQueue::Put(Entry entry) {
  {
    absl::MutexLock lock(&mutex_);
    if (waiting_.size() < options_.most_waiting) {
      waiting_.push_back(std::move(entry));
      changed_ = true;
      return;
    }
  }
  options_.log(absl::StrCat(door_->name(), ": notification ", entry.notice.id,
                            " dropped: ", options_.most_waiting, " wait"));
  Finish(entry, Result::kDropped);
}

std::list<DoorQueue::Entry> DoorQueue::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  door_->Interrupt();
  if (thread_.joinable()) thread_.join();
  absl::MutexLock lock(&mutex_);
  return std::exchange(waiting_, {});
}

std::optional<DoorQueue::Entry> DoorQueue::Next() {
  absl::MutexLock lock(&mutex_);
  while (!stopped_) {
    changed_ = false;
    const auto next = std::min_element(
        waiting_.begin(), waiting_.end(),
        [](const Entry& a, const Entry& b) { return a.next_try < b.next_try; });
    absl::Duration nap = kLongestNap;
    if (next != waiting_.end()) {
      const absl::Duration left = next->next_try - clock_.Monotonic();
      if (left <= absl::ZeroDuration()) {
        Entry entry = std::move(*next);
        waiting_.erase(next);
        return entry;
      }
      nap = std::min(nap, left);
    }
    const auto roused = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return changed_ || stopped_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&roused), nap);
  }
  return std::nullopt;
}

void DoorQueue::Run() {
  while (std::optional<Entry> entry = Next()) {
    const Delivery delivery = door_->Deliver(entry->notice);
    if (delivery.outcome == Delivery::Outcome::kSent) {
      Finish(*entry, Result::kSent);
      continue;
    }
    {
      absl::MutexLock lock(&mutex_);
      if (stopped_) {
        waiting_.push_front(*std::move(entry));
        return;
      }
    }
    const absl::Duration wait = WaitAfter(++entry->tries, delivery);
    const bool again =
        delivery.outcome == Delivery::Outcome::kLater &&
        clock_.Now() + wait < entry->notice.time + options_.patience;
    // One line at the first failure and one at the last: a server that is down
    // for a day fails a hundred times.
    if (!again || entry->tries == 1) {
      options_.log(absl::StrCat(
          door_->name(), ": notification ", entry->notice.id,
          again ? " is not delivered yet: " : " is not delivered: ",
          delivery.why));
    }
    if (!again) {
      Finish(*entry, Result::kFailed);
      continue;
    }
    entry->next_try = clock_.Monotonic() + wait;
    absl::MutexLock lock(&mutex_);
    waiting_.push_back(*std::move(entry));
  }
}

absl::Duration DoorQueue::WaitAfter(int tries, const Delivery& delivery) const {
  absl::Duration wait = options_.first_wait;
  for (int i = 1; i < tries && wait < options_.longest_wait; ++i) wait *= 2;
  wait = std::min(wait, options_.longest_wait);
  return std::max(wait, delivery.wait.value_or(absl::ZeroDuration()));
}

void DoorQueue::Finish(const Entry& entry, Result result) {
  options_.count(door_->name(), result);
  entry.done();
}

}  // namespace mpsd::notify
