// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_SCHEDULER_H_
#define MPSD_SERVER_JOBS_SCHEDULER_H_

#include <cstdint>
#include <functional>
#include <map>
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
#include "server/jobs/event_hub.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_id.h"
#include "server/jobs/job_manager.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/metrics_sink.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/retry.h"
#include "server/jobs/running_job.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// The queue of one device: one job at a time, FIFO within priority. It has no
// thread and does no I/O of its own: whoever owns it calls Tick() when the
// time that Tick() returned has come or `on_change` was called, from one
// thread. Everything else is thread-safe. The parts must outlive it.
//
//   Recover(); while (!stop) wait(until = Tick()); Drain(); wait(Idle());
class Scheduler final : public JobManager, private WorkerListener {
 public:
  struct Options {
    absl::Duration hang_timeout = absl::Minutes(10);
    absl::Duration stop_grace = absl::Minutes(2);  // of Preempt and Cancel
    // Steps finished within it share one event and one transaction.
    absl::Duration progress_interval = absl::Milliseconds(200);
    // Between tries while the device or the database is not to be had.
    absl::Duration poll_interval = absl::Seconds(1);
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
  // go back to QUEUED (CANCELLED where that was asked); the worker resumes from
  // its last checkpoint by itself.
  absl::Status Recover();

  // Starts the next job if the device is free. Nothing need happen before the
  // time it returns.
  absl::Time Tick();

  // Takes no more jobs, starts none and preempts the running one, which goes
  // back to QUEUED.
  void Drain();
  // No worker runs and everything is stored. Only Tick() makes it so.
  bool Idle() const;

  absl::StatusOr<SubmitResult> Submit(const SubmitRequest& request) override;
  absl::StatusOr<Job> Get(const std::string& id) override;
  absl::StatusOr<std::vector<Job>> List(const ListFilter& filter) override;
  absl::StatusOr<Job> Cancel(const std::string& id) override;
  absl::StatusOr<std::vector<Checkpoint>> Checkpoints(
      const std::string& id) override;
  std::optional<int32_t> QueuePosition(const std::string& id) override;
  Pause PauseOf(const std::string& id) override;
  absl::StatusOr<std::vector<Event>> Events(const std::string& id,
                                            int64_t after) override;
  int64_t Subscribe(const std::string& id, std::function<void()> wake) override;
  void Unsubscribe(int64_t token) override;
  ManagerInfo Info() override;
  std::string LogPath(const std::string& id) const override;
  std::string JobFolder(const std::string& id) const override;

 private:
  // The attempt that holds the device.
  struct Attempt {
    RunningJob run;
    std::unique_ptr<Worker> worker;  // null when it could not be started
    absl::Duration flushed_at;       // monotonic
    bool ended = false;
    // Of its pause, if it has one now.
    struct Paused {
      absl::Duration since;  // monotonic
      absl::Time since_time;
      bool held = false;  // the worker said so
    };
    std::optional<Paused> paused;
    PauseReasons returned_for;  // preempted for these
    // While it trains.
    std::unique_ptr<host::Awake> awake;
  };

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

  // The job that the key of `request` made before, if any.
  absl::StatusOr<std::optional<SubmitResult>> FindEarlier(
      const SubmitRequest& request, const std::string& hash);
  absl::Status Insert(const Job& job, const std::string& note);

  absl::StatusOr<RunningJob> LoadRun(Job job);
  absl::Status RecoverJob(Job job);
  // False while the last attempt is not over or not stored.
  bool Reap();
  // Writes what OnProgress held back.
  absl::Time TendAttempt();
  absl::Time StartNext();
  // scheduler_pause.cc: looks at the machine when that is due, and holds,
  // returns or lets go the running job. The time of the next look.
  absl::Time HeedHost();
  absl::Time LookAgain() const;
  void TellUntold(const host::Reading& reading)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether the job has news.
  bool HeedReasons() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PauseAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ResumeAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReturnAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void KeepAwake() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteAttempt(const std::string& text)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Pause AttemptPause() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the launcher is not ready for; "": nothing. Logged when it changes.
  void Hold(const std::string& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Start(const JobQueue::Entry& entry)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Launch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAttempt(const Result& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Job> CancelStored(const std::string& id)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CancelAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Enqueue(const Job& job, absl::Time since)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FlushAttempt() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PublishCounts();
  std::string Device() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Into the daemon's log and the job's.
  void Log(const std::string& id, const std::string& line);

  const Options options_;
  const Parts parts_;
  JobIdGenerator ids_;
  EventHub hub_;

  // Taken before the worker's own lock and the store's, never while the hub or
  // on_change is called.
  mutable absl::Mutex mutex_;
  JobQueue queue_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<Attempt> attempt_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  ManagerInfo info_ ABSL_GUARDED_BY(mutex_);  // without jobs
  PauseGate gate_ ABSL_GUARDED_BY(mutex_);

  // Of Tick's thread.
  std::optional<absl::Duration> host_read_at_;  // monotonic
  std::optional<PauseReasons> untold_;          // as last said in the log
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_SCHEDULER_H_
