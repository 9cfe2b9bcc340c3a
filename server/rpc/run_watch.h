// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_RPC_RUN_WATCH_H_
#define MPSD_SERVER_RPC_RUN_WATCH_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "mpsd/v1/record.pb.h"
#include "server/jobs/exported_metrics.h"
#include "server/jobs/meters.h"

namespace mpsd::records {

struct SeenAttempt {
  std::string job_id;
  absl::Time start;
  v1::RunAttempt sum;
};

// Forwards the scheduler's reports to the exported metrics, and sums up each
// attempt: how long it did what, when it was paused, and in which state the
// machine was. Never blocks. Thread-safe.
class RunWatch final : public jobs::ExportedMetrics {
 public:
  struct Options {
    std::string torch_version;    // the worker's, which this mpsd came with
    std::string version, commit;  // mpsd's
    // The sum of an attempt in progress is returned at most this often.
    absl::Duration interval = absl::Seconds(10);
    // Called when a job has ended; on any thread, must not block.
    std::function<void()> on_end = [] {};
  };

  // `next` gets every report first; it and `clock` must outlive the watch.
  RunWatch(Options options, jobs::ExportedMetrics& next,
           const base::Clock& clock)
      : options_(std::move(options)), next_(next), clock_(clock) {}

  // The sums that have changed since the last call; those of ended attempts at
  // once. `now`: also those that Options::interval holds back.
  std::vector<SeenAttempt> TakeChanged(bool now = false);
  // Gives back what TakeChanged returned and could not be stored.
  void Return(std::vector<SeenAttempt> rows);

  void JobCounts(const std::map<jobs::State, int64_t>& jobs) override;
  void QueueChanged(const jobs::QueueDepth& depth) override;
  void JobStarted(const jobs::StartedJob& job) override;
  void DeviceOpened(const std::string& job_id,
                    const std::string& device) override;
  void StageBegan(const std::string& stage) override;
  void WorkerHalts(bool halts) override;
  void StepFinished(const std::string& job_id,
                    const jobs::Progress& progress) override;
  void Evaluated(const std::string& job_id, const std::string& device,
                 const jobs::Evaluated& evaluated) override;
  void CheckpointWritten(const std::string& job_id, const std::string& device,
                         double seconds) override;
  void WorkerExited(jobs::ExitReason reason) override;
  void JobReturned(jobs::ExitReason reason) override;
  void HostRead(const host::Reading& reading) override;
  void Paused(const jobs::PauseReasons& reasons) override;
  void Held(const jobs::Holds& holds) override;
  void JobEnded(const std::string& job_id, jobs::State state) override;
  void JobDeleted(const std::string& job_id) override;

 private:
  // The attempt in progress.
  struct Attempt {
    Attempt(std::string job_id, absl::Time start, absl::Duration now)
        : job_id(std::move(job_id)), start(start), phases(now) {}
    std::string job_id;
    absl::Time start;
    jobs::PhaseClock phases;
    v1::RunAttempt sum;        // except what the members below hold
    std::deque<double> steps;  // the latest, seconds each
    std::set<host::PowerSource> power;
    std::set<host::Thermal> thermal;
    std::set<host::MemoryPressure> pressure;
    double utilization_sum = 0;
    int utilization_count = 0;
    std::optional<int64_t> first_resets;
    std::optional<absl::Duration> read_at;       // monotonic
    std::optional<absl::Duration> paused_since;  // likewise
    jobs::PauseReasons paused_for;
  };

  SeenAttempt RowOfCurrent() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Counts the pause until now.
  void CountPause() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Finish() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  jobs::ExportedMetrics& next_;
  const base::Clock& clock_;
  absl::Mutex mutex_;
  std::optional<Attempt> current_ ABSL_GUARDED_BY(mutex_);
  bool changed_ ABSL_GUARDED_BY(mutex_) = false;  // current_, unreturned
  absl::Duration given_at_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  std::deque<SeenAttempt> ended_ ABSL_GUARDED_BY(mutex_);
  jobs::PauseReasons reasons_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::records

#endif  // MPSD_SERVER_RPC_RUN_WATCH_H_
