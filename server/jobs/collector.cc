// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/collector.h"

#include <algorithm>
#include <utility>

namespace mpsd::jobs {

void MeasuredFolders::Begin() {
  absl::MutexLock lock(&mutex_);
  measuring_ = true;
  jobs_removed_.clear();
  checkpoints_removed_.clear();
  others_removed_ = 0;
}

void MeasuredFolders::Set(int64_t total_bytes,
                          const std::vector<FolderBytes>& folders) {
  absl::MutexLock lock(&mutex_);
  total_ = total_bytes;
  std::map<std::string, FolderBytes> measured;
  for (const FolderBytes& folder : folders) measured[folder.id] = folder;
  // The walk may have met a folder under its name during removal: its earlier
  // figures count, too.
  for (const auto& [id, bytes] : jobs_removed_) {
    const auto found = measured.find(id);
    const int64_t seen = found == measured.end() ? 0 : found->second.bytes;
    Shrink(std::max(seen, bytes));
    if (found != measured.end()) measured.erase(found);
  }
  for (const auto& [id, bytes] : checkpoints_removed_) {
    const auto found = measured.find(id);
    if (found == measured.end()) continue;
    Shrink(std::max(found->second.checkpoint_bytes, bytes));
    found->second.bytes -= found->second.checkpoint_bytes;
    found->second.checkpoint_bytes = 0;
  }
  Shrink(others_removed_);
  for (const auto& [id, folder] : measured) {
    const auto known = folders_.find(id);
    if (known == folders_.end() || known->second != folder) changed_.insert(id);
  }
  folders_ = std::move(measured);
  measuring_ = false;
}

void MeasuredFolders::JobRemoved(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(id);
  const int64_t bytes = found == folders_.end() ? 0 : found->second.bytes;
  if (measuring_) jobs_removed_[id] = bytes;
  Shrink(bytes);
  if (found != folders_.end()) folders_.erase(found);
}

void MeasuredFolders::CheckpointsRemoved(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(id);
  if (found == folders_.end()) {
    if (measuring_) checkpoints_removed_[id] = 0;
    return;
  }
  FolderBytes& folder = found->second;
  if (measuring_) checkpoints_removed_[id] = folder.checkpoint_bytes;
  Shrink(folder.checkpoint_bytes);
  folder.bytes -= folder.checkpoint_bytes;
  folder.checkpoint_bytes = 0;
}

void MeasuredFolders::OthersRemoved(int64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (measuring_) others_removed_ += bytes;
  Shrink(bytes);
}

int64_t MeasuredFolders::BytesOf(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = folders_.find(id);
  return found == folders_.end() ? 0 : found->second.bytes;
}

std::optional<int64_t> MeasuredFolders::TotalBytes() const {
  absl::MutexLock lock(&mutex_);
  return total_;
}

std::vector<FolderBytes> MeasuredFolders::TakeChanged(size_t limit) {
  absl::MutexLock lock(&mutex_);
  std::vector<FolderBytes> taken;
  while (taken.size() < limit && !changed_.empty()) {
    const auto id = changed_.begin();
    const auto folder = folders_.find(*id);
    if (folder != folders_.end()) taken.push_back(folder->second);
    changed_.erase(id);
  }
  return taken;
}

void MeasuredFolders::Return(const std::vector<FolderBytes>& folders) {
  absl::MutexLock lock(&mutex_);
  for (const FolderBytes& folder : folders) changed_.insert(folder.id);
}

void MeasuredFolders::Shrink(int64_t bytes) {
  if (total_) total_ = std::max<int64_t>(0, *total_ - bytes);
}

}  // namespace mpsd::jobs
