// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "client/app.h"

namespace {

// The output's terminal size; 80×24 if it is not a terminal.
winsize ScreenSize() {
  winsize size = {};
  const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  if (!known || size.ws_col == 0) size.ws_col = 80;
  if (!known || size.ws_row == 0) size.ws_row = 24;
  return size;
}

void EndBySignal(int signal) {
  ::signal(signal, SIG_DFL);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  raise(signal);
}

// Blocks SIGINT in every thread except one that waits for it, so that the
// handler may lock and call gRPC. Must run before any other thread starts.
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

// Opens /dev/null for a closed standard descriptor, so that no connection gets
// its number; writing to it fails.
void KeepStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // open returns the lowest free number, which is `fd`.
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDONLY);
  }
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardDescriptors();
  // `mpsctl list | head -1` ends like any filter, even if the program that
  // started it ignores the signal.
  ::signal(SIGPIPE, SIG_DFL);
  // gRPC would print its own messages about a connection as well.
  setenv("GRPC_VERBOSITY", "NONE", 0);
  // Static, because the thread that waits for signals outlives main.
  static mpsd::client::Interrupt interrupt;
  CatchInterrupts(interrupt);
  mpsd::client::Terminal terminal;
  terminal.is_tty = isatty(STDOUT_FILENO) == 1;
  terminal.columns = [] { return ScreenSize().ws_col; };
  terminal.rows = [] { return ScreenSize().ws_row; };
  terminal.utf8 = mpsd::client::IsUtf8Locale(
      getenv("LC_ALL"), getenv("LC_CTYPE"), getenv("LANG"));
  terminal.zone = absl::LocalTimeZone();
  terminal.interrupt = &interrupt;
  return mpsd::client::Run({argv + 1, argv + argc}, std::cout, std::cerr,
                           terminal);
}
