// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/queue_view.h"

#include <utility>

namespace mpsd::jobs {

bool QueueView::Remove(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  job_holds_.erase(id);
  return queue_.Remove(id);
}

void QueueView::HoldJob(const std::string& id, const std::string& why,
                        absl::Duration not_before) {
  absl::MutexLock lock(&mutex_);
  // A Cancel may have removed the entry since the caller looked; nothing would
  // remove a hold that came after.
  if (!queue_.Position(id)) return;
  job_holds_[id] = why;
  queue_.Delay(id, not_before);
}

bool QueueView::SetQueueHold(HoldReason reason, const std::string& why) {
  absl::MutexLock lock(&mutex_);
  if (why.empty()) return holds_.erase(reason) > 0;
  std::string& known = holds_[reason];
  return std::exchange(known, why) != why;
}

std::string QueueView::HoldOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  if (auto own = job_holds_.find(id); own != job_holds_.end()) {
    return own->second;
  }
  if (id == info_.running_job_id) return "";
  return Gravest();
}

void QueueView::SetRunning(const std::string& id, const Pause& pause) {
  absl::MutexLock lock(&mutex_);
  info_.running_job_id = id;
  info_.pause = pause;
}

Pause QueueView::PauseOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  if (id == info_.running_job_id) return info_.pause;
  return {info_.pause_reasons, false, std::nullopt};
}

ManagerInfo QueueView::Info() const {
  absl::MutexLock lock(&mutex_);
  ManagerInfo info = info_;
  info.hold = Gravest();
  if (!holds_.empty()) info.hold_reason = Name(holds_.begin()->first);
  return info;
}

std::string QueueView::Gravest() const {
  return holds_.empty() ? "" : holds_.begin()->second;
}

}  // namespace mpsd::jobs
