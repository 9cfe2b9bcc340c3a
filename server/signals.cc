// SPDX-License-Identifier: Apache-2.0
#include "server/signals.h"

#include <pthread.h>
#include <unistd.h>

#include <csignal>
#include <thread>

namespace mpsd {
namespace {

sigset_t ShutdownSignals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set, number);
  return set;
}

int Wait() {
  const sigset_t set = ShutdownSignals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number;
}

}  // namespace

void BlockShutdownSignals() {
  const sigset_t set = ShutdownSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
}

int AwaitShutdownSignal() {
  const int number = Wait();
  // The worker finds its stream closed, writes a checkpoint and ends by itself.
  std::thread([] { _exit(128 + Wait()); }).detach();
  return number;
}

}  // namespace mpsd
