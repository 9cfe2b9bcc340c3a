// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_CHILD_H_
#define MPSD_CLIENT_SSH_CHILD_H_

#include <sys/types.h>

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::ssh {

// A child process in the process group of this program, so that it may ask on
// the terminal and stops with Ctrl-Z. Ctrl-C does not reach it: this program
// decides what that ends. Used by one thread at a time.
class Child {
 public:
  // Starts argv[0], looked up in PATH, with this program's environment. The
  // child gets the descriptors as its 0, 1 and 2, and no others that this
  // program marked close-on-exec. NotFound where there is no such program.
  static absl::StatusOr<std::unique_ptr<Child>> Spawn(
      const std::vector<std::string>& argv, int in, int out, int err);
  // Ends the child if it still runs: SIGTERM, after a second SIGKILL.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }

  // The status as waitpid gives it; nullopt while the child runs.
  std::optional<int> Poll();
  // Waits at most `timeout`, and no longer than until `*broken`.
  std::optional<int> WaitFor(absl::Duration timeout,
                             const std::atomic<bool>* broken = nullptr);

 private:
  explicit Child(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  std::optional<int> status_;
};

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_CHILD_H_
