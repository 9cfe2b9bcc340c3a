// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_MACHINE_EXAMINER_H_
#define MPSD_SERVER_MACHINE_EXAMINER_H_

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/environment.h"
#include "server/planner/judge.h"
#include "server/planner/service_file.h"
#include "server/jobs/job_manager.h"
#include "server/supervisor/tested_launcher.h"

namespace mpsd {

// Examines this machine, and has a worker examine torch. Thread-safe.
class MachineExaminer final : public doctor::Examiner {
 public:
  struct Options {
    std::string mpsd_version;
    int protocol_version = 0;
    std::filesystem::path state_dir;
    std::filesystem::path verdict_path;  // the self-test's
    int64_t min_free_bytes = 0;
    absl::Duration stop_grace;
    // What jobs read, by "cache", "models", "data"; `mount` is filled in here.
    std::vector<doctor::FolderMount> folders;
    supervisor::GatesOptions gates;
    host::Environment daemon_environment;  // all of it
    host::Environment configured;          // mpsd.toml's [environment]
    doctor::ServicePlaces places;
    // The queue as the API shows it: the running job, the host's reading.
    std::function<jobs::ManagerInfo()> queue;
    // Null: mpsd --skip-selftest. Must outlive the examiner.
    supervisor::TestedLauncher* tested = nullptr;
    // A worker's result and a measurement are reused for this long.
    absl::Duration fresh = absl::Seconds(10);
    // A verdict younger than this is not renewed: while the test runs no job
    // starts.
    absl::Duration fresh_verdict = absl::Minutes(10);
  };

  // `clock` must outlive the examiner.
  MachineExaminer(Options options, const base::Clock& clock)
      : options_(std::move(options)), clock_(clock) {}

  absl::StatusOr<doctor::Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) override;

 private:
  void TestAgain(const jobs::ManagerInfo& queue)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status LookAtTorch(const std::function<absl::Status()>& wanted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void MeasureDisk() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Also false for a time in the future: the clock may have been set back.
  bool IsYounger(absl::Time time, absl::Duration age) const {
    const absl::Duration since = clock_.Now() - time;
    return since >= absl::ZeroDuration() && since < age;
  }
  bool IsFresh(absl::Time time) const {
    return IsYounger(time, options_.fresh);
  }

  doctor::Selftest LookAtSelftest() const;
  doctor::Disk LookAtDisk() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const base::Clock& clock_;
  // Held while a worker examines, so that others wait for its result.
  absl::Mutex mutex_;
  doctor::WorkerGates gates_ ABSL_GUARDED_BY(mutex_);
  std::optional<doctor::DiskSpeed> speed_ ABSL_GUARDED_BY(mutex_);
  std::string speed_problem_ ABSL_GUARDED_BY(mutex_);
  absl::Time measured_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time tested_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Picks the processes that matter to a job on this machine, without mpsd and
// its children: the ten largest and ten that have the GPU open.
std::vector<doctor::OtherProcess> PickOthers(
    std::vector<host::Process> processes, const std::vector<int64_t>& gpu_users,
    int64_t mpsd);

}  // namespace mpsd

#endif  // MPSD_SERVER_MACHINE_EXAMINER_H_
