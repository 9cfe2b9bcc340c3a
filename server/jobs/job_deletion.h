// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
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
#include "server/jobs/attempt.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/meters.h"
#include "server/store/job_store.h"

// The deletion of jobs, and of parts of them. A job's row and its folder cannot
// be removed atomically, so the intent is written down first; a daemon that
// starts finishes or forgets the deletion:
//
//   jobs/.ID.delete is written     a kill: the job stays
//   the row is removed             a kill: the next start removes the folder
//   jobs/ID -> jobs/.ID.….tmp      a kill: the same
//   that is removed, then the mark
namespace mpsd::jobs {

// Tracks callers that briefly need a job's folder, and callers that remove it
// or a part of it. The store knows which jobs need others only once their rows
// exist; a submission checks files before, and a retried job needs its
// checkpoints after. Nothing blocks: the second caller gets Aborted, and may
// try again. Thread-safe; must outlive its claims.
class FolderClaims {
 public:
  // Ends with its destruction.
  class Claim {
   public:
    Claim(Claim&& other) noexcept : end_(std::exchange(other.end_, nullptr)) {}
    Claim& operator=(Claim&&) = delete;
    ~Claim() {
      if (end_) end_();
    }

   private:
    friend class FolderClaims;
    explicit Claim(std::function<void()> end) : end_(std::move(end)) {}
    std::function<void()> end_;
  };
  // While it exists, no job that it names is removed.
  struct Use : Claim {};
  // While it exists, no caller gets a Use of the job.
  struct Removal : Claim {};
  // A submission in progress: its Take detects removals meanwhile.
  struct Watch : Claim {
    int64_t since = 0;
  };

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

// The ballast is a file that reserves space on the state folder's disk and is
// removed when the disk is full: to delete a job its row must go first, and
// deleting a row takes space.
inline constexpr int64_t kBallastBytes = 8 << 20, kLeastBallastBytes = 64 << 10;

// STATE/ballast.
std::filesystem::path BallastPath(const std::filesystem::path& jobs_dir);

// Makes the file, or a larger one, of at most kBallastBytes and an eighth of
// `free_bytes`. Returns its size; 0 if the disk has no room for one.
int64_t KeepBallast(const std::filesystem::path& path, int64_t free_bytes);

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

// What killed daemons left in STATE/jobs.
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

// Removes jobs that have ended, and parts of them, as long as they are not
// needed, and keeps them. Thread-safe. Does not hold the scheduler's lock while
// it removes files, and takes that lock only through Dependencies; so call it
// without the lock, except for claims() and CheckIsNotNeeded().
class JobRemover {
 public:
  // All must outlive the remover.
  struct Dependencies {
    JobStore& store;
    JobFiles& files;
    EventHub& hub;
    Journal& journal;
    ExportedMetrics& exported_metrics;
    KeptJobs* kept = nullptr;            // null: no pins and no retention
    MeasuredFolders* folders = nullptr;  // null: nothing is measured
    // Keeps the record of a job that is about to be removed; empty: keeps none.
    // ResourceExhausted on a full disk.
    std::function<absl::Status(const std::string& id)> keep_record;
    // Unavailable while the end of the job's last attempt is not stored.
    std::function<absl::Status(const std::string& id)> check_stored_end;
    // Called once a row is gone.
    std::function<void()> publish_counts;
  };
  explicit JobRemover(Dependencies dependencies)
      : dependencies_(std::move(dependencies)) {}

  FolderClaims& claims() { return claims_; }

  // Users' changes, with errors as in proto/mpsd/v1/jobs.proto. Returns the
  // bytes freed.
  absl::StatusOr<int64_t> Delete(const std::string& id);
  // Why Delete would refuse now; removes nothing.
  absl::Status MayDelete(const std::string& id);
  // A pinned job is kept from Delete and from every rule.
  absl::StatusOr<Job> SetPinned(const std::string& id, bool pinned);

  // Remove what a rule names. `ended`: the end of the job that the rule was
  // applied to. Both return the bytes freed; FailedPrecondition if the job may
  // not be removed any more (KeptJobs::MayRemove), Aborted while a caller is
  // about to need it. A kill in the middle leaves the job whole, or something
  // that the next start removes.
  absl::StatusOr<int64_t> RemoveJob(const std::string& id, absl::Time ended);
  // The job's result is kept.
  absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& id,
                                            absl::Time ended);

  // Only one thread at a time deletes a row, or what a run left. A thread that
  // needs the scheduler's lock, too, locks this one first.
  absl::Mutex& deletions() ABSL_LOCK_RETURNED(deletions_) { return deletions_; }
  // Removes the checkpoints and results of a job that does not run.
  absl::Status RemoveRun(const std::string& id) ABSL_LOCKS_EXCLUDED(deletions_);
  absl::Status RemoveRunLocked(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(deletions_);
  // OK if no job needs the checkpoints and results of the job.
  absl::Status CheckIsNotNeeded(const Job& job);

 private:
  // Calls `may` once no caller can begin to need the job.
  absl::StatusOr<int64_t> Remove(const std::string& id,
                                 const std::function<absl::Status()>& may);
  // Has the record of a job written that is about to be removed. A full disk
  // does not prevent the removal, which frees space.
  void KeepRecord(const std::string& id);

  const Dependencies dependencies_;
  absl::Mutex deletions_;
  FolderClaims claims_;
};

}  // namespace mpsd::jobs
