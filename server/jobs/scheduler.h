// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/host.h"
#include "core/spec/train_spec.h"
#include "server/jobs/attempt.h"
#include "server/jobs/attempt_end.h"
#include "server/jobs/collector.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/meters.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/start_checks.h"
#include "server/jobs/submission.h"
#include "server/jobs/user_limits.h"
#include "server/store/blob_store.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

namespace mpsd::jobs {

// Where to move a queued job.
struct MoveTo {
  enum class Where { kTop, kBottom, kPriority };
  Where where = Where::kTop;
  int32_t priority = 0;    // for kPriority
  bool among_all = false;  // kTop and kBottom among all owners' jobs
};

// What was found in the data of a queued job.
struct DataCheck {
  std::string fault;  // for which its run would be rejected; "": for none
  std::vector<std::string> warnings;
};

// The queue of one device: one job at a time, in the order of JobQueue. The
// scheduler has no thread and does no I/O of its own: its owner calls Tick(),
// from one thread, when the time that Tick() returned has come or `on_change`
// was called. Every other method is thread-safe. The dependencies must outlive
// the scheduler.
//
//   Recover(); while (!stop) wait(until = Tick()); Drain(); wait(Idle());
//
// One lock, mutex_, orders all changes of rows of jobs that have not ended: the
// thread that changes a row reads it, changes it, writes it to the store and
// updates the queue under the lock, for the length of a Turn. (Only the mark of
// a row that cannot be read needs no lock.) So if the store hangs, then Submit,
// Cancel, Retry, Tick and the worker's reports wait for it; Drain, Idle and the
// JobReader never wait for the lock. Done without the lock:
//
//   * what touches files: the checks and the copies of a submission
//     (Submitter), the checks before a start (StartChecks), the removal of
//     folders (JobRemover), the launch of a worker;
//   * the reading of the machine (HostWatch);
//   * what may block or call back at the end of a turn: log lines, counts,
//     watchers, on_change.
//
// What was checked without the lock is checked again with it. Under the lock a
// thread may take the worker's, the store's and the view's lock; it takes
// JobRemover::deletions() before the lock, and calls neither the hub nor
// on_change with it.
class Scheduler final : private WorkerListener {
 public:
  struct Options {
    absl::Duration hang_timeout = absl::Minutes(10);
    // Between asking a worker to end and killing it
    absl::Duration stop_grace = absl::Minutes(2);
    // Steps that finish within this time share one event and one transaction.
    absl::Duration progress_interval = absl::Milliseconds(200);
    // The time between two attempts while the device or the database is not
    // available.
    absl::Duration poll_interval = absl::Seconds(1);
    // No job starts while the state folder's disk has fewer free bytes.
    int64_t min_free_bytes = 0;
    // The memory of this machine in bytes; 0 if unknown.
    int64_t machine_bytes = 0;
    // A training job that never ran waits this long for the check of its data
    // (DataChecked), and starts unchecked after that; zero: no data are
    // checked.
    absl::Duration check_patience;
    std::string boot_id;  // host::BootId()
    RetryPolicy retry;
    PausePolicy pause;
    // An owner's past use of the device counts half after this long; zero: use
    // does not count, and the queue is FIFO within priority.
    absl::Duration half_life;
    PreemptionPolicy preemption;
    // How long a job of an owner may hold the device, all attempts together;
    // empty: unlimited. Called each time, with the scheduler's lock held, so it
    // must not block.
    std::function<absl::Duration(const std::string& owner)> time_limit;
    // A running job's device time is stored at least this often, even if its
    // worker reports nothing.
    absl::Duration use_interval = absl::Minutes(1);
    // As base::AwakeTime
    std::function<absl::Duration()> awake_time = base::AwakeTime;
    // How often Tick() reads the machine's state.
    absl::Duration host_interval = absl::Seconds(5);
    JobIdGenerator::Random random = JobIdGenerator::SystemRandom();
    // Called when Tick() has something to do. Called on any thread, so it must
    // not block.
    std::function<void()> on_change = [] {};
    // Ends the process, because the queue in memory is not that of the
    // database.
    std::function<void(const std::string& why)> give_up =
        [](const std::string&) {};
    // The daemon's own log; gets one line per call.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Dependencies {
    JobStore& store;
    Blobs& blobs;
    JobFiles& files;
    JobReader& board;  // written only by the Scheduler
    WorkerLauncher& launcher;
    ExportedMetrics& exported_metrics;
    const base::Clock& clock;
    // The machine's state, if users share the machine; null on a dedicated
    // server.
    host::Host* host = nullptr;
    // The users' usage; null if no user has limits of bytes.
    UserLedger* ledger = nullptr;
    // Pins and retention; null disables both.
    KeptJobs* kept = nullptr;
    // Gets the removals; null if nothing is measured.
    MeasuredFolders* folders = nullptr;
    // Keeps the record of a job that is about to be removed; empty: keeps none.
    // ResourceExhausted on a full disk.
    std::function<absl::Status(const std::string& id)> keep_record = {};
  };

