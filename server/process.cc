// SPDX-License-Identifier: Apache-2.0
#include "server/process.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <thread>

#ifdef __APPLE__
#include <limits.h>
#include <sys/sysctl.h>
#endif

namespace mpsd {
namespace {

bool HangupIsIgnored() {
  struct sigaction action;
  return sigaction(SIGHUP, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

// Skips an ignored SIGHUP: sigwait would take a signal that is ignored and
// blocked.
sigset_t AwaitedSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT}) sigaddset(&set, number);
  if (!HangupIsIgnored()) sigaddset(&set, SIGHUP);
  return set;
}

// Waits for SIGTERM or SIGINT and calls `on_hangup` for each SIGHUP before.
int Wait(const std::function<void()>& on_hangup) {
  const sigset_t set = AwaitedSignals();
  while (true) {
    int number = 0;
    if (sigwait(&set, &number) != 0) continue;
    if (number != SIGHUP) return number;
    on_hangup();
  }
}

}  // namespace

void BlockSignals() {
  const sigset_t set = AwaitedSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int AwaitShutdownSignal(const std::function<void()>& reload) {
  const int number = Wait(reload);
  // The worker finds its stream closed, writes a checkpoint and ends by itself.
  std::thread([] { _exit(128 + Wait([] {})); }).detach();
  return number;
}

namespace {

constexpr rlim_t kWanted = 65'536;
constexpr int kMostReserved = 512;
constexpr int kMostConnections = 4096;

// The highest limit that setrlimit accepts. On macOS the hard limit may be
// infinite while the kernel has a lower limit, beyond which setrlimit fails.
rlim_t Allowed(const rlimit& limit) {
  rlim_t allowed = std::min(limit.rlim_max, kWanted);
#ifdef __APPLE__
  int most = 0;
  size_t size = sizeof(most);
  if (sysctlbyname("kern.maxfilesperproc", &most, &size, nullptr, 0) != 0 ||
      most <= 0) {
    most = OPEN_MAX;
  }
  allowed = std::min(allowed, static_cast<rlim_t>(most));
#endif
  return allowed;
}

}  // namespace

int RaiseDescriptorLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return 256;
  const rlimit raised = {Allowed(limit), limit.rlim_max};
  if (raised.rlim_cur > limit.rlim_cur &&
      setrlimit(RLIMIT_NOFILE, &raised) == 0) {
    limit = raised;
  }
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur, 1 << 30));
}

int FirstReservedDescriptor(int limit) {
  return std::min(limit - std::min(limit / 4, kMostReserved), kMostConnections);
}

}  // namespace mpsd
