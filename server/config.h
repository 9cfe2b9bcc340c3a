// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_CONFIG_H_
#define MPSD_SERVER_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/jobs/pause_gate.h"

namespace mpsd {

// What mpsd was told to be. Every field is an option of the command line and a
// key of the TOML file that --config names; Help has the list.
struct Config {
  std::filesystem::path state_dir;  // absolute
  std::filesystem::path worker;     // mpsd-worker
  // Beside the unix socket STATE/mpsd.sock, which is always there.
  std::vector<std::string> listen;
  std::string metrics_address = "127.0.0.1:9464";  // empty: off
  std::string log_level = "info";
  int64_t log_max_bytes = 10 << 20;  // of one file, before it rotates
  int64_t log_files = 5;
  bool log_stderr = true;  // log there too

  bool skip_selftest = false;  // of the device, before the first job
  absl::Duration hang_timeout = absl::Minutes(10);
  absl::Duration stop_grace = absl::Minutes(2);
  int32_t max_failures = 3;
  absl::Duration retry_backoff = absl::Seconds(10);
  absl::Duration retry_backoff_max = absl::Minutes(10);
  absl::Duration metrics_linger = absl::Minutes(10);

  // What the people who share the machine asked for.
  jobs::PausePolicy pause;
  absl::Duration host_interval = absl::Seconds(5);
  // A JSON file that stands for the machine, of tests; empty: the machine.
  std::filesystem::path host_file;

  std::filesystem::path SocketPath() const { return state_dir / "mpsd.sock"; }
};

// --help and --version: print and leave.
struct PrintAndExit {
  std::string text;
};

// Of `args` (without the program's name), the file they name, MPSD_STATE_DIR
// and the defaults, the earlier winning over the later. InvalidArgument names
// the option or key: unknown ones are errors, in the file too.
absl::StatusOr<std::variant<Config, PrintAndExit>> ParseConfig(
    const std::vector<std::string>& args);

// ~/.local/state/mpsd; on macOS ~/Library/Application Support/mpsd. Empty
// without HOME.
std::filesystem::path DefaultStateDir();

// mpsd-worker in the folder of the running program.
std::filesystem::path DefaultWorker();

}  // namespace mpsd

#endif  // MPSD_SERVER_CONFIG_H_