  Scheduler(Options options, const Dependencies& dependencies);
  // Kills a running worker without waiting for a checkpoint.
  ~Scheduler() override;

  // Takes over the rows of an earlier daemon; call it before the first Tick.
  // RUNNING rows count as interrupted attempts (CANCELLED if a cancel is
  // stored); a new worker resumes from the last checkpoint by itself. A row
  // that cannot be read becomes FAILED and blocks no other job.
  absl::Status Recover();

  // Starts the next job if the device is free. Returns the time until which no
  // call is needed.
  absl::Time Tick();

  // Accepts no more jobs, starts none and preempts the running job, which
  // returns to QUEUED. Never blocks: if another thread waits for the store with
  // the lock, that thread preempts the worker as soon as the store answers.
  void Drain();
  // Whether no worker runs and everything is stored. Only Tick() makes it true.
  // Never blocks.
  bool Idle() const { return idle_; }

  // --- The API's changes, but for those of remover(); JobReader has its
  // queries. Errors as in proto/mpsd/v1/jobs.proto.
  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request);
  // A running job's worker saves a checkpoint first; with `now` it is killed
  // without a wait. Aborted if the cancel cannot be stored; the worker is asked
  // to end all the same.
  absl::StatusOr<Job> Cancel(const std::string& id, bool now = false);
  // Queues a job that has ended, or makes a running one return to the queue; it
  // resumes from its last checkpoint. With `from_scratch` its checkpoints and
  // results are removed, of a running one before the next attempt.
  // FailedPrecondition for a QUEUED job, and for one that SUCCEEDED, without
  // `from_scratch`; with it for a pinned job and for one whose files an
  // unfinished job needs. `limits`: the caller's, as for Submit.
  absl::StatusOr<Job> Retry(const std::string& id, bool from_scratch = false,
                            const UserLimits& limits = {});

  // The next three are FailedPrecondition for a job that is not QUEUED, and
  // Aborted if the end of its last attempt is not stored yet. Keeps the job
  // from starting; `why`, not empty and human-readable, names the user and the
  // reason.
  absl::StatusOr<Job> Hold(const std::string& id, const std::string& why);
  absl::StatusOr<Job> Release(const std::string& id);
  // `limits`: the caller's. InvalidArgument for a priority beyond them.
  absl::StatusOr<Job> Move(const std::string& id, const MoveTo& to,
                           const UserLimits& limits = {});

  // No further job starts until UndrainQueue, not even after a restart, for the
  // human-readable reason `why`. The running job continues.
  absl::Status DrainQueue(const std::string& why);
  absl::Status UndrainQueue();

  // Takes the result of the check for which the job waits in the view
  // (QueueView::NextToCheck), or why there is none. Makes a job with a fault
  // FAILED, Rejected, and stores the warnings of others; does nothing if the
  // job has started or left the queue.
  void DataChecked(const std::string& id,
                   const absl::StatusOr<DataCheck>& check);

  // Deletes and pins jobs, for users and for the rules of retention.
  JobRemover& remover() { return remover_; }

 private:
  // Holds the lock while one call makes changes. At its end the turn releases
  // the lock and then writes the log lines, publishes the counts, wakes the
  // watchers and requests a Tick, in that order, because each of these may
  // block or call back into the scheduler.
  class ABSL_SCOPED_LOCKABLE Turn {
   public:
    explicit Turn(Scheduler& s) ABSL_EXCLUSIVE_LOCK_FUNCTION(s.mutex_);
    ~Turn() ABSL_UNLOCK_FUNCTION();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Wakes the watchers of the job at the end of the turn.
    void Wake(const std::string& id) { woken_ = id; }
    // Calls Options::on_change at the end of the turn.
    void AskForTick() { wants_tick_ = true; }

   private:
    Scheduler& s_;
    std::string woken_;
    bool wants_tick_ = false;
  };

