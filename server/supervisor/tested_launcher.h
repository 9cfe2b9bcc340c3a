// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_TESTED_LAUNCHER_H_
#define MPSD_SERVER_SUPERVISOR_TESTED_LAUNCHER_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/jobs/worker_launcher.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::supervisor {

// Starts no worker before `mpsd-worker --selftest` has found the device right.
// The worker keeps a verdict that is good as long as chip, system and torch are
// the same; so it is asked at every start of the daemon, and answers at once
// but for the first time. A device that fails, or a worker that cannot run the
// test, holds every job in the queue until a later try goes well: what was
// wrong may have been another's memory, or a GPU that was reset. Thread-safe.
class TestedLauncher final : public jobs::WorkerLauncher {
 public:
  struct Options {
    std::string worker_path;
    std::map<std::string, std::string> environment;  // the whole of it
    std::string verdict_path;                        // the worker's, JSON
    std::string log_path;                            // gets its table
    absl::Duration limit = absl::Minutes(15);
    // From a test that did not go well to the next.
    absl::Duration retry_interval = absl::Minutes(10);
    // Ready() may answer otherwise now. Any thread, must not block.
    std::function<void()> on_change = [] {};
    // The daemon's own log, one line each.
    std::function<void(const std::string&)> log = [](const std::string&) {};
  };

  // `inner` must outlive it.
  TestedLauncher(jobs::WorkerLauncher& inner, Options options);
  // Kills a test that runs.
  ~TestedLauncher() override;

  // Unavailable before the first test has ended; FailedPrecondition, with what
  // it found and what to do, while the last one did not go well.
  absl::Status Ready() override;
  absl::StatusOr<std::unique_ptr<jobs::Worker>> Launch(
      const jobs::LaunchRequest& request,
      jobs::WorkerListener& listener) override;

 private:
  // Until one goes well.
  void Run();
  absl::Status Test();
  absl::StatusOr<std::unique_ptr<SpawnedProcess>> Spawn() const;
  // Of its exit; `status` as waitpid gives it.
  absl::Status VerdictOf(int status) const;
  std::string Advice() const;
  void Conclude(absl::Status verdict);

  jobs::WorkerLauncher& inner_;
  const Options options_;
  mutable absl::Mutex mutex_;
  absl::Status verdict_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<SpawnedProcess> process_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_TESTED_LAUNCHER_H_
