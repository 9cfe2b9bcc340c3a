// SPDX-License-Identifier: Apache-2.0
#include "server/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

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

}  // namespace mpsd
