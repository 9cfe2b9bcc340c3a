// SPDX-License-Identifier: Apache-2.0
// Starts workers: the locks of the device, the launcher, and the one that first
// has the device tested.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/base/monitor.h"
#include "core/host/environment.h"
#include "core/report/report.h"
#include "server/jobs/attempt_end.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::supervisor {

// Keeps the GPU for one daemon at a time, whichever user runs it: a lock on a
// file in a folder that every user may write. As with WorkerLease, the worker
// holds the lock through its own descriptor. The file is empty and is opened
// only for reading, never through a link. If something else is at the path, the
// lock logs that once and lets jobs train without it. One thread at a time.
class DeviceLock {
 public:
  // `path`: empty for no lock.
  DeviceLock(std::string path, std::function<void(const std::string&)> log);

  // Returns the lock, which ends when its last copy is closed; an invalid
  // descriptor if there is no path or no usable file. Unavailable while another
  // process has the lock.
  absl::StatusOr<UniqueFd> Acquire();

 private:
  absl::StatusOr<UniqueFd> Open() const;

  const std::string path_;
  const std::function<void(const std::string&)> log_;
  bool said_ = false;
};

// The right to the device, as a file lock that the worker holds, not the
// daemon: the worker inherits the descriptor, so the lock ends with the last
// process that has it. A daemon that starts after a kill -9 finds the lock
// taken while the old worker writes its last checkpoint. The file contains the
// worker's pid. One thread at a time.
class WorkerLease {
 public:
  // Acquire() kills a worker of an earlier daemon that still holds the lease
  // `patience` after the first refused Acquire().
  WorkerLease(std::string path, absl::Duration patience,
              const base::Clock& clock);

  // Returns the lock, which ends when its last copy is closed. Unavailable,
  // naming the other process, while another process has the lock.
  absl::StatusOr<UniqueFd> Acquire();

  // Records that `pid` has inherited `lease`.
  static absl::Status Record(const UniqueFd& lease, pid_t pid);

 private:
  absl::Status Refuse(int fd);

  const std::string path_;
  const absl::Duration patience_;
  const base::Clock& clock_;
  std::optional<absl::Duration> refused_since_;
};

// Starts mpsd-worker as a child process. The child gets these descriptors and
// no others: 0 /dev/null, 1 and 2 the job's log, 3 the stream to the daemon, 4
// the lease, 5 the lock of the GPU if there is one. One thread at a time.
class ProcessLauncher final : public jobs::WorkerLauncher {
 public:
  struct Options {
    std::string worker_path;
    // Without the daemon's secrets (host::WithoutSecrets); the launcher adds
    // what a worker needs (core/host) and TMPDIR.
    host::Environment environment;
    // Contains a folder for each worker's temporary files. For the launcher
    // alone, which empties it.
    std::string temporary_dir;
    std::string lease_path;
    std::string device_lock;  // see DeviceLock
    // Folders below which a worker may read files, in addition to its job's
    // own, and those in which it may read nothing else: see wire::Start.
    std::vector<std::string> read_roots, closed_roots;
    // How long a worker of an earlier daemon may take to write its last
    // checkpoint.
    absl::Duration orphan_patience = absl::Minutes(2);
    absl::Duration exit_grace = absl::Seconds(10);
    // The daemon's own log; gets one line per call.
    std::function<void(const std::string&)> log = [](const std::string&) {};
    std::function<absl::Duration()> awake_time = base::AwakeTime;
  };

  ProcessLauncher(Options options, const base::Clock& clock);

  absl::Status Ready() override;
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest& request,
      jobs::WorkerListener& listener) override;

 private:
  const Options options_;
  WorkerLease lease_;
  DeviceLock device_lock_;
};

struct GatesOptions {
  std::string worker_path;
  // The child's whole environment.
  std::map<std::string, std::string> environment;
  // Contains the worker's folder for temporary files, as for jobs; "": it gets
  // none.
  std::string temporary_dir;
  absl::Duration limit = absl::Seconds(40);
};

// How `mpsd-worker --gates` ended.
struct GatesRun {
  std::string output;         // what it printed, cut at 256 KiB
  std::optional<int> status;  // as waitpid gives it; nullopt: killed, too slow
};