  // --- Recovery, and the end of the daemon.
  absl::Status RecoverJob(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Loads each owner's use from the store.
  void RestoreUses();
  // Marks as FAILED a row for which Get returned DataLoss.
  void GiveUpRow(const std::string& id, const absl::Status& why);
  void Enqueue(const Job& job, absl::Time since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PreemptForDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK unless the end of the job's last attempt is not stored yet.
  absl::Status CheckStoredEnd(const std::string& id);

  // --- The parts of a tick. Reads the machine's state when that is due, and
  // pauses, preempts or resumes the running job accordingly. Returns the time
  // of the next reading.
  absl::Time ReadHostIfDue();
  // Returns whether the running job has news for its watchers.
  bool ApplyPauseReasons() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the device. False while the attempt runs or its end is not stored.
  bool Reap();
  // Checks waiting jobs for which something has changed. Returns the time of
  // the next check.
  absl::Time LookAtWaiting();
  // Writes the progress that OnProgress held back.
  absl::Time TendAttempt();

  // --- Which job has the device, and for how long. Looks for a queued job that
  // takes the device from the running one.
  absl::Time ConsiderPreemption();
  // That job; nullopt if the running one keeps the device, and then `again` is
  // the time of the next check.
  std::optional<JobQueue::Entry> FindChallenger(absl::Time& again);
  // Whether only the device keeps the job from starting.
  bool CouldStart(const std::string& id);
  void NoteInQueue(const std::string& id, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the running job will have held the device for as long as it may; the
  // infinite past if it already has.
  absl::Time LimitTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration TimeLimitOf(const Job& job) const;
  bool HasTime(const Job& job) const {
    return job.device_time < TimeLimitOf(job);
  }
  // Makes a queued job without device time left FAILED. False, and the queue is
  // held, if the store does not accept that.
  bool FailForTime(const std::string& id);
  // Ends a queued job without an attempt. False as of FailForTime.
  bool FailQueued(Job job, const WorkerListener::Result& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void StoreCheck(const std::string& id, const absl::StatusOr<DataCheck>& check)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Charges job and owner with the device time since the last call.
  void ChargeAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the running attempt is to be charged though nothing is reported.
  absl::Time ChargeTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the use of owners that has faded to nothing.
  void ForgetUses();

  // --- The start of an attempt.
  absl::Time StartNext();
  // Ends the reasons that only an attempt to start a job detects: they would
  // otherwise stay on display.
  void ForgetTries();
  enum class StartResult { kStarted, kPassedOver, kHeld };
  StartResult TryStart(const JobQueue::Entry& entry);
  // Await of a job that is about to start: a job that had succeeded may have
  // been queued again.
  bool StillAwaitsPriors(const Job& job);
  // `spec_json`: the row's new spec; empty: unchanged. `cleared`: whether an
  // earlier attempt's leftovers were removed. `changed`: a warning, or empty.
  absl::Status Start(const JobQueue::Entry& entry, const spec::TrainSpec& spec,
                     const std::string& spec_json, bool cleared,
                     const std::string& changed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes the job from the queue, keeping the turn that it had there.
  void TakeTurn(const std::string& id, Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Launch(const LaunchRequest& request);

  // --- The worker's reports: WorkerListener, on the launcher's thread.
  void OnHello(const Identity& identity) override;
  void OnDevice(const std::string& device) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluated(const jobs::Evaluated& evaluated) override;
  void OnSampled(const report::Sampled& sampled) override;
  void OnCheckpoint(const report::Checkpointed& checkpoint) override;
  void OnHeartbeat(const std::string& stage, double fraction) override;
  void OnWarning(const std::string& text) override;
  void OnHeld() override;
  void OnResumed() override;
  void OnExit(const Result& result) override;
  // The attempt that a worker reports on.
  Attempt& ReportingAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttempt(const Verdict& verdict) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void BlameMachine(const Verdict& verdict, const std::string& text,
                    NextState& next) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes the changes of the attempt that the store lacks, if any.
  bool FlushAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- What others see.
  void ShowAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishCounts();
  // The wall-clock time at which the monotonic clock will show `time`.
  absl::Time WallTime(absl::Duration time) const;

  // --- Users' changes: scheduler_verbs.cc.
  absl::Status Insert(Submitter::NewJob& made, const UserLimits& limits,
                      const FolderClaims::Watch& watch);
  absl::StatusOr<Job> CancelStored(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> CancelAttempt(bool now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // A QUEUED job; `what` states the requirement.
  absl::StatusOr<RunningJob> LoadQueued(const std::string& id,
                                        const std::string& what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores a job that is, or now becomes, QUEUED, and adds it to the queue.
  absl::StatusOr<Job> StoreQueued(RunningJob& run, absl::Time since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time QueuedSince(const std::string& id) const;
  // OK while a job that has ended may enter the queue again.
  absl::Status CheckRunsAgain(const Job& job, const UserLimits& limits);
  // A job that has ended, or the running one.
  absl::StatusOr<Job> LoadToRetry(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> RetryAttempt(bool from_scratch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> RetryFromScratch(const std::string& id,
                                       const UserLimits& limits);

  const Options options_;
  JobStore& store_;
  JobFiles& files_;
  WorkerLauncher& launcher_;
  ExportedMetrics& exported_metrics_;
  const base::Clock& clock_;
  host::Host* const host_;
  UserLedger* const ledger_;
  QueueView& view_;  // the board's view
  EventHub& hub_;    // wakes the waiters of the board

  std::atomic<bool> draining_ = false;
  std::atomic<bool> idle_ = true;
  Journal journal_;
  Relay counts_;
  StartBlockers blockers_;
  PriorGate priors_;
  JobRemover remover_;
  StartChecks checks_;    // only Tick's thread
  HostWatch host_watch_;  // only Tick's thread
  Submitter submitter_;

  mutable absl::Mutex mutex_;
  // The attempt that holds the device; null while the device is free.
  std::unique_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  PauseGate gate_ ABSL_GUARDED_BY(mutex_);
  // The number of consecutive attempts that a fault of the machine ended, and
  // the monotonic time until which the queue waits for the machine.
  int32_t machine_faults_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration machine_wait_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::jobs
