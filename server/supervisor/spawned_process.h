// SPDX-License-Identifier: Apache-2.0
// Child processes: descriptors, pipes, folders for temporary files,
// posix_spawn.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "core/base/descriptor.h"

namespace mpsd::supervisor {

using base::UniqueFd;

// A copy of a descriptor, which no child inherits by default.
absl::StatusOr<UniqueFd> Duplicate(const UniqueFd& fd);
// Makes reads and writes of a descriptor fail where they would block.
void Unblock(const UniqueFd& fd);

// A pipe, which no child inherits by default.
struct Pipe {
  UniqueFd reading, writing;
};
absl::StatusOr<Pipe> MakePipe();

// The folder for the temporary files of one worker, which only mpsd's user may
// enter (0700). Removed with all that the worker left in it. One thread at a
// time.
class TemporaryFolder {
 public:
  // Creates `parent` if missing, and in it the folder `name`, after removing an
  // existing one.
  static absl::StatusOr<std::unique_ptr<TemporaryFolder>> Create(
      const std::filesystem::path& parent, const std::string& name);
  ~TemporaryFolder() { Remove(); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void Remove();

  // Removes the folders that a killed daemon left. Links in them are removed,
  // but not followed.
  static void RemoveAll(const std::filesystem::path& parent);
  // Removes one of them likewise.
  static void RemoveLeft(const std::filesystem::path& folder) {
    TemporaryFolder(folder).Remove();
  }

 private:
  explicit TemporaryFolder(std::filesystem::path path)
      : path_(std::move(path)) {}

  const std::filesystem::path path_;
};

// A child process in its own process group. posix_spawn makes it, because a
// fork without exec breaks Metal and XPC. Thread-safe. Destroying the object
// kills the group and reaps the child, so that no zombie stays.
class SpawnedProcess {
 public:
  struct Options {
    std::string program;            // path, not looked up in PATH
    std::vector<std::string> args;  // without argv[0]
    // The child's whole environment
    std::map<std::string, std::string> environment;
    // Maps the child's descriptors to ours, which Spawn takes and closes. The
    // child gets these, /dev/null if 0, 1 or 2 is missing, and no others.
    std::map<int, UniqueFd> fds;
  };

  // After an error neither the child nor the descriptors are left. NotFound,
  // PermissionDenied … name the program.
  static absl::StatusOr<std::unique_ptr<SpawnedProcess>> Spawn(Options options);
  ~SpawnedProcess();
  SpawnedProcess(const SpawnedProcess&) = delete;
  SpawnedProcess& operator=(const SpawnedProcess&) = delete;

  pid_t pid() const { return pid_; }

  // Signals the whole group; does nothing once the child has been reaped.
  void Signal(int number);

  // The status as waitpid gives it; nullopt while the child runs.
  std::optional<int> Poll();
  int Wait();
  std::optional<int> WaitFor(absl::Duration timeout);

  // Sends SIGTERM, and SIGKILL after `grace`.
  int TerminateOrKill(absl::Duration grace);
  int Kill();

 private:
  explicit SpawnedProcess(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  absl::Mutex mutex_;  // so that no reaped pid is signalled
  std::optional<int> status_ ABSL_GUARDED_BY(mutex_);
};

// What RunToEnd exchanges with a program.
struct Exchange {
  std::string_view input = {};  // of its standard input, which then ends
  // Get what the program writes to stdout and stderr, as it comes; without
  // `error`, `out` gets both.
  std::function<absl::Status(std::string_view)> out;
  std::function<void(std::string_view)> error = nullptr;
  // Called several times a second.
  std::function<absl::Status()> wanted;
  // While the machine is awake and this process runs; then DeadlineExceeded.
  absl::Duration limit = absl::InfiniteDuration();
};

// Runs a program to its end and returns its wait status, as waitpid gives it.
// An error of `out` or of `wanted` kills its group and is returned. Children
// that outlive a program which ends by itself keep running; what they write is
// lost. The process must ignore SIGPIPE if there is input. `options` has no
// descriptor 0 to 2.
absl::StatusOr<int> RunToEnd(SpawnedProcess::Options options,
                             const Exchange& exchange);

}  // namespace mpsd::supervisor
