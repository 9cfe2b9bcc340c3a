// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
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
#include "core/base/clock.h"
#include "core/host/machine.h"
#include "mpsd/v1/record.pb.h"
#include "server/jobs/job_files.h"
#include "server/jobs/meters.h"
#include "server/store/ended_jobs.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

// The record of a job, which mpsd keeps after the job is deleted: what is
// observed while the job runs, what is read from its files, and what is stored.
namespace mpsd::records {

struct SeenAttempt {
  std::string job_id;
  absl::Time start;
  v1::RunAttempt sum;
};

// Forwards the scheduler's reports to the exported metrics, and sums up each
// attempt: how long it did what, when it was paused, and in which state the
// machine was. Never blocks. Thread-safe.
class RunWatch final : public jobs::ExportedMetrics {
 public:
  struct Options {
    std::string torch_version;    // the worker's, which this mpsd came with
    std::string version, commit;  // mpsd's
    // The sum of an attempt in progress is returned at most this often.
    absl::Duration interval = absl::Seconds(10);
    // Called when a job has ended; on any thread, must not block.
    std::function<void()> on_end = [] {};
  };

  // `next` gets every report first; it and `clock` must outlive the watch.
  RunWatch(Options options, jobs::ExportedMetrics& next,
           const base::Clock& clock)
      : options_(std::move(options)), next_(next), clock_(clock) {}

  // The sums that have changed since the last call; those of ended attempts at
  // once. `now`: also those that Options::interval holds back.
  std::vector<SeenAttempt> TakeChanged(bool now = false);
  // Gives back what TakeChanged returned and could not be stored.
  void Return(std::vector<SeenAttempt> rows);

  void JobCounts(const std::map<jobs::State, int64_t>& jobs) override;
  void QueueChanged(const jobs::QueueDepth& depth) override;
  void JobStarted(const jobs::StartedJob& job) override;
  void DeviceOpened(const std::string& job_id,
                    const std::string& device) override;
  void StageBegan(const std::string& stage) override;
  void WorkerHalts(bool halts) override;
  void StepFinished(const std::string& job_id,
                    const jobs::Progress& progress) override;
  void Evaluated(const std::string& job_id, const std::string& device,
                 const jobs::Evaluated& evaluated) override;
  void CheckpointWritten(const std::string& job_id, const std::string& device,
                         double seconds) override;
  void WorkerExited(jobs::ExitReason reason) override;
  void JobReturned(jobs::ExitReason reason) override;
  void HostRead(const host::Reading& reading) override;
  void Paused(const jobs::PauseReasons& reasons) override;
  void Held(const jobs::Holds& holds) override;
  void JobEnded(const std::string& job_id, jobs::State state) override;
  void JobDeleted(const std::string& job_id) override;

 private:
  // The attempt in progress.
  struct Attempt {
    Attempt(std::string job_id, absl::Time start, absl::Duration now)
        : job_id(std::move(job_id)), start(start), phases(now) {}
    std::string job_id;
    absl::Time start;
    jobs::PhaseClock phases;
    v1::RunAttempt sum;        // except what the members below hold
    std::deque<double> steps;  // the latest, seconds each
    std::set<host::PowerSource> power;
    std::set<host::Thermal> thermal;
    std::set<host::MemoryPressure> pressure;
    double utilization_sum = 0;
    int utilization_count = 0;
    std::optional<int64_t> first_resets;
    std::optional<absl::Duration> read_at;       // monotonic
    std::optional<absl::Duration> paused_since;  // likewise
    jobs::PauseReasons paused_for;
  };

  SeenAttempt RowOfCurrent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the pause until now.
  void CountPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  jobs::ExportedMetrics& next_;
  const base::Clock& clock_;
  absl::Mutex mutex_;
  std::optional<Attempt> current_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // current_, unreturned
  absl::Duration given_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::deque<SeenAttempt> ended_ ABSL_GUARDED_BY(mutex_);
  jobs::PauseReasons reasons_ ABSL_GUARDED_BY(mutex_);
};

// What a record is made of.
struct RecordSources {
  jobs::Job job;
  std::vector<std::string> attempts;  // jobs::PastJobs::Attempts
  std::filesystem::path folder;       // the job's: request.json
  std::filesystem::path output_dir;   // run.json, result.json
};

// The record of a job, without notes and tags. Omits what a missing or
// malformed file would have contained. Reads at most a few MiB.
v1::JobRecord MakeRecord(const RecordSources& sources);

// Adds to `record` a run's environment, shape, memory, fallbacks and data from
// its run.json (core/train/run_folder.h). A worker wrote `text`, and may have
// been made to write anything: omits members of other types, and overlong
// texts.
void ReadManifest(const std::string& text, v1::JobRecord& record);

// Adds a job's attempts (v1::RunAttempt, serialized, oldest first) to `record`:
// the last 32 one by one, and all of them together as environment, conditions,
// pauses and durations. An attempt whose end mpsd did not see was interrupted,
// unless the job runs and it is the last one.
void SumAttempts(const std::vector<std::string>& attempts,
                 v1::JobRecord& record);

// The type of the file system below the state folder, the model and the data,
// if the job reads or writes there.
std::map<std::string, std::string> FileSystemsOf(
    const jobs::Job& job, const std::filesystem::path& folder,
    const std::vector<host::Mount>& mounts);

// What a text search covers, of a deleted job.
std::string TextsOf(const v1::JobRecord& record);

// A deleted job as lists show it.
v1::Job JobOf(const v1::JobRecord& record);

// Makes the record of a job on request, and keeps it when the job is deleted.
// Thread-safe.
class JobRecords {
 public:
  struct Options {
    absl::Duration interval = absl::Seconds(1);  // between two Tends
    // The machine's file systems.
    std::function<std::vector<host::Mount>()> mounts = host::ListMounts;
    // Gets a line for each fault.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Dependencies {
    jobs::PastJobs& past;
    jobs::JobStore& jobs;
    jobs::JobFiles& files;
    RunWatch& watch;
    const base::Clock& clock;
  };

  // The dependencies must outlive the object.
  JobRecords(Options options, const Dependencies& dependencies)
      : options_(std::move(options)), dependencies_(dependencies) {}

  // Stores the observations of attempts. Returns the time until which no call
  // is needed.
  absl::Time Tend();

  // The record of a job, deleted or not, with its notes and tags. NotFound if
  // there is none.
  absl::StatusOr<v1::JobRecord> Get(const std::string& id);
  // Keeps the record of a job that is about to be deleted, whose row and files
  // still exist. ResourceExhausted on a full disk.
  absl::Status Keep(const std::string& id);

  jobs::PastJobs& past() { return dependencies_.past; }
  const base::Clock& clock() const { return dependencies_.clock; }

 private:
  // `now`: include the attempt in progress. Waits at most `patience` for other
  // writes.
  absl::Status StoreAttempts(bool now, absl::Duration patience)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(storing_);
  // Without notes and tags.
  absl::StatusOr<v1::JobRecord> Make(const jobs::Job& job);

  const Options options_;
  const Dependencies dependencies_;
  absl::Mutex storing_;
  // The attempt whose file systems are known.
  std::string mounted_id_ ABSL_GUARDED_BY(storing_);
  absl::Time mounted_start_ ABSL_GUARDED_BY(storing_);
  std::map<std::string, std::string> mounted_ ABSL_GUARDED_BY(storing_);
  std::string logged_ ABSL_GUARDED_BY(storing_);  // the last fault
};

}  // namespace mpsd::records
