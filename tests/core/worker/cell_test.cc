// SPDX-License-Identifier: Apache-2.0
#include "core/worker/cell.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace mpsd::worker {
namespace {

// Whether `check` holds in a process of its own, which a limit may then bind.
bool Holds(const std::function<bool()>& check) {
  const pid_t child = fork();
  if (child == 0) _exit(check() ? 0 : 1);
  int status = 0;
  return waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

rlimit LimitOf(decltype(RLIMIT_CORE) resource) {
  rlimit limit{};
  getrlimit(resource, &limit);
  return limit;
}

TEST(Cell, ACrashLeavesNoCore) {
  EXPECT_TRUE(Holds([] {
    EnterCell();
    const rlimit limit = LimitOf(RLIMIT_CORE);
    return limit.rlim_cur == 0 && limit.rlim_max == 0;
  }));
}

TEST(Cell, DescriptorsAndProcessesAreBounded) {
  EXPECT_TRUE(Holds([] {
    EnterCell();
    return LimitOf(RLIMIT_NOFILE).rlim_max <= kMostDescriptors &&
           LimitOf(RLIMIT_NPROC).rlim_max <= kMostProcesses;
  }));
}

TEST(Cell, ALowerBoundStays) {
  EXPECT_TRUE(Holds([] {
    const rlimit lower{64, 128};
    setrlimit(RLIMIT_NOFILE, &lower);
    EnterCell();
    const rlimit limit = LimitOf(RLIMIT_NOFILE);
    return limit.rlim_cur == 64 && limit.rlim_max == 128;
  }));
}

TEST(Cell, NewFilesAreTheUsersAlone) {
  EXPECT_TRUE(Holds([] {
    umask(0);
    EnterCell();
    return umask(0) == 077;
  }));
}

}  // namespace
}  // namespace mpsd::worker
