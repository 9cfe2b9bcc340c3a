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
#include "server/jobs/attempt.h"
#include "server/jobs/blob_store.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/hold.h"
#include "server/jobs/job_board.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_store.h"
#include "server/jobs/journal.h"
#include "server/jobs/metrics_sink.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/queue_view.h"
#include "server/jobs/relay.h"
#include "server/jobs/retry.h"
#include "server/jobs/submission.h"
#include "server/jobs/verdict.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The queue of one device: one job at a time, FIFO within priority. It has no
// thread and does no I/O of its own: whoever owns it calls Tick() when the
// time that Tick() returned has come or `on_change` was called, from one
// thread. Everything else is thread-safe. The parts must outlive it.
//
//   Recover(); while (!stop) wait(until = Tick()); Drain(); wait(Idle());
//
// A disk or a log that hangs: rows are written under the lock of what changes
// them, so Submit, Cancel, Retry, Tick and the worker's reports wait for the
// store. Nothing else does: Drain, Idle and the JobBoard never take that lock,
// files are looked at and lines are written without it.
class Scheduler final : public JobManager, private WorkerListener {
 public:
  struct Options {
    absl::Duration hang_timeout = absl::Minutes(10);
    absl::Duration stop_grace = absl::Minutes(2);  // for Preempt and Cancel
    // Steps finished within it share one event and one transaction.
    absl::Duration progress_interval = absl::Milliseconds(200);
    // Between tries while the device or the database is not to be had.
    absl::Duration poll_interval = absl::Seconds(1);
    // No job starts with less of the state folder's disk free.
    int64_t min_free_bytes = 0;
    // The memory of this machine; 0 where that is not known.
    int64_t machine_bytes = 0;
    std::string boot_id;  // host::BootId()
    RetryPolicy retry;
    PausePolicy pause;
    // How often the machine is looked at.
    absl::Duration host_interval = absl::Seconds(5);
    JobIdGenerator::Random random = JobIdGenerator::SystemRandom();
    // Tick() has something to do. Any thread, must not block.
    std::function<void()> on_change = [] {};
    // The daemon's own log, one line each.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Parts {
    JobStore& store;
    BlobStore& blobs;
    JobFiles& files;
    JobBoard& board;  // kept up to date by the Scheduler alone
    WorkerLauncher& launcher;
    MetricsSink& metrics;
    const base::Clock& clock;
    // The machine that jobs share with people; null: a server of its own.
    host::Host* host = nullptr;
  };

  Scheduler(Options options, Parts parts);
  // Kills a running worker without waiting for a checkpoint.
  ~Scheduler() override;

  // Takes over what an earlier daemon left, before the first Tick: RUNNING rows
  // are interrupted attempts (CANCELLED where that was asked); the worker
  // resumes from its last checkpoint by itself. A row that cannot be read is
  // FAILED and stops nobody.
  absl::Status Recover();

  // Starts the next job if the device is free. Nothing need happen before the
  // time it returns.
  absl::Time Tick();

  // In the place of Options::pause, from the next look at the machine on.
  void SetPausePolicy(PausePolicy policy);

