// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_CONFIG_H_
#define MPSD_SERVER_CONFIG_H_

#include <cstdint>
#include <filesystem>
#include <map>
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
  // Beside the unix socket STATE/mpsd.sock, which is always there. Beyond unix
  // sockets only with insecure_listen.
  std::vector<std::string> listen;
  bool insecure_listen = false;
  // What jobs may read of this machine, beside what is uploaded for them and
  // the Hugging Face cache: absolute. While nobody but the daemon's own user
  // reaches it, "/"; behind a port nothing that is not named.
  std::vector<std::filesystem::path> model_roots, data_roots;
  std::string metrics_address = "127.0.0.1:9464";  // empty: off
  // Locked by the worker that uses the GPU, of whichever mpsd of the machine.
  std::filesystem::path device_lock;  // empty: off
  // Of this process and of workers: HF_HOME, say.
  std::map<std::string, std::string> environment;
  std::string log_level = "info";
  int64_t log_max_bytes = 10 << 20;  // of one file, before it rotates
  int64_t log_files = 5;
  bool log_stderr = true;  // log there too

  bool skip_selftest = false;  // of the device, before the first job
  absl::Duration hang_timeout = absl::Minutes(10);
  absl::Duration stop_grace = absl::Minutes(2);
  int32_t max_failures = 3;
  int32_t max_interruptions = 5;
  // Of the state folder's disk: no upload begins that would leave less, and no
  // job starts with less.
  int64_t min_free_bytes = int64_t{1} << 30;
  // How long a blob that no job uses is kept.
  absl::Duration blob_grace = absl::Hours(24);
  absl::Duration retry_backoff = absl::Seconds(10);
  absl::Duration retry_backoff_max = absl::Minutes(10);
  absl::Duration metrics_linger = absl::Minutes(10);
  absl::Duration watchdog = absl::Minutes(4);  // zero: none

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

// Where every user may lock a file: on a Mac /Users/Shared/mpsd-gpu.lock, on
// Linux with a CUDA device /var/tmp/mpsd-gpu.lock. Empty without a GPU.
std::filesystem::path DefaultDeviceLock();

// mpsd-worker in the folder of the running program.
std::filesystem::path DefaultWorker();

}  // namespace mpsd

#endif  // MPSD_SERVER_CONFIG_H_
