// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_ATTEMPT_H_
#define MPSD_SERVER_JOBS_ATTEMPT_H_

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/host.h"
#include "server/jobs/job_reader.h"
#include "server/jobs/job_store.h"
#include "server/jobs/journal.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/retry.h"
#include "server/jobs/running_job.h"
#include "server/jobs/worker_launcher.h"

namespace mpsd::jobs {

// One attempt at a job: the row as it changes, the worker, the pause, and what
// the store lacks of all that.
//
//   Start -> kStarting --AttachWorker--> kWorking --End--> kEnded
//            kStarting --End--> kEnded   (no worker, or one that ended first)
//
// Start alone makes one, so that no attempt exists which the store does not
// know of. The worker may report as soon as it is launched, hence in kStarting
// too, and for the last time before End. A call that the phase does not allow
// fails a base::Check.
//
// Not thread-safe: the lock of the scheduler guards it. Destroy an attempt that
// has a worker without that lock: a worker's destructor waits for the thread
// that reports.
class Attempt {
 public:
  enum class Phase { kStarting, kWorking, kEnded };
  struct Options {
    std::string boot_id;        // host::BootId()
    absl::Duration stop_grace;  // for Preempt and Cancel of the worker
  };
  // They must outlive the attempt.
  struct Parts {
    JobStore& store;
    Journal& journal;
    const base::Clock& clock;
    host::Host* host = nullptr;  // kept awake while the worker trains; or null
  };
  // How it ended, and what becomes of the job.
  struct Ending {
    WorkerListener::Result result;
    NextState next;
  };

  // Makes the row of `run` RUNNING and stores it. The store's error: nothing
  // has begun.
  static absl::StatusOr<std::unique_ptr<Attempt>> Start(RunningJob run,
                                                        Options options,
                                                        const Parts& parts);

  Phase phase() const { return phase_; }
  bool ended() const { return phase_ == Phase::kEnded; }
  const Job& job() const { return run_.job(); }
  const std::string& id() const { return run_.job().id; }
  // "mps", "cuda", "cpu"; empty before the first step of the job.
  std::string device() const;

  // --- The worker.
  // Tells `worker` of a cancel that came while it was launched. One that has
  // ended meanwhile is kept only to be destroyed. At most once.
  void AttachWorker(std::unique_ptr<Worker> worker);
  // For a scheduler that ends: nothing is asked of the worker from now on.
  std::unique_ptr<Worker> TakeWorker() { return std::move(worker_); }
  bool has_worker() const { return worker_ != nullptr; }

  // --- What the worker reports; not after End.
  void Progressed(const Progress& progress);
  void Evaluated(const jobs::Evaluated& evaluated);
  // It has its create_time.
  void CheckpointWritten(const Checkpoint& checkpoint,
                         const std::vector<std::string>& removed_paths);
  void Staged(const std::string& stage);
  void Warned(const std::string& text);
  // The worker holds, as it was asked: the machine may sleep from now on. Only
  // while is_paused().
  void Held();
  // Nothing where the pause is over by now.
  void Resumed();

  // --- What is asked of the worker; not after End, but for PreemptForDrain,
  // which does nothing then.
  // Stores the wish, then tells the worker: the first time, and again where it
  // is to be killed `now`. The status is that of the store.
  absl::Status Cancel(bool now);
  // Once, and unless the job is to be cancelled.
  void PreemptForDrain();
  // Asks the worker to hold, to go on, or to give its memory back, as the
  // reasons of `gate` want it. Whether it asked for anything.
  bool ApplyPauseReasons(const PauseGate& gate);
  bool is_paused() const { return pause_.has_value(); }
  // The pause it was asked for, for `reasons`; nothing where none is.
  Pause ShownPause(const PauseReasons& reasons) const;

  // --- The end.
  // What `result` makes of the job by `policy`.
  Ending DecideEnding(const WorkerListener::Result& result,
                      const RetryPolicy& policy) const;
  // Once.
  void End(const Ending& ending);

  // --- The store.
  // Whether the store lacks something of it.
  bool dirty() const { return run_.dirty() || !unstored_.empty(); }
  // Writes what the store lacks. On error that is kept for the next try, but
  // for a checkpoint that the store refuses while it takes the row.
  absl::Status Flush();
  // Since the last Flush, or the start.
  absl::Duration flush_age() const;

 private:
  struct PauseState {
    absl::Duration since;  // monotonic
    absl::Time since_time;
    bool held = false;  // the worker said so
  };
  struct Written {
    Checkpoint checkpoint;
    std::vector<std::string> removed_paths;
  };

  Attempt(RunningJob run, Options options, const Parts& parts);

  // Writes without a word of it in flush_age().
  absl::Status Store();
  void AskToHold(const PauseReasons& reasons);
  void AskToGoOn();
  void AskForMemory(const PauseReasons& reasons);
  // Into the job's events and its log.
  void Note(const std::string& text);
  void KeepAwake();

  const Options options_;
  const Parts parts_;
  Phase phase_ = Phase::kStarting;
  RunningJob run_;
  std::unique_ptr<Worker> worker_;
  absl::Duration flushed_at_;           // monotonic
  std::deque<Written> unstored_;        // checkpoints, oldest first
  std::optional<PauseState> pause_;     // from its beginning to its end
  PauseReasons returned_for_;           // preempted for these, if for any
  bool drained_ = false;                // preempted by PreemptForDrain
  std::unique_ptr<host::Awake> awake_;  // while it trains
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_ATTEMPT_H_