  // Takes no more jobs, starts none and preempts the running one, which goes
  // back to QUEUED. Never blocks: where the store hangs, the worker is asked as
  // soon as it does not.
  void Drain();
  // No worker runs and everything is stored. Only Tick() makes it so. Never
  // blocks.
  bool Idle() const { return idle_; }

  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) override;
  absl::StatusOr<Job> Cancel(const std::string& id, bool now = false) override;
  absl::StatusOr<Job> Retry(const std::string& id) override;
  absl::StatusOr<int64_t> Delete(const std::string& id) override;

 private:
  // The lock, for as long as one call changes things. What the call left to be
  // said, counted, asked and told is done at its end, in that order and without
  // the lock.
  class ABSL_SCOPED_LOCKABLE Turn {
   public:
    explicit Turn(Scheduler& s) ABSL_EXCLUSIVE_LOCK_FUNCTION(s.mutex_);
    ~Turn() ABSL_UNLOCK_FUNCTION();
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

    // Who watches the job is woken.
    void Wake(const std::string& id) { woken_ = id; }
    // Options::on_change is called.
    void AskForTick() { wants_tick_ = true; }

   private:
    Scheduler& s_;
    std::string woken_;
    bool wants_tick_ = false;
  };

  // --- The queue: scheduler.cc.
  // The job that the key of `request` made before, if any.
  absl::StatusOr<std::optional<SubmitResult>> FindEarlier(
      const SubmitRequest& request, const std::string& hash);
  // Whether a job may be made of `request`: somebody waits for it, and mpsd
  // does not stop.
  absl::Status Takes(const SubmitRequest& request);
  absl::Status Insert(const Job& job, const std::string& note);
  MachineMemory Memory() const;
  absl::Status RecoverJob(const std::string& id);
  // For a Get that said DataLoss.
  void GiveUpRow(const std::string& id, const absl::Status& why);
  void Enqueue(const Job& job, absl::Time since);
  absl::StatusOr<Job> CancelStored(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> CancelAttempt(bool now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> RetryStored(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PreemptForDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Why no queued job starts; "": that reason is over. Logged when it changes.
  void SetStartBlocker(HoldReason reason, const std::string& why);
  // Whether a write to the store succeeded: holds the queue while none does.
  bool Stored(const absl::Status& status);
  void PublishCounts();
  void ShowAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Into the daemon's log and the job's, once nothing is locked.
  void Log(const std::string& id, const std::string& line);

  // --- The device: scheduler_device.cc.
  // Holds, returns or lets go the running job where the machine asks for it.
  // Returns when it is to be called again.
  absl::Time ReadHostIfDue();
  absl::Time NextHostReadTime() const;
  // Says once what the policy asks for and this machine cannot tell.
  void LogUnobservablePolicies(const host::Reading& reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the running job has news for its watchers.
  bool ApplyPauseReasons() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Frees the device. False while the attempt is not over or not stored.
  bool Reap();
  // Writes what OnProgress held back.
  absl::Time TendAttempt();
  absl::Time StartNext();
  enum class Tried { kStarted, kPassedOver, kHeld };
  Tried TryStart(const JobQueue::Entry& entry);
  bool IsReady();
  bool HasItsFiles(const Job& job);
  absl::Status Start(const JobQueue::Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  LaunchRequest RequestFor(const Job& job) const;
  void Launch(const LaunchRequest& request);
  // The time of day at which the monotonic clock shows `time`.
  absl::Time WallTime(absl::Duration time) const;
  // WorkerListener, on the launcher's thread.
  void OnHello(const Identity& identity) override;
  void OnProgress(const Progress& progress) override;
  void OnEvaluated(const jobs::Evaluated& evaluated) override;
  void OnCheckpoint(const Checkpoint& checkpoint,
                    const std::vector<std::string>& removed_paths) override;
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
  // Writes what the store lacks of the attempt, if anything.
  bool FlushAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Parts parts_;
  absl::Mutex deletions_;  // one row is deleted at a time
  JobIdGenerator ids_;
  QueueView& view_;  // what the board shows
  EventHub& hub_;    // who waits at the board

  Journal journal_;
  Relay counts_;
  std::atomic<bool> draining_ = false;
  std::atomic<bool> idle_ = true;

  // Taken before the worker's own lock, the store's and the view's, never while
  // the hub or on_change is called.
  mutable absl::Mutex mutex_;
  // Holds the device; null while that is free.
  std::unique_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  PauseGate gate_ ABSL_GUARDED_BY(mutex_);
  // Ends of attempts in a row that were the machine's fault, and until when
  // (monotonic) the queue waits for that.
  int32_t machine_faults_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration machine_wait_ ABSL_GUARDED_BY(mutex_);

  // Only the thread that calls Tick() uses these.
  std::optional<absl::Duration> host_read_at_;  // monotonic
  PauseReasons logged_unobservable_;            // as last said in the log
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SCHEDULER_H_
