// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_SPAWNED_PROCESS_H_
#define MPSD_SERVER_SUPERVISOR_SPAWNED_PROCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/supervisor/unique_fd.h"

namespace mpsd::supervisor {

// A child made by posix_spawn, in a process group of its own. Only posix_spawn:
// a fork without exec breaks Metal and XPC. Thread-safe. Destroying it kills
// the group and reaps the child, so that no zombie stays.
class SpawnedProcess {
 public:
  struct Options {
    std::string program;            // path, not looked up in PATH
    std::vector<std::string> args;  // without argv[0]
    std::map<std::string, std::string> environment;  // the whole of it
    // Child's descriptor → ours, which it takes and closes. The child gets
    // these, /dev/null where 0, 1 or 2 is missing, and nothing else.
    std::map<int, UniqueFd> fds;
  };

  // Child and options' fds are gone after an error. NotFound,
  // PermissionDenied … naming the program.
  static absl::StatusOr<std::unique_ptr<SpawnedProcess>> Spawn(Options options);
  ~SpawnedProcess();
  SpawnedProcess(const SpawnedProcess&) = delete;
  SpawnedProcess& operator=(const SpawnedProcess&) = delete;

  pid_t pid() const { return pid_; }

  // To the whole group; nothing once the child has been reaped.
  void Signal(int number);

  // The status as waitpid gives it, from the moment the child has ended.
  std::optional<int> Poll();
  int Wait();
  std::optional<int> WaitFor(absl::Duration timeout);

  // SIGTERM, and SIGKILL after `grace`.
  int TerminateOrKill(absl::Duration grace);
  int Kill();

 private:
  explicit SpawnedProcess(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  absl::Mutex mutex_;  // a pid is not signalled after it was reaped
  std::optional<int> status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_SPAWNED_PROCESS_H_
