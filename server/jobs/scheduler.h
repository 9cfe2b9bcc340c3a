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
#include "server/jobs/blob_store.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/exported_metrics.h"
#include "server/jobs/hold.h"
#include "server/jobs/job_board.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_store.h"
#include "server/jobs/journal.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/queue_view.h"
#include "server/jobs/relay.h"
#include "server/jobs/retry.h"
#include "server/jobs/submission.h"
#include "server/jobs/verdict.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The queue of one device: one job at a time, FIFO within priority. The
// scheduler has no thread and does no I/O of its own: its owner calls Tick(),
// from one thread, when the time that Tick() returned has come or `on_change`
// was called. Every other method is thread-safe. The dependencies must outlive
// the scheduler.
//
//   Recover(); while (!stop) wait(until = Tick()); Drain(); wait(Idle());
//
// When a disk or a log hangs: the thread that changes a row writes the row
// under the scheduler's lock, so Submit, Cancel, Retry, Tick and the worker's
// reports wait for the store. Drain, Idle and the JobBoard never wait for that
// lock, and the scheduler holds it neither to look at files nor to write log
// lines.
class Scheduler final : public JobManager, private WorkerListener {
 public:
  struct Options {
    absl::Duration hang_timeout = absl::Minutes(10);
    // Between asking a worker to end and killing it
    absl::Duration stop_grace = absl::Minutes(2);
    // Steps that finish within this time share one event and one transaction.
    absl::Duration progress_interval = absl::Milliseconds(200);
    // The time between two tries while the device or the database is not
    // available.
    absl::Duration poll_interval = absl::Seconds(1);
    // No job starts while the state folder's disk has fewer free bytes.
    int64_t min_free_bytes = 0;
    // The memory of this machine in bytes; 0 where it is not known.
    int64_t machine_bytes = 0;
    std::string boot_id;  // host::BootId()
    RetryPolicy retry;
    PausePolicy pause;
    // How often Tick() reads the machine's state.
    absl::Duration host_interval = absl::Seconds(5);
    JobIdGenerator::Random random = JobIdGenerator::SystemRandom();
    // Called when Tick() has something to do. Called on any thread, so it must
    // not block.
    std::function<void()> on_change = [] {};
    // The daemon's own log; gets one line a call.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };
  struct Dependencies {
    JobStore& store;
    BlobStore& blobs;
    JobFiles& files;
    JobBoard& board;  // written by the Scheduler alone
    WorkerLauncher& launcher;
    ExportedMetrics& exported_metrics;
    const base::Clock& clock;
    // The machine's state, if people share the machine; null on a dedicated
    // server.
    host::Host* host = nullptr;
  };

  Scheduler(Options options, Dependencies dependencies);
  // Kills a running worker without waiting for a checkpoint.
  ~Scheduler() override;

  // Takes over the rows of an earlier daemon; call it before the first Tick.
  // RUNNING rows count as interrupted attempts (CANCELLED where a cancel is
  // stored); a new worker resumes from the last checkpoint by itself. A row
  // that cannot be read becomes FAILED and blocks no other job.
  absl::Status Recover();

  // Starts the next job if the device is free. Returns the time until which no
  // call is needed.
  absl::Time Tick();

  // Replaces Options::pause, from the next reading of the machine on.
  void SetPausePolicy(PausePolicy policy);

  // Takes no more jobs, starts none and preempts the running job, which returns
  // to QUEUED. Never blocks: where another thread waits for the store with the
  // lock, that thread preempts the worker as soon as the store answers.
  void Drain();
  // Whether no worker runs and everything is stored. Only Tick() makes it true.
  // Never blocks.
  bool Idle() const { return idle_; }

  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) override;
  absl::StatusOr<Job> Cancel(const std::string& id, bool now = false) override;
  absl::StatusOr<Job> Retry(const std::string& id) override;
  absl::StatusOr<int64_t> Delete(const std::string& id) override;

 private:
  // Holds the lock while one call changes things. At its end the turn releases
  // the lock and then writes the log lines, publishes the counts, wakes the
  // watchers and asks for a Tick, in that order, because each of these may
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
  // OK while a job may be made of `request`: somebody waits for the job, and
  // mpsd does not stop.
  absl::Status CheckAccepts(const SubmitRequest& request);
  absl::Status Insert(const Job& job, const std::string& note);
  MachineMemory Memory() const;
  absl::Status RecoverJob(const std::string& id);
  // Marks a row as FAILED for which Get returned DataLoss.
  void GiveUpRow(const std::string& id, const absl::Status& why);
  void Enqueue(const Job& job, absl::Time since);
  absl::StatusOr<Job> CancelStored(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> CancelAttempt(bool now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PreemptForDrain() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets why no queued job starts; "" ends that reason. Logs each change.
  void SetStartBlocker(HoldReason reason, const std::string& why);
  // Returns whether a write to the store succeeded, and holds the queue until a
  // later write does.
  bool Stored(const absl::Status& status);
  void PublishCounts();
  void ShowAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // --- The device: scheduler_device.cc. Reads the machine's state when that is
  // due, and pauses, preempts or resumes the running job by it. Returns the
  // time of the next reading.
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
  absl::Time StartNext();
  enum class StartResult { kStarted, kPassedOver, kHeld };
  StartResult TryStart(const JobQueue::Entry& entry);
  bool IsReady();
  bool HasItsFiles(const Job& job, const spec::TrainSpec& spec);
  absl::Status Start(const JobQueue::Entry& entry, const spec::TrainSpec& spec)
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
  // Writes the changes of the attempt that the store lacks, if any.
  bool FlushAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const Dependencies dependencies_;
  absl::Mutex deletions_;  // only one thread deletes a row at a time
  JobIdGenerator ids_;
  QueueView& view_;  // the board's view
  EventHub& hub_;    // wakes those who wait at the board

  Journal journal_;
  Relay counts_;
  std::atomic<bool> draining_ = false;
  std::atomic<bool> idle_ = true;

  // A thread that holds this lock may take the worker's, the store's and the
  // view's lock. No thread holds it when it calls the hub or on_change.
  mutable absl::Mutex mutex_;
  // The attempt that holds the device; null while the device is free.
  std::unique_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  PauseGate gate_ ABSL_GUARDED_BY(mutex_);
  // The number of attempts in a row that a fault of the machine ended, and the
  // monotonic time until which the queue waits for the machine.
  int32_t machine_faults_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Duration machine_wait_ ABSL_GUARDED_BY(mutex_);

  // Only the thread that calls Tick() uses these.
  std::optional<absl::Duration> host_read_at_;  // monotonic
  PauseReasons logged_unobservable_;            // as the log last said
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SCHEDULER_H_
