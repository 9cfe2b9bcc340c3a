// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_ATTEMPT_H_
#define MPSD_SERVER_JOBS_ATTEMPT_H_

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/awake_time.h"
#include "core/base/clock.h"
#include "core/host/host.h"
#include "server/jobs/device_meter.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/job_store.h"
#include "server/jobs/journal.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/preemption.h"
#include "server/jobs/retry.h"
#include "server/jobs/running_job.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

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
  // "mps", "cuda" or "cpu"; empty before the worker has told it.
  const std::string& device() const { return device_; }

  // --- The worker. Takes `worker`, and tells the worker of a cancel that came
  // during the launch. A worker that has ended meanwhile is kept only to be
  // destroyed. Called at most once.
  void AttachWorker(std::unique_ptr<Worker> worker);
  // Called when the scheduler itself ends; the attempt asks nothing more of the
  // worker.
  std::unique_ptr<Worker> TakeWorker() { return std::move(worker_); }
  bool has_worker() const { return worker_ != nullptr; }

  // --- What the worker reports; not after End.
  void DeviceOpened(const std::string& device);
  void Progressed(const Progress& progress);
  void Evaluated(const jobs::Evaluated& evaluated);
  // `checkpoint` has its create_time set.
  void CheckpointWritten(const Checkpoint& checkpoint);
  void Staged(const std::string& stage);
  void Warned(const std::string& text);
  // The worker holds, as it was asked: the machine may sleep from now on.
  // Called only while is_paused().
  void Held();
  // Does nothing where the pause is over by now.
  void Resumed();

  // --- What is asked of the worker; not after End, but for PreemptForDrain,
  // which does nothing then. Stores the cancel, then tells the worker: on the
  // first call, and again on a call with `now`, which kills the worker. Returns
  // the store's status.
  absl::Status Cancel(bool now);
  // Called once, and only for a job that is not to be cancelled.
  void PreemptForDrain();
  // Stores that the job is to run again, then asks the worker for a checkpoint
  // and the device. Asking again changes nothing, but that `from_scratch` may
  // come later. Returns the store's status. Only for a job that is not to be
  // cancelled.
  absl::Status RunAgain(bool from_scratch);
  // Asks the worker for a checkpoint and the device, because job `id` has a
  // higher priority. Called only while may_be_stopped().
  void GiveWay(const std::string& id, int32_t priority);
  // The same, for good: the job held the device for `limit`.
  void StopForTime(absl::Duration limit);
  // Whether the worker works and was not asked to end or to hold.
  bool may_be_stopped() const;
  // Asks the worker to hold, to go on, or to give its memory back, as the
  // reasons of `gate` require. Returns whether it asked for anything.
  bool ApplyPauseReasons(const PauseGate& gate);
  bool is_paused() const { return pause_.has_value(); }
  // The pause that the worker was asked for, shown with `reasons`; empty where
  // there is none.
  Pause ShownPause(const PauseReasons& reasons) const;

  // --- The end. The job's next state after `result`, by `policy`.
  Ending DecideEnding(const WorkerListener::Result& result,
                      const RetryPolicy& policy) const;
  // Called once.
  void End(const Ending& ending);

  // --- The device, which the attempt holds from its start to its end. The
  // time that it held the device, without pauses, since the last call.
  absl::Duration TakeUse();
  // Adds what TakeUse returned to the row. `use`: what its owner used by now.
  void Charge(absl::Duration used, std::optional<OwnerUse> use);
  // Whether time passes on the device: the worker neither holds nor has ended.
  bool is_measured() const { return meter_.is_running(); }
  // The device time of all the job's attempts until now.
  absl::Duration DeviceTime() const;
  // What decides whether another job takes the device.
  Holder holder() const;

  // --- The store. Whether the store lacks a change of this attempt.
  bool dirty() const { return run_.dirty() || !unstored_.empty(); }
  // Writes the changes that the store lacks. On error they are kept for the
  // next try, except a checkpoint that the store refuses while it accepts the
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
  void AskToGoOn();
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

#endif  // MPSD_SERVER_JOBS_ATTEMPT_H_
