// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_COLLECTOR_H_
#define MPSD_SERVER_JOBS_COLLECTOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/report/report.h"
#include "server/jobs/job_manager.h"

namespace mpsd::jobs {

// The disk space of a job's folder without its inputs.
struct FolderBytes {
  std::string id;
  int64_t bytes = 0;
  int64_t checkpoint_bytes = 0;  // among them

  bool operator==(const FolderBytes&) const = default;
};

// The disk space of the state folder and of each job's folder, as last
// measured, less what was removed since. A measurement takes a while: what is
// removed meanwhile is subtracted from its result too, though the walk may not
// have counted it, so that the figure is never too high for what was removed
// and nothing is removed for bytes that are gone. Thread-safe.
class MeasuredFolders {
 public:
  // A measurement begins.
  void Begin();
  // It has ended, with the bytes of the whole state folder and of each job's.
  void Set(int64_t total_bytes, const std::vector<FolderBytes>& folders);

  // The job's folder, or its checkpoints, or `bytes` of something else went.
  void JobRemoved(const std::string& id);
  void CheckpointsRemoved(const std::string& id);
  void OthersRemoved(int64_t bytes);

  // 0 for a folder that was not there yet.
  int64_t BytesOf(const std::string& id) const;
  // The state folder's; nullopt before the first measurement.
  std::optional<int64_t> TotalBytes() const;

  // At most `limit` folders whose figures changed since they were taken, and
  // that Return did not give back.
  std::vector<FolderBytes> TakeChanged(size_t limit);
  void Return(const std::vector<FolderBytes>& folders);

 private:
  void Shrink(int64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  std::optional<int64_t> total_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, FolderBytes> folders_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> changed_ ABSL_GUARDED_BY(mutex_);
  // What was removed since the current measurement began, in bytes.
  bool measuring_ ABSL_GUARDED_BY(mutex_) = false;
  std::map<std::string, int64_t> jobs_removed_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, int64_t> checkpoints_removed_ ABSL_GUARDED_BY(mutex_);
  int64_t others_removed_ ABSL_GUARDED_BY(mutex_) = 0;
};

// A job that has ended, as the rules of retention see it.
struct KeptJob {
  int64_t number = 0;  // of its row, never of two jobs
  absl::Time ended;
  int64_t bytes = 0;             // of its folder, as measured last
  int64_t checkpoint_bytes = 0;  // among them
  bool succeeded = false;
  // Pinned, or needed by a job that has not ended.
  bool bound = false;
};
struct KeptOwner {
  std::string name;
  std::vector<KeptJob> jobs;  // the one that ended first comes first
};

struct NamedJob {
  int64_t number = 0;
  std::string id, name;
};

// Retention's view of the rows of jobs, and changes in them. Thread-safe.
// Implemented by server/store.
class KeptJobs {
 public:
  virtual ~KeptJobs() = default;

  // Every job that has ended, except rows without the time of their end.
  virtual absl::StatusOr<std::vector<KeptOwner>> Ended() = 0;
  // In the order of `numbers`; missing jobs are omitted.
  virtual absl::StatusOr<std::vector<NamedJob>> Names(
      absl::Span<const int64_t> numbers) = 0;
  // Why a rule may not remove the job or its checkpoints: it does not exist,
  // has not ended, ended at another time than `ended`, is pinned, or a job that
  // has not ended names its files or waits for it.
  virtual absl::Status MayRemove(const std::string& id, absl::Time ended) = 0;

  // Why a user may not delete the job: as above, except that other jobs may
  // wait for its end.
  virtual absl::Status MayDelete(const std::string& id) = 0;

  // NotFound if there is no such job.
  virtual absl::Status SetPinned(const std::string& id, bool pinned) = 0;
  // Missing jobs are omitted.
  virtual absl::Status SetBytes(absl::Span<const FolderBytes> folders) = 0;
  // Calls MayRemove, and in the same transaction removes the rows of the job's
  // checkpoints.
  virtual absl::Status ForgetCheckpoints(const std::string& id,
                                         absl::Time ended) = 0;
};

// Removes what a rule names, as long as it is not needed. `ended`: the end of
// the job that the rule was applied to. Both return the bytes freed;
// FailedPrecondition if the job may not be removed any more
// (KeptJobs::MayRemove), Aborted while a caller is about to need it. A kill in
// the middle leaves the job whole, or something that the next start removes.
// Thread-safe. Implemented by jobs::Scheduler.
class JobRemover {
 public:
  virtual ~JobRemover() = default;
  virtual absl::StatusOr<int64_t> RemoveJob(const std::string& id,
                                            absl::Time ended) = 0;
  // The job's result is kept.
  virtual absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& id,
                                                    absl::Time ended) = 0;
};

// What is removed by rules, by the budget of the state folder, or because it is
// not needed. The numbers are those of CollectionItem.Kind in
// proto/mpsd/v1/daemon.proto, and the names are values of a metric's label.
enum class Collected {
  kJob = 1,
  kCheckpoints = 2,
  kBlob = 3,
  kPartialUpload = 4,
  kLeftover = 5,
};
inline constexpr report::EnumName<Collected> kCollected[] = {
    {Collected::kJob, "job"},
    {Collected::kCheckpoints, "checkpoints"},
    {Collected::kBlob, "blob"},
    {Collected::kPartialUpload, "partial_upload"},
    {Collected::kLeftover, "leftover"}};

struct CollectionItem {
  Collected kind = Collected::kJob;
  std::string id;           // a job's id, a blob's SHA-256
  std::string owner, name;  // of a job
  int64_t size_bytes = 0;
  std::string why;  // human-readable
};

struct CollectionPlan {
  std::vector<CollectionItem> items;  // in the order of removal
  int64_t more = 0;                   // items beyond these
  int64_t freed_bytes = 0;            // by all of them
  int64_t used_bytes = 0;    // by the state folder; 0 where not measured yet
  int64_t budget_bytes = 0;  // 0: none
  std::string short_of;      // why the budget cannot be kept, human-readable
};

struct CollectionResult {
  int64_t removed = 0;
  int64_t freed_bytes = 0;
  std::vector<std::string> failed;  // what could not be removed, and why
};

// A measured state folder and its budget; 0 if there is none.
struct StateBytes {
  int64_t used = 0, budget = 0;
};

// Plans and performs the removals of the rules of retention. Thread-safe.
// Implemented by retention::Collector.
class Collector {
 public:
  virtual ~Collector() = default;
  // Removes nothing.
  virtual absl::StatusOr<CollectionPlan> Plan() = 0;
  // Removes what a plan made now names. Stops early, and returns what was
  // removed until then, when `wanted` says that no caller waits any more.
  virtual absl::StatusOr<CollectionResult> Collect(const Wanted& wanted) = 0;
  virtual StateBytes Bytes() const = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_COLLECTOR_H_