// Starts the worker, reads its output until it ends, and kills it after its
// time limit, with all that it started. Without the lock of the device: the
// worker takes some megabytes of it for a moment. Calls `wanted` several times
// a second; if that is not OK, kills the worker and returns the status. Errors
// of the start name the program.
absl::StatusOr<GatesRun> RunGates(const GatesOptions& options,
                                  const std::function<absl::Status()>& wanted);

// The verdict that `mpsd-worker --selftest` wrote (core/selftest/selftest.h,
// which needs torch), and when. Absent members are empty.
struct Verdict {
  std::optional<bool> passed;
  std::string device;   // "mps"
  std::string summary;  // of a test that did not pass
  absl::Time time;
};
// Nullopt if there is no such file, or its content is none.
std::optional<Verdict> ReadVerdict(const std::string& path);

// Starts no worker before `mpsd-worker --selftest` has passed on the device.
// The worker stores a verdict that is valid as long as chip, system and torch
// are the same, so the test that runs at every start of the daemon takes long
// only the first time. A device that fails, or a worker that cannot run the
// test, holds every job in the queue until a later test passes: the cause may
// have been another process's memory, or a GPU that was reset. Thread-safe.
class TestedLauncher final : public jobs::WorkerLauncher {
 public:
  struct Options {
    std::string worker_path;
    // The child's whole environment
    std::map<std::string, std::string> environment;
    // Contains the self-test's folder for temporary files, as for workers; "":
    // it gets none.
    std::string temporary_dir;
    std::string verdict_path;  // written by the worker, JSON
    std::string log_path;      // gets the table of results
    absl::Duration limit = absl::Minutes(15);
    // The time between a test that did not pass and the next test.
    absl::Duration retry_interval = absl::Minutes(10);
    // Called when Ready() may return another status. Called on any thread, so
    // it must not block.
    std::function<void()> on_change = [] {};
    // The device that passed ("mps"), and when: at an earlier start if the
    // worker kept that verdict. Not called on a machine without a device to
    // test. Called on any thread, so it must not block.
    std::function<void(const std::string&, absl::Time)> on_pass =
        [](const std::string&, absl::Time) {};
    // The daemon's own log; gets one line per call.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // `inner` must outlive the launcher.
  TestedLauncher(jobs::WorkerLauncher& inner, Options options);
  // Kills a test that runs.
  ~TestedLauncher() override;

  // What a user may request besides jobs.
  struct State {
    // OK after a test that passed; Unavailable before the first one has ended;
    // else as Ready.
    absl::Status verdict;
    bool testing = false;
  };
  State state() const;

  // Tests the device again, whatever the earlier verdict: no job starts until
  // the test has passed. False if a test runs or is about to, which serves as
  // well.
  bool TestAgain();

  // Unavailable until the first test has ended. FailedPrecondition, with the
  // test's result and what to do, while the last test did not pass.
  absl::Status Ready() override;
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest& request,
      jobs::WorkerListener& listener) override {
    return inner_.Launch(request, listener);
  }

 private:
  // Tests until a test passes, and on request.
  void Run();
  // Waits until another test is due; false if mpsd stops.
  bool AwaitNext(bool passed);
  // `force`: even if an earlier verdict still holds.
  absl::Status Test(bool force);
  absl::StatusOr<std::unique_ptr<SpawnedProcess>> Spawn(bool force)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The verdict for a test that ended with `status`, as waitpid gives it.
  absl::Status VerdictOf(int status) const;
  std::string Advice() const;
  void Conclude(const absl::Status& verdict);
  // Reads the worker's verdict and calls on_pass.
  void TellPass() const;

  jobs::WorkerLauncher& inner_;
  const Options options_;
  mutable base::Monitor mutex_;
  absl::Status verdict_ ABSL_GUARDED_BY(mutex_);
  // Declared before the process: destroyed after it.
  std::unique_ptr<TemporaryFolder> temporary_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SpawnedProcess> process_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  bool testing_ ABSL_GUARDED_BY(mutex_) = true;
  bool asked_ ABSL_GUARDED_BY(mutex_) = false;  // by TestAgain
  std::thread thread_;
};

}  // namespace mpsd::supervisor
