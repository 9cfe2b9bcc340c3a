// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "core/base/clock.h"
#include "core/report/report.h"
#include "server/jobs/job_reader.h"
#include "server/store/blob_store.h"
#include "server/store/ended_jobs.h"

namespace mpsd::jobs {

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
  // Jobs beyond the rules that ended too recently to be removed, and when the
  // first of them may be.
  int64_t fresh = 0;
  absl::Time fresh_until = absl::InfiniteFuture();
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

}  // namespace mpsd::jobs

namespace mpsd::retention {

// What the rules of retention remove, and why. Pure: accesses neither a clock
// nor a disk nor a database.
//
// A bound job (pinned, or needed by a job that has not ended) is kept whatever
// the rules, and so are a job that ended within Terms::fresh, so that its
// result can be fetched, and one that ended before 2024 by a wrong clock. If
// there are too many bytes, checkpoints are removed before results: first those
// of jobs that SUCCEEDED, then those from which another job could resume, then
// whole jobs; each time the job that ended first goes first.
enum class Part { kCheckpoints, kJob };
enum class Rule { kAge, kCount, kBytes, kCheckpointAge, kBudget };

struct Removal {
  const jobs::KeptOwner* owner = nullptr;
  const jobs::KeptJob* job = nullptr;
  Part part = Part::kJob;
  Rule rule = Rule::kAge;
  int64_t bytes = 0;
};

struct Terms {
  absl::Time now;
  absl::Duration fresh = absl::Hours(1);
  // Whether `now` may be trusted; if not, ages remove nothing.
  bool ages_count = true;
  // The state folder's budget; 0: none.
  int64_t budget_bytes = 0;
  // The state folder's size; nullopt: unknown, and no budget applies.
  std::optional<int64_t> used_bytes;
};

struct Plan {
  // In the order of removal: checkpoints, then jobs, the job that ended first
  // before others. Point into the owners that were planned for.
  std::vector<Removal> removals;
  int64_t freed_bytes = 0;
  // The state folder's excess over its budget after all removals, and the part
  // of it that pins and the queue keep, and that is too fresh.
  int64_t over_bytes = 0, bound_bytes = 0, fresh_bytes = 0;
};

using RulesOf = std::function<jobs::KeepRules(const std::string& owner)>;

// `owners` must outlive the plan.
Plan MakePlan(const std::vector<jobs::KeptOwner>& owners, const RulesOf& rules,
              const Terms& terms);

// The rule and its figure, human-readable.
std::string Why(const Removal& removal, const jobs::KeepRules& rules,
                const Terms& terms);
// Why the budget cannot be kept; "" if it can.
std::string ShortOf(const Plan& plan, const Terms& terms);

// Whether the wall clock may decide that a job is old. A machine that starts
// without a battery for its clock, or whose clock is set ahead, would otherwise
// remove everything at once. The clock is trusted once it has kept step with
// the monotonic clock for a while. One thread at a time.
class ClockTrust {
 public:
  // How long the clocks must keep step, and how far they may differ by then.
  static constexpr absl::Duration kSettle = absl::Hours(1);
  static constexpr absl::Duration kStep = absl::Minutes(2);

  // Reads both clocks.
  bool Look(absl::Time wall, absl::Duration monotonic);

 private:
  // The clocks' readings when they last began to keep step.
  std::optional<absl::Time> wall_;
  absl::Duration monotonic_;
};

}  // namespace mpsd::retention

namespace mpsd::jobs {

// Carries out what retention::MakePlan decides. Every removal is checked again
// when it is carried out (JobRemover), because jobs are pinned, submitted and
// retried meanwhile, and each is atomic or is completed after a kill; so an
// interrupted collection has removed a part of its plan, and the next one plans
// for the rest. Thread-safe.
class Collector {
 public:
  using RemoveEnded = std::function<absl::StatusOr<int64_t>(
      const std::string& id, absl::Time ended)>;
  struct Options {
    retention::RulesOf rules;
    // Whether no rule removes anything, so that nothing need be read.
    std::function<bool()> keeps_all = [] { return false; };
    // Jobs that ended this recently are kept.
    absl::Duration fresh = absl::Hours(1);
    // Gets one line for each collection that removed something, and for what
    // cannot be removed.
    std::function<void(const std::string&)> log = [](const std::string&) {};
    // Counts what was removed, for the metrics.
    std::function<void(Collected, int64_t count, int64_t bytes)> count =
        [](Collected, int64_t, int64_t) {};
  };
  // The dependencies must outlive the collector.
  struct Dependencies {
    KeptJobs& kept;
    // JobRemover::RemoveJob and JobRemover::RemoveCheckpoints.
    RemoveEnded remove_job, remove_checkpoints;
    UnusedBlobs& blobs;
    MeasuredFolders& folders;
    const base::Clock& clock;
  };

  Collector(Options options, Dependencies dependencies)
      : options_(std::move(options)), dependencies_(std::move(dependencies)) {}

  // Removes nothing.
  absl::StatusOr<CollectionPlan> Plan();
  // Removes what a plan made now names. Stops early, and returns what was
  // removed until then, when `wanted` says that no caller waits any more.
  absl::StatusOr<CollectionResult> Collect(const Wanted& wanted);
  StateBytes Bytes() const;

  // The budget of the state folder, in bytes; 0: none. Call it before the first
  // plan.
  void SetBudget(int64_t bytes) { budget_ = bytes; }

  // The periodic work of the daemon: stores measurements, and removes jobs and
  // checkpoints by the rules. One thread at a time.
  void Tend(const Wanted& wanted);
  // Removes unused blobs.
  void TendBlobs();

 private:
  // A plan with the jobs it points to.
  struct Made {
    std::vector<KeptOwner> owners;
    retention::Plan plan;
    retention::Terms terms;
  };
  // `ages_count` as retention::Terms has it.
  absl::StatusOr<Made> Make(bool ages_count);
  // What a plan without the protection of fresh jobs would remove of them.
  void CountFresh(const Made& made, CollectionPlan& plan) const;
  retention::Terms TermsOf(bool ages_count) const;
  absl::StatusOr<CollectionResult> CollectJobs(const Made& made,
                                               const Wanted& wanted);
  absl::StatusOr<int64_t> Remove(const retention::Removal& removal,
                                 const std::string& id);
  void CountBlobs(const UnusedBlobs::Removed& removed);
  void StoreMeasured();
  void LogFailures(const std::vector<std::string>& failed);

  const Options options_;
  const Dependencies dependencies_;
  int64_t budget_ = 0;
  absl::Mutex collecting_;  // one collection at a time
  // Used by the thread that calls Tend.
  retention::ClockTrust clock_trust_;
  std::set<std::string> logged_;  // failures of the last collection
};

}  // namespace mpsd::jobs
