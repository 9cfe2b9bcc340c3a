// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/limits.h"
#include "core/host/host.h"
#include "server/jobs/attempt_end.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/meters.h"
#include "server/jobs/pause_gate.h"
#include "server/store/job.h"
#include "server/store/job_store.h"

// The life of an attempt: its row (RunningJob), its lines in the logs
// (Journal), its worker and its end (Attempt).
namespace mpsd::jobs {

// Runs work so that one run serves every thread that requested it before the
// run began. One of these threads does the work, one at a time; a thread that
// finds another at work returns at once, so that hanging work blocks only one
// thread. Thread-safe.
class Relay {
 public:
  void Ask() { asked_ = true; }

  // Runs `work` until no request is left, unless another thread does.
  template <typename Work>
  void Run(const Work& work) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    // The loop's last check of asked_ sees a thread that requests while this
    // one is about to leave.
    while (asked_) {
      if (!mutex_.TryLock()) return;
      while (asked_.exchange(false)) work();
      mutex_.Unlock();
    }
  }

 private:
  std::atomic<bool> asked_ = false;
  absl::Mutex mutex_;
};

// Collects log lines where nothing may block; one thread at a time writes them
// later, in order. Thread-safe.
class Journal {
 public:
  // `id`: the job whose log gets the line too, or empty.
  using Sink =
      std::function<void(const std::string& id, const std::string& line)>;
  // The maximum number of lines that wait for a hanging log; Add drops further
  // lines, and Write reports their number.
  static constexpr size_t kMostWaiting = 10'000;

  explicit Journal(Sink sink) : sink_(std::move(sink)) {}

  // Never blocks.
  void Add(std::string id, std::string line);
  // Writes the waiting lines, unless another thread does so now. Call it
  // without a lock held.
  void Write();

 private:
  struct Line {
    std::string id, text;
  };
  void WriteWaiting();

  const Sink sink_;
  Relay relay_;
  absl::Mutex mutex_;
  std::deque<Line> waiting_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The row of a job during an attempt, and the events that the store does not
// have yet. Each method changes the row in memory; Flush() writes the row with
// its events in one transaction. Not thread-safe.
class RunningJob {
 public:
  // Bounds of a row, whatever a worker sends.
  static constexpr size_t kMostWarnings = limits::kWarnings;
  static constexpr size_t kLongestWarning = limits::kWarningBytes;

  // Reads the job's last event and checkpoint from `store`. Returns the store's
  // error.
  static absl::StatusOr<RunningJob> Load(JobStore& store, Job job);

  // `last_sequence`: the sequence of the job's last stored event;
  // `last_checkpoint`: the highest step among its checkpoints, 0 for none.
  RunningJob(Job job, int64_t last_sequence, int64_t last_checkpoint);

  const Job& job() const { return job_; }
  // Whether a step of this attempt was reported.
  bool has_stepped() const { return began_; }

  // Begins the next attempt; `boot_id` identifies the machine's boot.
  void Start(const std::string& boot_id, absl::Time now);
  void CancelRequested() {
    job_.cancel_requested = true;
    dirty_ = true;
  }
  // Records a step, with tokens per second and ETA. If an attempt's first step
  // is beyond every known checkpoint, an earlier worker wrote a newer
  // checkpoint while no daemon ran. Between two flushes only the latest
  // progress becomes an event. The first time that an operator runs on the CPU
  // is a separate event.
  void Progressed(Progress progress, absl::Time now);
  void Evaluated(const Evaluated& evaluated, absl::Time now);
  // A step beyond every earlier checkpoint resets the counts of failures and
  // interruptions.
  void Sampled(const report::Sampled& sampled, absl::Time now);
  void CheckpointWritten(const Checkpoint& checkpoint);
  // Adds a human-readable event if `stage` differs from the stage before and is
  // not report::kStageSaving.
  void Staged(const std::string& stage, absl::Time now);
  // Adds a human-readable event.
  void Noted(const std::string& text, absl::Time now);
  // A problem with which the run continues. A text that is new to the job
  // becomes an event and is kept in the row, cut to kLongestWarning; the last
  // of kMostWarnings says that there were more.
  void Warned(const std::string& text, absl::Time now);
  // Records how the attempt ended, and the job's next state.
  void Ended(const WorkerListener::Result& result, const NextState& next,
             absl::Time now);
  // A user requested the job again after its end: QUEUED, with every count at
  // zero. The next attempt resumes from the job's checkpoints.
  void Retried(absl::Time now);
  // Replaces the spec, in which the results of other jobs have replaced their
  // names.
  void Respecified(const std::string& spec_json);
  // As Retried, but from scratch: the row forgets the results of earlier
  // attempts, and the next attempt is to find no checkpoint (Job::fresh).
  void Renewed(absl::Time now);
  // The same for a RUNNING job, which forgets its results once it is QUEUED.
  void RenewLater() {
    job_.fresh = true;
    dirty_ = true;
  }
  // Users' changes to a queued job, each also an event. Held replaces an
  // earlier reason, and `why` is not empty.
  void Held(const std::string& why, absl::Time now);
  // `after`: the new Job::after.
  void Released(std::vector<std::string> after, absl::Time now);
  void MovedTo(int64_t place, bool among_all, int32_t priority,
               const std::string& text, absl::Time now);
  // Adds `used` to the job's device time. The next Flush stores it together
  // with `use`, its owner's use by then, if any.
  void Charged(absl::Duration used, std::optional<OwnerUse> use);
  // Moves the job to `state` without a worker's report.
  void Moved(State state, const std::string& message, absl::Time now);

