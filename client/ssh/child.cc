// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "client/ssh/descriptor.h"
#include "core/base/check.h"
#include "core/base/child_wait.h"
#include "core/base/file.h"

extern char** environ;

namespace mpsd::ssh {
namespace {

constexpr absl::Duration kGrace = absl::Seconds(1);

// Every signal at its default and none blocked but SIGINT, which the child
// never sees: ssh leaves the mask as it finds it, and so do its own children
// (ProxyCommand, ProxyJump).
void PlanSignals(posix_spawnattr_t* attributes) {
  short flags = POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT
  flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#endif
  posix_spawnattr_setflags(attributes, flags);
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGINT);
  posix_spawnattr_setsigmask(attributes, &blocked);
  sigset_t defaults;
  sigemptyset(&defaults);
  for (int number : {SIGPIPE, SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD,
                     SIGTSTP, SIGTTIN, SIGTTOU, SIGWINCH}) {
    sigaddset(&defaults, number);
  }
  posix_spawnattr_setsigdefault(attributes, &defaults);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Child>> Child::Spawn(
    const std::vector<std::string>& argv, int in, int out, int err) {
  base::Check(!argv.empty(), "a child has a program");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Copies above 2, so that no dup2 overwrites the source of the next one.
  Descriptor copies[3];
  int number = 0;
  for (int fd : {in, out, err}) {
    copies[number] = Descriptor(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    posix_spawn_file_actions_adddup2(&actions, copies[number].get(), number);
    ++number;
  }
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  PlanSignals(&attributes);
  std::vector<char*> words;
  words.reserve(argv.size() + 1);
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, words[0], &actions, &attributes,
                                 words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return base::ErrnoStatus(error, argv[0]);
  return std::unique_ptr<Child>(new Child(pid));
}

Child::~Child() {
  if (Poll()) return;
  kill(pid_, SIGTERM);
  if (WaitFor(kGrace)) return;
  kill(pid_, SIGKILL);
  WaitFor(absl::InfiniteDuration());
}

std::optional<int> Child::Poll() {
  if (!status_) status_ = base::ReapIfEnded(pid_);
  return status_;
}

std::optional<int> Child::WaitFor(absl::Duration timeout,
                                  const std::atomic<bool>* broken) {
  return base::AwaitEnd([this] { return Poll(); }, timeout,
                        [broken] { return broken != nullptr && *broken; });
}

}  // namespace mpsd::ssh
