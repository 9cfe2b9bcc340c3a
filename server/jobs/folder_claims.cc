// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/folder_claims.h"

#include "absl/strings/str_cat.h"

namespace mpsd::jobs {

absl::StatusOr<FolderClaims::Use> FolderClaims::Take(std::set<std::string> ids,
                                                     const Watch* watch) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    const auto removed = removed_.find(id);
    const bool went = watch != nullptr && removed != removed_.end() &&
                      removed->second > watch->since_;
    if (!went && !removals_.contains(id)) continue;
    return absl::AbortedError(absl::StrCat("files of job ", id,
                                           (went ? " were" : " are being"),
                                           " removed meanwhile: try again"));
  }
  for (const std::string& id : ids) ++uses_[id];
  return Use(this, std::move(ids));
}

absl::StatusOr<FolderClaims::Removal> FolderClaims::Remove(
    const std::string& id) {
  absl::MutexLock lock(&mutex_);
  if (uses_.contains(id)) {
    return absl::AbortedError(absl::StrCat(
        "job ", id,
        " is needed by what is being submitted or tried again: try "
        "again"));
  }
  if (!removals_.insert(id).second) {
    return absl::AbortedError(
        absl::StrCat("job ", id, " is being removed: try again"));
  }
  return Removal(this, id);
}

FolderClaims::Watch FolderClaims::Begin() {
  absl::MutexLock lock(&mutex_);
  ++watches_;
  return Watch(this, count_);
}

void FolderClaims::Release(const std::set<std::string>& ids) {
  absl::MutexLock lock(&mutex_);
  for (const std::string& id : ids) {
    const auto use = uses_.find(id);
    if (--use->second == 0) uses_.erase(use);
  }
}

void FolderClaims::EndRemoval(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  removals_.erase(id);
  if (watches_ > 0) removed_[id] = ++count_;
}

void FolderClaims::EndWatch() {
  absl::MutexLock lock(&mutex_);
  if (--watches_ == 0) removed_.clear();
}

}  // namespace mpsd::jobs
