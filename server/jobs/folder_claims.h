// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_FOLDER_CLAIMS_H_
#define MPSD_SERVER_JOBS_FOLDER_CLAIMS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"

namespace mpsd::jobs {

// Who needs the folder of a job for a moment, and who removes it or a part of
// it. The store tells which jobs need others only once their rows are there; a
// submission looks at files before, and a job that is tried again needs its
// checkpoints after. Nobody waits: whoever comes second is Aborted, and may try
// again. Thread-safe; the claims are to go before it.
class FolderClaims {
 public:
  // While it lives, no job that it names is removed.
  class Use;
  // While it lives, nobody gets a Use of the job.
  class Removal;
  // A submission under way: what is removed while it lives, its Take finds.
  class Watch;

  // `ids`: jobs that are needed. Aborted where one is being removed, or was
  // since `watch` began; `watch` may be null.
  absl::StatusOr<Use> Take(std::set<std::string> ids, const Watch* watch);
  // Aborted where the job is needed or being removed.
  absl::StatusOr<Removal> Remove(const std::string& id);
  Watch Begin();

 private:
  void Release(const std::set<std::string>& ids);
  void EndRemoval(const std::string& id);
  void EndWatch();

  absl::Mutex mutex_;
  std::map<std::string, int> uses_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> removals_ ABSL_GUARDED_BY(mutex_);
  // When each job was removed, counted in removals; emptied with the last
  // watch.
  std::map<std::string, int64_t> removed_ ABSL_GUARDED_BY(mutex_);
  int64_t count_ ABSL_GUARDED_BY(mutex_) = 0;
  int watches_ ABSL_GUARDED_BY(mutex_) = 0;
};

class FolderClaims::Use {
 public:
  Use(Use&& other) noexcept
      : claims_(std::exchange(other.claims_, nullptr)),
        ids_(std::move(other.ids_)) {}
  Use& operator=(Use&&) = delete;
  ~Use() {
    if (claims_ != nullptr) claims_->Release(ids_);
  }

 private:
  friend class FolderClaims;
  Use(FolderClaims* claims, std::set<std::string> ids)
      : claims_(claims), ids_(std::move(ids)) {}

  FolderClaims* claims_;
  std::set<std::string> ids_;
};

class FolderClaims::Removal {
 public:
  Removal(Removal&& other) noexcept
      : claims_(std::exchange(other.claims_, nullptr)),
        id_(std::move(other.id_)) {}
  Removal& operator=(Removal&&) = delete;
  ~Removal() {
    if (claims_ != nullptr) claims_->EndRemoval(id_);
  }

 private:
  friend class FolderClaims;
  Removal(FolderClaims* claims, std::string id)
      : claims_(claims), id_(std::move(id)) {}

  FolderClaims* claims_;
  std::string id_;
};

class FolderClaims::Watch {
 public:
  Watch(Watch&& other) noexcept
      : claims_(std::exchange(other.claims_, nullptr)), since_(other.since_) {}
  Watch& operator=(Watch&&) = delete;
  ~Watch() {
    if (claims_ != nullptr) claims_->EndWatch();
  }

 private:
  friend class FolderClaims;
  Watch(FolderClaims* claims, int64_t since) : claims_(claims), since_(since) {}

  FolderClaims* claims_;
  int64_t since_;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_FOLDER_CLAIMS_H_
