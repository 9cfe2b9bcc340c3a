// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_JOB_DELETION_H_
#define MPSD_SERVER_JOBS_JOB_DELETION_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_store.h"

// A file that reserves space on the state folder's disk and is removed when the
// disk is full: to delete a job its row must go first, and deleting a row takes
// space.

// Deletes a job's folder. The row and the folder cannot be removed atomically,
// so the intent is written down first; a daemon that starts finishes or forgets
// the deletion:
//
//   jobs/.ID.delete is written     a kill: the job stays
//   the row is removed             a kill: the next start removes the folder
//   jobs/ID -> jobs/.ID.….tmp      a kill: the same
//   that is removed, then the mark

// Finds and removes what killed daemons left in STATE/jobs.

namespace mpsd::jobs {

// Tracks callers that briefly need a job's folder, and callers that remove it
// or a part of it. The store knows which jobs need others only once their rows
// exist; a submission checks files before, and a retried job needs its
// checkpoints after. Nothing blocks: the second caller gets Aborted, and may
// try again. Thread-safe; must outlive its claims.
class FolderClaims {
 public:
  // While it exists, no job that it names is removed.
  class Use;
  // While it exists, no caller gets a Use of the job.
  class Removal;
  // A submission in progress: its Take detects removals meanwhile.
  class Watch;

  // `ids`: jobs that are needed. Aborted if one is being removed, or was since
  // `watch` began; `watch` may be null.
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

inline constexpr int64_t kBallastBytes = 8 << 20;

// STATE/ballast.
std::filesystem::path BallastPath(const std::filesystem::path& jobs_dir);

// Makes the file if it is missing and the disk has eight times its size free.
void KeepBallast(const std::filesystem::path& path);

// Returns whether the file existed.
bool ThrowOffBallast(const std::filesystem::path& path);

// The path jobs/.ID.delete for the folder jobs/ID.
std::filesystem::path DeletionMark(const std::filesystem::path& folder);
// The folder that the mark `path` stands for; empty if `path` is not a mark.
std::filesystem::path MarkedFolder(const std::filesystem::path& path);

// Once it returns OK the mark is durable. `folder` need not exist.
absl::Status MarkForDeletion(const std::filesystem::path& folder);
// Removes the mark; the job stays.
void UnmarkForDeletion(const std::filesystem::path& folder);
// Call it once the row is removed: removes `folder` and then its mark; the next
// start removes what cannot be removed now. Returns the bytes freed; uploaded
// inputs are links to blobs, which are kept for a while.
int64_t RemoveMarkedFolder(const std::filesystem::path& folder);

// Removes folder/out/checkpoints: renames it to a name next to `folder` that
// the next start removes, and then removes it. Follows no link. Returns the
// bytes freed; 0 if there are no checkpoints.
absl::StatusOr<int64_t> RemoveCheckpointsOf(
    const std::filesystem::path& folder);

struct Leftovers {
  // Paths to remove, in this order: staged folders of submissions and
  // deletions; folders of jobs without a row that a deletion marked, then their
  // marks; folders of submissions interrupted before they had a row.
  std::vector<std::filesystem::path> garbage;
  // Names of the other folders of jobs without a row. They may hold results
  // (for example if the database was replaced by an older one), so they are
  // kept.
  std::vector<std::string> unknown;
};

// Call it only while no job is submitted or deleted. Removes the marks of jobs
// that have their row. The folder of an interrupted submission is garbage once
// it is older than `grace`.
absl::StatusOr<Leftovers> FindLeftovers(const std::filesystem::path& jobs_dir,
                                        JobStore& store, absl::Duration grace);

// Safe on any thread, while other threads submit and delete jobs.
void RemoveLeftovers(const std::vector<std::filesystem::path>& garbage);

// Removes the row of a job that has ended, with its events, labels, checkpoints
// and idempotency key. The caller then calls files.FinishDelete(id); the order
// of a deletion survives a kill. One call at a time.
//   NOT_FOUND            no such job.
//   FAILED_PRECONDITION  it has not ended, or a job that has not ended names
//                        files of its folder.
absl::Status DeleteRow(JobStore& store, JobFiles& files, const std::string& id);

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_JOB_DELETION_H_
