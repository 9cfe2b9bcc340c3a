// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_SCHEDULER_H_
#define MPSD_SERVER_JOBS_SCHEDULER_H_

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
#include "server/jobs/blob_store.h"
#include "server/jobs/collector.h"
#include "server/jobs/exported_metrics.h"
#include "server/jobs/job_board.h"
#include "server/jobs/job_deletion.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_store.h"
#include "server/jobs/journal.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/prior_jobs.h"
#include "server/jobs/submission.h"
#include "server/jobs/user_limits.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The queue of one device: one job at a time, in the order of JobQueue. The
// scheduler has no thread and does no I/O of its own: its owner calls Tick(),
// from one thread, when the time that Tick() returned has come or `on_change`
// was called. Every other method is thread-safe. The dependencies must outlive
// the scheduler.
//
//   Recover(); while (!stop) wait(until = Tick()); Drain(); wait(Idle());
//
// If a disk or a log hangs: the thread that changes a row writes the row under
// the scheduler's lock, so Submit, Cancel, Retry, Tick and the worker's reports
// wait for the store. Drain, Idle and the JobBoard never wait for that lock,
// and the scheduler does not hold it to access files or write log lines.
class Scheduler final : public JobManager,
                        public JobRemover,
                        private WorkerListener {
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
    // The daemon's own log; gets one line per call.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Dependencies {
    JobStore& store;
    BlobStore& blobs;
    JobFiles& files;
    JobBoard& board;  // written only by the Scheduler
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

  Scheduler(Options options, Dependencies dependencies);
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

  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) override;
  absl::StatusOr<Job> Cancel(const std::string& id, bool now = false) override;
  absl::StatusOr<Job> Retry(const std::string& id, bool from_scratch = false,
                            const UserLimits& limits = {}) override;
  absl::StatusOr<int64_t> Delete(const std::string& id) override;
  absl::StatusOr<Job> Hold(const std::string& id,
                           const std::string& why) override;
  absl::StatusOr<Job> Release(const std::string& id) override;
  absl::StatusOr<Job> Move(const std::string& id, const MoveTo& to,
                           const UserLimits& limits = {}) override;
  absl::Status DrainQueue(const std::string& why) override;
  absl::Status UndrainQueue() override;
  absl::Status MayDelete(const std::string& id) override;
  absl::StatusOr<Job> SetPinned(const std::string& id, bool pinned) override;
  absl::StatusOr<int64_t> RemoveJob(const std::string& id,
                                    absl::Time ended) override;
  absl::StatusOr<int64_t> RemoveCheckpoints(const std::string& id,
                                            absl::Time ended) override;

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

  // --- The queue: scheduler.cc. The job that an earlier request with the same
  // idempotency key made, if any.
  absl::StatusOr<std::optional<SubmitResult>> FindEarlier(
      const SubmitRequest& request, const std::string& hash);
  // OK while a job may be made of `request`: a caller waits for it, and mpsd is
  // not stopping.
  absl::Status CheckAccepts(const SubmitRequest& request);
  // Checks a user's limits before the disk is accessed.
  absl::Status CheckLimits(const SubmitRequest& request);
  absl::Status CheckResultBytes(const std::string& owner,
                                const UserLimits& limits);
  absl::Status CountInputs(const SubmitRequest& request);
  // A future job, and what its insertion needs.
  struct NewJob {
    Job job;
    Submission checked;
  };
  // Performs all checks of Submit except the user's limits, and assigns the
  // job's id. Makes no folder and no row.
  absl::StatusOr<NewJob> MakeJob(const SubmitRequest& request,
                                 const std::string& hash);
  absl::Status Insert(Job& job, const UserLimits& limits,
                      const std::string& note,
                      const FolderClaims::Watch& watch);
  MachineMemory Memory() const;

  // --- Jobs that wait for others, or continue from their results:
  // scheduler.cc.
  // Reads the jobs that the submitter may read. `request` must outlive the
  // result.
  FindJob ReadableJobs(const SubmitRequest& request);
  // Job::after of the future job: `named`, the jobs whose results its spec
  // names, and request.after.
  absl::StatusOr<std::vector<std::string>> PriorsOf(
      const SubmitRequest& request, const std::vector<std::string>& named);
  // Whether the queued job waits for others; then the queue keeps it from
  // starting and shows why. The job's entry is in the queue.
  bool AwaitPriors(const Job& job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // AwaitPriors for a job that is about to start: a job that had succeeded may
  // have been queued again.
  bool StillAwaitsPriors(const Job& job);
  // Checks waiting jobs for which something has changed. Returns the time of
  // the next check.
  absl::Time LookAtWaiting();
  // False if the store does not answer.
  bool LookAtWaiting(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HoldForPrior(Job job, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // For a job that is being released: it no longer waits for jobs that did not
  // succeed, but still for those whose results it needs. The caller stores the
  // row.
  absl::Status ForgetFailedPriors(Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Inserts the folders of results into `spec`, the job's, and into its
  // job.json. `spec_json` is the new spec if any was inserted. False, and the
  // job waits, if a result is missing.
  bool TakeResults(const Job& job, spec::TrainSpec& spec,
                   std::string& spec_json);
  absl::Status RecoverJob(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Marks as FAILED a row for which Get returned DataLoss.
  void GiveUpRow(const std::string& id, const absl::Status& why);
  void Enqueue(const Job& job, absl::Time since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Loads each owner's use from the store.
  void RestoreUses();
  void PreemptForDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets why no queued job starts; "" ends that reason. Logs each change.
  void SetStartBlocker(HoldReason reason, const std::string& why);
  // Returns whether a write to the store succeeded, and holds the queue until a
  // later write does.
  bool Stored(const absl::Status& status);
  void PublishCounts();
  void ShowAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- Users' changes to jobs: scheduler_verbs.cc.
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
  absl::StatusOr<Job> HoldLocked(const std::string& id, const std::string& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // OK while a job that has ended may enter the queue again.
  absl::Status CheckRunsAgain(const Job& job, const UserLimits& limits);
  absl::Status CheckRoomForResults(const std::string& id,
                                   const UserLimits& limits);
  // A job that has ended, or the running one.
  absl::StatusOr<Job> LoadToRetry(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> RetryAttempt(bool from_scratch)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> RetryFromScratch(const std::string& id,
                                       const UserLimits& limits);
  // OK if no job needs the checkpoints and results of the job.
  absl::Status CheckIsNotNeeded(const Job& job);
  // Removes the checkpoints and results of a job that does not run.
  absl::Status RemoveRun(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(deletions_);
  // The same before the job's start. False, and the job waits, if that fails.
  bool BeginsFromScratch(const std::string& id);
  // Removes the job from the queue, keeping the turn that it had there.
  void TakeTurn(const std::string& id, Job& job)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool IsDrained() const;
  // --- Removals: scheduler_verbs.cc.
  absl::Status CheckStoredEnd(const std::string& id);
  // Has the record of a job written that is about to be removed. A full disk
  // does not prevent the removal, which frees space.
  void KeepRecord(const std::string& id);
  // Calls `may` once no caller can begin to need the job.
  absl::StatusOr<int64_t> Remove(
      const std::string& id,
      const std::function<absl::Status(const std::string&)>& may);

  // --- The device: scheduler_device.cc. Reads the machine's state when that is
  // due, and pauses, preempts or resumes the running job accordingly. Returns
  // the time of the next reading.
  absl::Time ReadHostIfDue();
  absl::Time NextHostReadTime() const;
  // Logs once which reasons the policy names and this machine cannot show.
  void LogUnobservablePolicies(const host::Reading& reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns whether the running job has news for its watchers.
  bool ApplyPauseReasons() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the device. False while the attempt runs or its end is not stored.
  bool Reap();
  // Writes the progress that OnProgress held back.
  absl::Time TendAttempt();
  // When the running job will have held the device for as long as it may; the
  // infinite past if it already has.
  absl::Time LimitTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Looks for a queued job that takes the device from the running one.
  absl::Time ConsiderPreemption();
  // That job; nullopt if the running one keeps the device, and then `again` is
  // the time of the next check.
  std::optional<JobQueue::Entry> FindChallenger(absl::Time& again);
  // Whether only the device keeps the job from starting.
  bool CouldStart(const std::string& id);
  void NoteInQueue(const std::string& id, const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Time StartNext();
  // Ends the reasons that only an attempt to start a job detects: they would
  // otherwise stay on display.
  void ForgetTries();
  enum class StartResult { kStarted, kPassedOver, kHeld };
  StartResult TryStart(const JobQueue::Entry& entry);
  bool IsReady();
  bool HasItsFiles(const Job& job, const spec::TrainSpec& spec);
  // Keeps the job from starting for a while, and shows why.
  void HoldForPath(const Job& job, const std::string& lacks);
  absl::Duration TimeLimitOf(const Job& job) const;
  bool HasTime(const Job& job) const {
    return job.device_time < TimeLimitOf(job);
  }
  // Makes a queued job without device time left FAILED. False, and the queue is
  // held, if the store does not accept that.
  bool FailForTime(const std::string& id);
  // `spec_json`: the row's new spec; empty: unchanged. `cleared`: whether an
  // earlier attempt's leftovers were removed.
  absl::Status Start(const JobQueue::Entry& entry, const spec::TrainSpec& spec,
                     const std::string& spec_json, bool cleared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LaunchRequest RequestFor(const Job& job, const spec::TrainSpec& spec) const;
  void Launch(const LaunchRequest& request);
  // The wall-clock time at which the monotonic clock will show `time`.
  absl::Time WallTime(absl::Duration time) const;
  // The methods of WorkerListener, called on the launcher's thread.
  void OnHello(const Identity& identity) override;
  void OnDevice(const std::string& device) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluated(const jobs::Evaluated& evaluated) override;
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
  // Charges job and owner with the device time since the last call.
  void ChargeAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // When the running attempt is to be charged though nothing is reported.
  absl::Time ChargeTime() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Forgets the use of owners that has faded to nothing.
  void ForgetUses();
  // Writes the changes of the attempt that the store lacks, if any.
  bool FlushAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Dependencies dependencies_;
  // Only one thread at a time deletes a row, or what a run left. Locked before
  // mutex_ if a thread needs both.
  absl::Mutex deletions_;
  FolderClaims claims_;
  JobIdGenerator ids_;
  QueueView& view_;  // the board's view
  EventHub& hub_;    // wakes the waiters of the board

  Journal journal_;
  Relay counts_;
  WaitingJobs waiting_;
  std::atomic<bool> draining_ = false;
  std::atomic<bool> idle_ = true;

  // A thread that holds this lock may take the worker's, the store's and the
  // view's lock. No thread holds it when it calls the hub or on_change.
  mutable absl::Mutex mutex_;
  // The attempt that holds the device; null while the device is free.
  std::unique_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  PauseGate gate_ ABSL_GUARDED_BY(mutex_);
  // The number of consecutive attempts that a fault of the machine ended, and
  // the monotonic time until which the queue waits for the machine.
  int32_t machine_faults_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration machine_wait_ ABSL_GUARDED_BY(mutex_);

  // Only the thread that calls Tick() uses these.
  std::optional<absl::Duration> host_read_at_;  // monotonic
  PauseReasons logged_unobservable_;            // as last logged
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SCHEDULER_H_
