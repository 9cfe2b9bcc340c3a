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

// What a worker reported, already decoded. Called on the launcher's thread, in
// order; OnExit comes last, exactly once.
class WorkerListener {
 public:
  virtual ~WorkerListener() = default;
  struct Identity {
    int64_t pid = 0;
    std::string worker_version;
    std::string torch_version;
  };
  struct Result {  // how it ended, worker_exit.h
    ExitReason reason = ExitReason::kCrashed;
    std::string message;
    Outcome outcome;  // Done
  };
  virtual void OnHello(const Identity& identity) = 0;
  virtual void OnProgress(const Progress& progress) = 0;
  virtual void OnEvaluated(const Evaluated& evaluated) = 0;
  virtual void OnCheckpoint(const Checkpoint& checkpoint,
                            const std::vector<std::string>& removed_paths) = 0;
  virtual void OnHeartbeat(const std::string& stage, double fraction) = 0;
  // Something is amiss and the run goes on; UTF-8.
  virtual void OnWarning(const std::string& text) = 0;
  // The worker holds, as Pause asked; and goes on.
  virtual void OnHeld() = 0;
  virtual void OnResumed() = 0;
  virtual void OnExit(const Result& result) = 0;
};

// One live worker process. Thread-safe. Destroying it kills the process and
// waits for it; OnExit has been called by then.
class Worker {
 public:
  virtual ~Worker() = default;
  // Checkpoint and exit; killed after `grace`, of the time that the machine is
  // awake.
  virtual void Preempt(absl::Duration grace) = 0;
  // Exit without result; killed after `grace`. A second call may shorten that.
  virtual void Cancel(absl::Duration grace) = 0;
  // Hold between two micro-batches, with everything in memory; Preempt and
  // Cancel end the hold. Nothing after one of those.
  virtual void Pause() = 0;
  virtual void Resume() = 0;
};

struct LaunchRequest {
  std::string job_id;
  JobKind kind = JobKind::kTraining;
  std::string spec_path;
  std::string output_dir;
  std::string log_path;             // the worker's stdout and stderr, appended
  absl::Duration hang_timeout;      // without any message: Hung, killed
  absl::Duration slowest_step;      // of earlier attempts, see HangLimit
  bool allow_cpu_fallback = false;  // of job.json
};

// Starts workers. Implemented by server/supervisor over posix_spawn and by a
// fake in the tests.
class WorkerLauncher {
 public:
  virtual ~WorkerLauncher() = default;
  // Whether Launch may be called: Unavailable, saying why, while a worker of
  // an earlier daemon still holds the device or its self-test runs;
  // FailedPrecondition after that has failed.
  virtual absl::Status Ready() { return absl::OkStatus(); }
  // `listener` must outlive the worker. An error means no process runs and no
  // callback comes.
  virtual absl::StatusOr<std::unique_ptr<Worker>> Launch(
      const LaunchRequest& request, WorkerListener& listener) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_WORKER_LAUNCHER_H_
