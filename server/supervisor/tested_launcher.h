// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_TESTED_LAUNCHER_H_
#define MPSD_SERVER_SUPERVISOR_TESTED_LAUNCHER_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/report/report.h"
#include "server/jobs/worker_launcher.h"
#include "server/supervisor/spawned_process.h"

namespace mpsd::supervisor {

// Makes a worker's report safe to store and show, because a worker repeats the
// content of users' files: unprintable characters are escaped in every text but
// paths, and texts and lists are cut to the bounds of core/base/limits.h. Only
// a failure's message may have several lines. Clean() walks the report's field
// list, so that new fields are cleaned from the start.
void Clean(report::Progress& progress);
void Clean(report::Evaluated& evaluated);
void Clean(report::Checkpointed& checkpointed);
void Clean(report::Failure& failure);
// Omits a confusion matrix that is too large or is not valid JSON; returns
// false then.
bool Clean(report::Outcome& outcome);

// Texts outside the reports. `CleanText`: a worker's text, from its log or a
// protocol violation, as part of a message.
std::string CleanText(std::string_view text);
std::string CleanWarning(std::string_view text);
std::string CleanStage(std::string_view text);
std::string CleanVersion(std::string_view text);

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
  mutable absl::Mutex mutex_;
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

#endif  // MPSD_SERVER_SUPERVISOR_TESTED_LAUNCHER_H_