  bool dirty() const { return dirty_; }
  // On error row and events are kept for the next attempt to write them.
  absl::Status Flush(JobStore& store);

 private:
  template <typename Body>
  void Add(Body body, absl::Time now);

  void Reached(const Outcome& outcome);
  void ForgetRun();
  // Makes the progress that of the checkpoint from which the job resumes.
  void CountFromCheckpoint();
  void Saved(int64_t step);

  Job job_;
  int64_t last_sequence_;
  bool began_ = false;  // a step of this attempt was reported
  std::string stage_;
  StepRate rate_;
  std::optional<OwnerUse> unsaved_use_;
  std::vector<Event> unsaved_;
  bool dirty_ = false;
};

// One attempt at a job: the row as it changes, the worker, the pause, and the
// changes that the store does not have yet.
//
//   Start -> kStarting --AttachWorker--> kWorking --End--> kEnded
//            kStarting --End--> kEnded   (no worker, or one that ended first)
//
// Only Start makes an attempt, so the store knows of every attempt that exists.
// The worker may report from its launch on, hence in kStarting too, until End.
// A call that the phase does not allow fails a base::Check.
//
// Not thread-safe: the scheduler's lock guards the attempt. Destroy an attempt
// that has a worker without holding the lock: a worker's destructor waits for
// the thread that reports.
class Attempt {
 public:
  enum class Phase { kStarting, kWorking, kEnded };
  struct Options {
    std::string boot_id;  // host::BootId()
    // Between asking the worker to end and killing it
    absl::Duration stop_grace;
    // As base::AwakeTime: how long the worker could work.
    std::function<absl::Duration()> awake_time = base::AwakeTime;
  };
  // The dependencies must outlive the attempt.
  struct Dependencies {
    JobStore& store;
    Journal& journal;
    const base::Clock& clock;
    host::Host* host = nullptr;  // kept awake while the worker trains; or null
  };
  // How the attempt ended, and the job's next state.
  struct Ending {
    WorkerListener::Result result;
    NextState next;
  };

  // Makes the row of `run` RUNNING and stores it. Returns the store's error, in
  // which case nothing has begun.
  static absl::StatusOr<std::unique_ptr<Attempt>> Start(
      RunningJob run, Options options, const Dependencies& dependencies);

  Phase phase() const { return phase_; }
  bool ended() const { return phase_ == Phase::kEnded; }
  const Job& job() const { return run_.job(); }
  const std::string& id() const { return run_.job().id; }
  // "mps", "cuda" or "cpu"; empty before the worker has reported it.
  const std::string& device() const { return device_; }

  // --- The worker. Takes `worker`, and passes on a cancel that came during the
  // launch. A worker that has ended meanwhile is kept only to be destroyed.
  // Called at most once.
  void AttachWorker(std::unique_ptr<Worker> worker);
  // Called when the scheduler itself ends; the attempt makes no further
  // requests to the worker.
  std::unique_ptr<Worker> TakeWorker() { return std::move(worker_); }
  bool has_worker() const { return worker_ != nullptr; }

  // --- What the worker reports; not after End.
  void DeviceOpened(const std::string& device);
  void Progressed(const Progress& progress);
  void Evaluated(const jobs::Evaluated& evaluated);
  void Sampled(const report::Sampled& sampled);
  // `checkpoint` has its create_time set.
  void CheckpointWritten(const Checkpoint& checkpoint);
  void Staged(const std::string& stage);
  void Warned(const std::string& text);
  // The worker holds, as requested: the machine may sleep from now on. Called
  // only while is_paused().
  void Held();
  // Does nothing if the pause is already over.
  void Resumed();

