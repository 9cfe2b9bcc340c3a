// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_HUB_WATCHED_PULL_H_
#define MPSD_SERVER_HUB_WATCHED_PULL_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/models/puller.h"

namespace mpsd::hub {

// What is known of a pull, for those who watch it; lives as long as a watch.
// Thread-safe.
class WatchedPull : public std::enable_shared_from_this<WatchedPull> {
 public:
  // Notes beyond these are forgotten, the oldest first.
  static constexpr size_t kNotes = 100;

  explicit WatchedPull(const base::Clock& clock) : clock_(clock) {}

  // `news.note` may be empty. Watches are woken for each note, and for bytes
  // alone five times a second at most.
  void Tell(const models::PullNews& news);
  // Nothing follows.
  void End(absl::Status status);

  // The bytes that are still to come; 0 where their number is not known.
  int64_t BytesLeft() const;

  // The watch begins with how far the pull is, and with its last note.
  std::unique_ptr<models::PullWatch> Watch(std::function<void()> wake);

 private:
  class Look;

  // Those to call once the lock is released: a wake-up may end a watch.
  std::vector<std::function<void()>> Wakes()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const base::Clock& clock_;
  mutable absl::Mutex mutex_;
  models::PullNews latest_ ABSL_GUARDED_BY(mutex_);  // without a note
  int64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> notes_ ABSL_GUARDED_BY(mutex_);
  int64_t notes_before_ ABSL_GUARDED_BY(mutex_) = 0;  // those forgotten
  std::optional<absl::Status> end_ ABSL_GUARDED_BY(mutex_);
  absl::Duration woken_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::map<const Look*, std::function<void()>> wakes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::hub

#endif  // MPSD_SERVER_HUB_WATCHED_PULL_H_
