// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_WORKER_LAUNCHER_H_
#define MPSD_SERVER_JOBS_WORKER_LAUNCHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/job.h"

namespace mpsd::jobs {

// How long the daemon waits for a silent worker: the configured time, or three
// times the job's slowest step or the longest silence that the worker ended by
// itself, whichever is longest. A slow machine that is known to take this long
// does not hang. Times come from a clock that stops while the machine sleeps,
// as the worker does (base::AwakeTime). Not thread-safe.
class HangLimit {
 public:
  static constexpr int kFactor = 3;

  // The longest step of an earlier attempt that is accepted: the attempt's
  // clock may have counted the machine's sleep.
  static constexpr absl::Duration kMostBelieved = absl::Hours(1);

  // `slowest_step`: seconds of the slowest step of earlier attempts, zero for
  // none.
  HangLimit(absl::Duration configured, absl::Duration slowest_step,
            absl::Duration now);

  // The worker sent any message at `now`.
  void Heard(absl::Duration now);
  // The worker finished a step, which by its report took `seconds`. The limit
  // accepts at most the time since the step before it.
  void Stepped(absl::Duration now, double seconds);

  absl::Duration heard_at() const { return heard_at_; }
  absl::Duration limit() const;
  absl::Duration deadline() const { return heard_at_ + limit(); }

 private:
  const absl::Duration configured_;
  absl::Duration slowest_;
  absl::Duration heard_at_;
  absl::Duration stepped_at_;  // end of the last step, or the start
};

// Gets the decoded reports of a worker. The launcher's thread calls the methods
// in order; OnExit comes last, exactly once.
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;
  struct Identity {
    int64_t pid = 0;
    std::string worker_version;
    std::string torch_version;
  };
  // How the worker ended (attempt_end.h).
  struct Result {
    ExitReason reason = ExitReason::kCrashed;
    std::string message;
    Outcome outcome;  // only with Done
  };
  virtual void OnHello(const Identity& identity) = 0;
  // The worker has opened `device`: "mps", "cuda" or "cpu".
  virtual void OnDevice(const std::string& device) = 0;
  virtual void OnProgress(const Progress& progress) = 0;
  virtual void OnEvaluated(const Evaluated& evaluated) = 0;
  virtual void OnCheckpoint(const report::Checkpointed& checkpoint) = 0;
  virtual void OnHeartbeat(const std::string& stage, double fraction) = 0;
  // A problem with which the run continues; `text` is UTF-8.
  virtual void OnWarning(const std::string& text) = 0;
  // The worker holds, as Pause requested; OnResumed reports that it continues.
  virtual void OnHeld() = 0;
  virtual void OnResumed() = 0;
  virtual void OnExit(const Result& result) = 0;
};

// One live worker process. Thread-safe. Destroying it kills the process and
// waits for the end; OnExit has been called by then.
class Worker {
 public:
  virtual ~Worker() = default;
  // Requests a checkpoint and an exit; kills the worker after `grace` of time
  // in which the machine is awake.
  virtual void Preempt(absl::Duration grace) = 0;
  // Requests an exit without a result; kills the worker after `grace`. A second
  // call may shorten the grace.
  virtual void Cancel(absl::Duration grace) = 0;
  // Requests a hold between two micro-batches with everything in memory.
  // Preempt and Cancel end the hold; Pause and Resume do nothing after either.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

struct LaunchRequest {
  std::string job_id;
  JobKind kind = JobKind::kTraining;
  std::string spec_path;
  std::string output_dir;
  std::string log_path;         // gets the worker's stdout and stderr
  absl::Duration hang_timeout;  // a worker silent for this long is killed: Hung
  absl::Duration slowest_step;  // in earlier attempts, see HangLimit
  bool allow_cpu_fallback = false;  // as job.json says
  // Folders of other jobs that the worker reads, besides the usual ones.
  std::vector<std::string> results_read = {};
  std::string study = {};  // see wire::Start
};

// Starts workers. Implemented by server/supervisor over posix_spawn and by a
// fake in the tests.
class WorkerLauncher {
 public:
  virtual ~WorkerLauncher() = default;
  // OK if Launch may be called. Unavailable, with the reason, while a worker of
  // an earlier daemon holds the device or the self-test runs;
  // FailedPrecondition after a failed self-test.
  virtual absl::Status Ready() { return absl::OkStatus(); }
  // `listener` must outlive the worker. On an error no process runs and the
  // listener is not called.
  virtual absl::StatusOr<std::unique_ptr<Worker>> Launch(
      const LaunchRequest& request, WorkerListener& listener) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_WORKER_LAUNCHER_H_
