// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_EVENT_HUB_H_
#define MPSD_SERVER_JOBS_EVENT_HUB_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::jobs {

// Knows which callers wait for news of which job. Thread-safe. Wake functions
// run under the hub's lock, so that none runs once Unsubscribe has returned.
// Hence a wake function must not block, nor call the hub; and Unsubscribe must
// not be called with a lock held that the wake function takes.
class EventHub {
 public:
  int64_t Subscribe(const std::string& job_id, std::function<void()> wake);
  void Unsubscribe(int64_t token);
  void Wake(const std::string& job_id);

 private:
  struct Subscriber {
    std::string job_id;
    std::function<void()> wake;
  };
  absl::Mutex mutex_;
  int64_t last_token_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Subscriber> subscribers_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_EVENT_HUB_H_
