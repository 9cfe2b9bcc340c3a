// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/environment.h"
#include "server/jobs/job_reader.h"
#include "server/planner/doctor.h"
#include "server/supervisor/process_launcher.h"

namespace mpsd::doctor {

// Reads the output of `mpsd-worker --gates`: any number of lines of JSON. Skips
// lines that are not objects, and members of another type: the output of a
// killed worker may end anywhere. Texts are cut and escaped. `end` is kDone, or
// kNoSense if the output lacks the versions or the product.
WorkerGates ParseGates(std::string_view output);

// The same, including how the worker ended: `status` as of waitpid, nullopt if
// it was killed after `limit`.
WorkerGates ReadGates(std::string_view output, std::optional<int> status,
                      absl::Duration limit);

// The verdict that the worker wrote and when: kPassed or kFailed; kUnknown if
// there is no valid file.
Selftest ReadSelftest(const std::filesystem::path& path);

struct DiskProbe {
  std::filesystem::path folder;
  int64_t bytes = 64 << 20;
  // After this time of writing, and again of reading, the measurement ends
  // early: a slow disk is measured with less data.
  absl::Duration patience = absl::Seconds(3);
  // This much stays free in addition to the probe's file.
  int64_t keep_free_bytes = 0;
};

// Writes a file in the folder, flushes it to the disk, reads it again bypassing
// the system's cache if possible, and removes it; its name is never visible.
// ResourceExhausted, without a byte written, on a disk that is nearly full; the
// system's errors name the folder. Blocks; a disk that hangs blocks the caller.
absl::StatusOr<DiskSpeed> MeasureDisk(const DiskProbe& probe);

// The process settings of a systemd unit: Environment=, LimitNOFILE=,
// TimeoutStopSec=. `texts`: the unit and its drop-ins, in their order; later
// ones override, and an empty assignment resets.
Service ParseUnit(const std::vector<std::string>& texts);

// The same for launchd's property list, in XML: EnvironmentVariables,
// ProcessType, SoftResourceLimits, ExitTimeOut. All absent if the text is not
// such a list, for example a binary one.
Service ParsePlist(const std::string& text);

// Where deploy/install.sh puts the file, the machine's before a user's.
struct ServicePlaces {
  std::filesystem::path root = "/";  // of the machine
  std::filesystem::path home;        // of mpsd's user
  bool launchd = false;
};

// Reads the file that starts mpsd. `daemon` and `cgroup`, the text of
// /proc/self/cgroup ("" on a Mac), show whether the running daemon is that
// service. Service::file is empty if there is none.
Service FindService(const ServicePlaces& places,
                    const host::Environment& daemon, std::string_view cgroup);

// Examines this machine, and has a worker examine torch. Thread-safe.
class MachineExaminer final : public Examiner {
 public:
  struct Options {
    std::string mpsd_version;
    int protocol_version = 0;
    std::filesystem::path state_dir;
    std::filesystem::path verdict_path;  // the self-test's
    int64_t min_free_bytes = 0;
    absl::Duration stop_grace;
    // What jobs read, by "cache", "models", "data"; `mount` is filled in here.
    std::vector<FolderMount> folders;
    supervisor::GatesOptions gates;
    host::Environment daemon_environment;  // all of it
    host::Environment configured;          // mpsd.toml's [environment]
    ServicePlaces places;
    // The queue as the API shows it: the running job, the host's reading.
    std::function<jobs::QueueInfo()> queue;
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

  absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) override;

 private:
  void TestAgain(const jobs::QueueInfo& queue)
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

  Selftest LookAtSelftest() const;
  Disk LookAtDisk() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const base::Clock& clock_;
  // Held while a worker examines, so that others wait for its result.
  absl::Mutex mutex_;
  WorkerGates gates_ ABSL_GUARDED_BY(mutex_);
  std::optional<DiskSpeed> speed_ ABSL_GUARDED_BY(mutex_);
  std::string speed_problem_ ABSL_GUARDED_BY(mutex_);
  absl::Time measured_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Time tested_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

// Picks the processes that matter to a job on this machine, without mpsd and
// its children: the ten largest and ten that have the GPU open.
std::vector<OtherProcess> PickOthers(std::vector<host::Process> processes,
                                     const std::vector<int64_t>& gpu_users,
                                     int64_t mpsd);

}  // namespace mpsd::doctor
