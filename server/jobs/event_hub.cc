// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/event_hub.h"

#include <utility>

#include "core/base/check.h"

namespace mpsd::jobs {

int64_t EventHub::Subscribe(const std::string& job_id,
                            std::function<void()> wake) {
  base::Check(wake != nullptr, "there is somebody to wake");
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

}  // namespace mpsd::jobs
