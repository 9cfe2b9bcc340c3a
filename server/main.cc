// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include <cstdio>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "server/config.h"
#include "server/daemon.h"
#include "server/signals.h"

namespace {

// sysexits.h: EX_USAGE, EX_UNAVAILABLE.
constexpr int kExitUsage = 64;
constexpr int kExitUnavailable = 69;

int Complain(const absl::Status& status, int exit_code) {
  std::fprintf(stderr, "mpsd: %s\n", std::string(status.message()).c_str());
  return exit_code;
}

int Serve(const mpsd::Config& config) {
  absl::StatusOr<std::unique_ptr<mpsd::Daemon>> daemon =
      mpsd::Daemon::Start(config);
  if (!daemon.ok()) return Complain(daemon.status(), kExitUnavailable);
  const int number = mpsd::AwaitShutdownSignal();
  (*daemon)->log().info("signal {}; a second one ends mpsd at once", number);
  (*daemon)->Drain();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  mpsd::BlockShutdownSignals();
  umask(077);
  const auto parsed =
      mpsd::ParseConfig(std::vector<std::string>(argv + 1, argv + argc));
  if (!parsed.ok()) return Complain(parsed.status(), kExitUsage);
  if (const auto* print = std::get_if<mpsd::PrintAndExit>(&*parsed)) {
    std::fputs(print->text.c_str(), stdout);
    return 0;
  }
  return Serve(std::get<mpsd::Config>(*parsed));
}
