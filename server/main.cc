// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#ifdef __linux__
#include <malloc.h>
#endif
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "core/host/environment.h"
#include "server/config.h"
#include "server/daemon.h"
#include "server/notify/notifier.h"
#include "server/process.h"
#include "server/rpc/server.h"
#include "server/tls_command.h"

namespace {

// sysexits.h: EX_USAGE, EX_UNAVAILABLE, EX_IOERR.
constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;
constexpr int kExitUnstored = 74;
// How long calls in progress and the database's last flush may take once the
// queue is stored.
constexpr absl::Duration kEndPatience = absl::Seconds(10);

int Complain(const absl::Status& status, int exit_code) {
  std::fprintf(stderr, "mpsd: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

// Ends the process after kEndPatience, however long a hanging disk would block
// the end.
void EndInTime() {
  std::thread([] {
    absl::SleepFor(kEndPatience);
    _exit(0);
  }).detach();
}

// Opens /dev/null for a closed standard stream: otherwise the next file opened
// would get the stream's number, and messages for the stream would be written
// into that file.
void KeepStandardStreams() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (fcntl(fd, F_GETFD) < 0) open("/dev/null", O_RDWR);
  }
}

int Serve(const mpsd::Config& config) {
  // Set before any thread is started; workers inherit the variables.
  for (const auto& [name, value] : config.environment) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }
#ifdef __linux__
  // One heap: glibc would keep what a large request took once per thread.
  mallopt(M_ARENA_MAX, 1);
#endif
  // gRPC would write a line to stderr for each failed connection, as many as
  // strangers like.
  setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0);
  mpsd::rpc::RefuseOldTls();
  absl::StatusOr<std::unique_ptr<mpsd::Daemon>> daemon =
      mpsd::Daemon::Start(config);
  if (!daemon.ok()) return Complain(daemon.status(), kExitUnavailable);
  const int number = mpsd::AwaitShutdownSignal([&] { (*daemon)->Reload(); });
  (*daemon)->log().info("signal {}; a second one ends mpsd at once", number);
  if (!(*daemon)->Drain()) {
    // A disk that hangs may hang the log as well, so another thread logs.
    std::thread([] {
      std::fputs("mpsd: ends without having written the queue\n", stderr);
    }).detach();
    absl::SleepFor(absl::Milliseconds(100));
    _exit(kExitUnstored);
  }
  EndInTime();
  return 0;
}

// Sends the command a test and prints the result.
int CheckNotify(const mpsd::Config& config) {
  namespace notify = mpsd::notify;
  if (config.notify.command.empty()) {
    return Complain(absl::InvalidArgumentError(
                        "--check-notify: there is no --notify-command"),
                    kExitUsage);
  }
  const notify::Delivery delivery = notify::SendTest(
      config.notify, notify::ThisSender(), mpsd::host::CurrentEnvironment());
  const bool sent = delivery.outcome == notify::Delivery::Outcome::kSent;
  std::printf("%s%s\n", sent ? "sent" : "not sent: ", delivery.why.c_str());
  return sent ? 0 : kExitUnavailable;
}

}  // namespace

int main(int argc, char** argv) {
  KeepStandardStreams();
  umask(077);
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (argc > 1 && arguments[0] == "tls") {
    return mpsd::TlsCommand({arguments.begin() + 1, arguments.end()}, std::cout,
                            std::cerr);
  }
  mpsd::BlockSignals();
  const auto parsed = mpsd::ParseConfig(arguments);
  if (!parsed.ok()) return Complain(parsed.status(), kExitUsage);
  if (const auto* print = std::get_if<mpsd::PrintAndExit>(&*parsed)) {
    std::fputs(print->text.c_str(), stdout);
    return 0;
  }
  const mpsd::Config& config = std::get<mpsd::Config>(*parsed);
  return config.check_notify ? CheckNotify(config) : Serve(config);
}
