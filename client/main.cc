// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "client/app.h"

namespace {

int ScreenColumns() {
  winsize size = {};
  const bool known =
      ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : 80;
}

void EndBySignal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

// SIGINT goes to one thread that waits for it, so that its handler may lock
// and call gRPC. Must run before any other thread starts.
void CatchInterrupts(mpsd::client::Interrupt& interrupt) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  std::thread([&interrupt, set] {
    int signal = 0;
    while (sigwait(&set, &signal) == 0) {
      if (!interrupt.Raise()) EndBySignal(signal);
    }
  }).detach();
}

}  // namespace

int main(int argc, char** argv) {
  // Its own complaints about a connection come on top of ours.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // Outlives the thread that waits for signals.
  static mpsd::client::Interrupt interrupt;
  CatchInterrupts(interrupt);
  mpsd::client::Terminal terminal;
  terminal.is_tty = isatty(STDOUT_FILENO) == 1;
  terminal.columns = ScreenColumns;
  terminal.zone = absl::LocalTimeZone();
  terminal.interrupt = &interrupt;
  return mpsd::client::Run({argv + 1, argv + argc}, std::cout, std::cerr,
                           terminal);
}