  // --- Requests to the worker; not after End, except PreemptForDrain, which
  // does nothing then. Stores the cancel, then asks the worker: on the first
  // call for a checkpoint and its end, and again on a call with `now`, which
  // kills the worker. Returns the store's status.
  absl::Status Cancel(bool now);
  // Also bounds the time that a cancelled job has. Repeating it does nothing.
  void PreemptForDrain();
  // Stores that the job is to run again, then asks the worker for a checkpoint
  // and the device. Repeating it changes nothing, except that `from_scratch`
  // may come later. Returns the store's status. Only for a job that is not
  // being cancelled.
  absl::Status RunAgain(bool from_scratch);
  // Asks the worker for a checkpoint and the device, because job `id` has a
  // higher priority. Called only while may_be_stopped().
  void GiveWay(const std::string& id, int32_t priority);
  // The same, permanently: the job held the device for `limit`.
  void StopForTime(absl::Duration limit);
  // Whether the worker works and was not asked to end or to hold.
  bool may_be_stopped() const;
  // Asks the worker to hold, to resume, or to free its memory, as the reasons
  // of `gate` require. Returns whether it made a request.
  bool ApplyPauseReasons(const PauseGate& gate);
  bool is_paused() const { return pause_.has_value(); }
  // The pause that the worker was asked for, shown with `reasons`; empty if
  // there is none.
  Pause ShownPause(const PauseReasons& reasons) const;

  // --- The end. The job's next state after `result`, by `policy`.
  Ending DecideEnding(const WorkerListener::Result& result,
                      const RetryPolicy& policy) const;
  // Called once.
  void End(const Ending& ending);

  // --- The device, which the attempt holds from its start to its end. The time
  // that it held the device, without pauses, since the last call.
  absl::Duration TakeUse();
  // Adds what TakeUse returned to the row. `use`: its owner's use by now.
  void Charge(absl::Duration used, std::optional<OwnerUse> use);
  // Whether device time passes: the worker neither holds nor has ended.
  bool is_measured() const { return meter_.is_running(); }
  // The device time of all the job's attempts until now.
  absl::Duration DeviceTime() const;
  // What decides whether another job takes the device.
  Holder holder() const;

  // --- The store. Whether the store lacks a change of this attempt.
  bool dirty() const { return run_.dirty() || !unstored_.empty(); }
  // Writes the changes that the store lacks. On error they are kept for the
  // next call, except a checkpoint that the store refuses while it accepts the
  // row.
  absl::Status Flush();
  // The time since the last Flush, or since the start.
  absl::Duration flush_age() const;

 private:
  struct PauseState {
    absl::Duration since;  // monotonic
    absl::Time since_time;
    bool held = false;  // the worker reported Held
  };

  Attempt(RunningJob run, Options options, const Dependencies& dependencies);

  // Like Flush, but does not reset flush_age().
  absl::Status Store();
  void AskToHold(const PauseReasons& reasons);
  void AskToResume();
  void AskForMemory(const PauseReasons& reasons);
  // How long the worker may take to the end of its step and the checkpoint.
  absl::Duration StepGrace() const;
  bool is_ending() const;  // the worker was asked to end, or has ended
  // Adds `text` to the job's events and its log.
  void Note(const std::string& text);
  void KeepAwake();

  const Options options_;
  const Dependencies dependencies_;
  Phase phase_ = Phase::kStarting;
  RunningJob run_;
  std::unique_ptr<Worker> worker_;
  absl::Duration flushed_at_;  // monotonic
  DeviceMeter meter_;
  absl::Duration taken_;             // of what the meter measured, by TakeUse
  std::deque<Checkpoint> unstored_;  // oldest first
  // Set from the pause's beginning to its end
  std::optional<PauseState> pause_;
  PauseReasons returned_for_;  // the worker was preempted for these, if any
  bool drained_ = false;       // preempted by PreemptForDrain
  bool runs_again_ = false;    // preempted by RunAgain
  std::string gives_way_to_;   // the words for GiveWay's job; "" for none
  std::optional<absl::Duration> time_limit_;  // StopForTime's
  std::string device_;
  std::unique_ptr<host::Awake> awake_;  // set while the worker trains
};

}  // namespace mpsd::jobs
