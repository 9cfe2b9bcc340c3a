// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_EXPORTED_METRICS_H_
#define MPSD_SERVER_JOBS_EXPORTED_METRICS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "core/host/host.h"
#include "core/spec/train_spec.h"
#include "server/jobs/job.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"

namespace mpsd::jobs {

// A method of the API.
struct CallMethod {
  std::string name;  // "JobService.Submit"
  bool is_stream = false;
};

// The server reports the calls of the API here. Thread-safe. An implementation
// must not block. Implemented by server/http.
class ExportedCalls {
 public:
  virtual ~ExportedCalls() = default;
  // The server has this method; called before the method's first call. The
  // methods of all calls are among these, so their number is bounded.
  virtual void MethodServed(const CallMethod& method) = 0;
  virtual void CallStarted(const CallMethod& method) = 0;
  // `code`: the client's status, kCancelled if the client did not wait for the
  // response. `duration`: from the call's arrival to its end.
  virtual void CallEnded(const CallMethod& method, absl::StatusCode code,
                         absl::Duration duration) = 0;
};

// A starting job, as the exported metrics describe it.
struct StartedJob {
  std::string id, name, owner;
  std::string task;   // as job.json has it: "CAUSAL_LM"
  std::string model;  // its id, or else the last part of its folder's path
  absl::Duration queue_wait;
  std::optional<absl::Duration> time_left = {};  // TimeLeft()
};

// `spec`: the job's. `job` has its start_time; it was queued at `since`.
StartedJob DescribeStart(const Job& job, const spec::TrainSpec& spec,
                         absl::Time since);

// The scheduler reports its events to the exported metrics here. Thread-safe.
// An implementation must not block nor call the scheduler. Implemented by
// server/http.
class ExportedMetrics {
 public:
  virtual ~ExportedMetrics() = default;
  virtual void JobCounts(const std::map<State, int64_t>& jobs) = 0;
  // Called soon after each change of the queue, with its depth then.
  virtual void QueueChanged(const QueueDepth& depth) = 0;
  virtual void JobStarted(const StartedJob& job) = 0;
  // The activity of the last started job's worker, until WorkerExited.
  // `device`: "mps", "cuda" or "cpu".
  virtual void DeviceOpened(const std::string& job_id,
                            const std::string& device) = 0;
  virtual void StageBegan(const std::string& stage) = 0;
  // Whether the worker halts for a pause.
  virtual void WorkerHalts(bool halts) = 0;
  virtual void StepFinished(const std::string& job_id,
                            const Progress& progress) = 0;
  // `device`: of the attempt, empty before the worker has reported it.
  virtual void Evaluated(const std::string& job_id, const std::string& device,
                         const jobs::Evaluated& evaluated) = 0;
  virtual void CheckpointWritten(const std::string& job_id,
                                 const std::string& device, double seconds) = 0;
  virtual void WorkerExited(ExitReason reason) = 0;
  // A job returns to the queue, since its attempt ended for `reason`.
  virtual void JobReturned(ExitReason reason) = 0;
  virtual void HostRead(const host::Reading& reading) = 0;
  // The reasons that keep jobs from training now; empty: none.
  virtual void Paused(const PauseReasons& reasons) = 0;
  // The reasons that keep queued jobs from starting though nothing trains.
  virtual void Held(const Holds& holds) = 0;
  // The job is in `state`, a final one, and reports nothing more: its series
  // may be removed.
  virtual void JobEnded(const std::string& job_id, State state) = 0;
  // The job's series are removed at once.
  virtual void JobDeleted(const std::string& job_id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_EXPORTED_METRICS_H_
