// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_JOBS_EXPORTED_METRICS_H_
#define MPSD_SERVER_JOBS_EXPORTED_METRICS_H_

#include <cstdint>
#include <map>
#include <string>

#include "core/host/host.h"
#include "server/jobs/hold.h"
#include "server/jobs/job.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/started_job.h"

namespace mpsd::jobs {

// The scheduler reports its events to the exported metrics here. Thread-safe.
// An implementation must not block nor call the scheduler. Implemented by
// server/prometheus.
class ExportedMetrics {
 public:
  virtual ~ExportedMetrics() = default;
  virtual void JobCounts(const std::map<State, int64_t>& jobs) = 0;
  // Called soon after each change of the queue, with its depth then.
  virtual void QueueChanged(const QueueDepth& depth) = 0;
  virtual void JobStarted(const StartedJob& job) = 0;
  // What the worker of the last started job does, until WorkerExited. `device`:
  // "mps", "cuda" or "cpu".
  virtual void DeviceOpened(const std::string& job_id,
                            const std::string& device) = 0;
  virtual void StageBegan(const std::string& stage) = 0;
  // Whether the worker halts for a pause.
  virtual void WorkerHalts(bool halts) = 0;
  virtual void StepFinished(const std::string& job_id,
                            const Progress& progress) = 0;
  // `device`: of the attempt, empty before the worker has told it.
  virtual void Evaluated(const std::string& job_id, const std::string& device,
                         const jobs::Evaluated& evaluated) = 0;
  virtual void CheckpointWritten(const std::string& job_id,
                                 const std::string& device, double seconds) = 0;
  virtual void WorkerExited(ExitReason reason) = 0;
  // A job goes back to the queue, since its attempt ended for `reason`.
  virtual void JobReturned(ExitReason reason) = 0;
  virtual void HostRead(const host::Reading& reading) = 0;
  // The reasons that keep jobs from training now; empty: none.
  virtual void Paused(const PauseReasons& reasons) = 0;
  // The reasons that keep queued jobs from starting though nothing trains.
  virtual void Held(const Holds& holds) = 0;
  // The job is in `state`, a final one, and sends no more news: its series may
  // go.
  virtual void JobEnded(const std::string& job_id, State state) = 0;
  // The job's series go at once.
  virtual void JobDeleted(const std::string& job_id) = 0;
};

}  // namespace mpsd::jobs

#endif  // MPSD_SERVER_JOBS_EXPORTED_METRICS_H_
