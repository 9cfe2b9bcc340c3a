// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/host/environment.h"
#include "server/jobs/job_files.h"
#include "server/jobs/job_queue.h"
#include "server/jobs/pause_gate.h"
#include "server/jobs/user_limits.h"
#include "server/notify/notice.h"

namespace mpsd {

// The settings of mpsd. Every field is an option of the command line and a key
// of the TOML file that --config names, unless the field says otherwise; --help
// lists them.
struct Config {
  std::filesystem::path state_dir;  // absolute
  std::filesystem::path worker;     // path of mpsd-worker
  // Addresses in addition to the unix socket STATE/mpsd.sock, on which mpsd
  // always listens. An address other than a unix socket or a loopback one needs
  // a certificate.
  std::vector<std::string> listen;
  // The certificate of the API's ports and its key, both or neither; absolute.
  std::filesystem::path tls_cert, tls_key;
  // The group that may use the unix sockets, by name or number; empty: none.
  std::string socket_group;
  // Users by name, for callers without a token. No user is in both.
  std::vector<std::string> admins, viewers;
  // Shows the spec, log, progress and results of a job only to its owner and to
  // admins.
  bool private_jobs = false;
  // Absolute folders of this machine that jobs may read, in addition to their
  // uploads and the Hugging Face cache. The default is "/" while mpsd listens
  // only on unix sockets, and no folder once it listens on a port.
  std::vector<std::filesystem::path> model_roots, data_roots;
  // "HOST:PORT" or "unix:PATH"; empty: off.
  std::string metrics_address = "127.0.0.1:9464";
  // A certificate with its key, both or neither, and the file of a bearer
  // token; absolute. Empty: plain HTTP, no token.
  std::filesystem::path metrics_tls_cert, metrics_tls_key, metrics_token_file;
  // The read-only web page: "HOST:PORT" of a loopback host or "unix:PATH";
  // empty: off.
  std::string http_listen;
  // The file that a worker locks while it uses the GPU; the mpsd of every user
  // of the machine locks the same file.
  std::filesystem::path device_lock;  // empty: off
  // Environment variables for this process and its workers, such as HF_HOME.
  std::map<std::string, std::string> environment;
  std::string log_level = "info";
  int64_t log_max_bytes = 10 << 20;  // size of a log file when it rotates
  int64_t log_files = 5;
  bool log_stderr = true;  // write the log to stderr too

  bool skip_selftest = false;  // skip the device's self-test
  absl::Duration hang_timeout = absl::Minutes(10);
  absl::Duration stop_grace = absl::Minutes(2);
  int32_t max_failures = 3;
  int32_t max_interruptions = 5;
  // Free bytes to keep on the state folder's disk: no upload begins that would
  // leave less, and no job starts with less.
  int64_t min_free_bytes = int64_t{1} << 30;
  // How long the blob store keeps a blob that no job uses.
  absl::Duration blob_grace = absl::Hours(24);
  // The state folder's budget: jobs that have ended are removed to keep it, the
  // oldest first; 0: no budget.
  int64_t state_budget = 0;
  // How long the audit keeps an entry; zero: forever.
  absl::Duration audit_keep = absl::Hours(24 * 365);
  absl::Duration retry_backoff = absl::Seconds(10);
  absl::Duration retry_backoff_max = absl::Minutes(10);
  // An owner's past use of the device counts half after this long; zero: the
  // queue is FIFO within priority.
  absl::Duration fair_share_half_life = absl::Hours(24);
  jobs::PreemptionPolicy preemption;
  absl::Duration metrics_linger = absl::Minutes(10);
  absl::Duration watchdog = absl::Minutes(4);  // zero: no watchdog

  // When jobs pause for the machine's other users.
  jobs::PausePolicy pause;
  absl::Duration host_interval = absl::Seconds(5);

  // The Hugging Face client that pulls models; empty: `hf`, looked up.
  std::string hf_command;
  // What users may have; a priority above 0 only if the settings say so.
  jobs::LimitSettings user_limits = {{.highest_priority = 0}, {}};

  notify::Settings notify;  // what to report to which program
  // Send a test to the program of `notify`, and exit. Not a key of the file.
  bool check_notify = false;
  // A JSON file that tests substitute for the machine's state; empty: the
  // machine.
  std::filesystem::path host_file;

  std::filesystem::path SocketPath() const { return state_dir / "mpsd.sock"; }
};

// --help, --version, --check-config: mpsd prints the text and exits.
struct PrintAndExit {
  std::string text;
};

// Merges in order of precedence: `args` (without the program's name), the file
// that they name, MPSD_STATE_DIR and the defaults. InvalidArgument names the
// option or key; an unknown one is an error, in the file too.
absl::StatusOr<std::variant<Config, PrintAndExit>> ParseConfig(
    const std::vector<std::string>& args);

// Who may be served on which address. InvalidArgument, naming the option:
//   --listen           a port beyond loopback only with a certificate;
//   --tls-*            the certificate and its key come together;
//   --http-listen      a unix socket or a loopback host alone: the page has
//                      neither TLS nor tokens, and shows specs and logs;
//   --metrics-tls-*    the certificate and its key come together;
//   --metrics-token-file  on a port beyond loopback only with TLS, since others
//                      could read the token. Metrics without a token stay
//                      allowed there: they show names and numbers of jobs and
//                      change nothing.
absl::Status CheckAddresses(const Config& config);

// Where mpsd listens, human-readable, a line per address: "API on
// unix:/srv/mpsd/mpsd.sock", "metrics on http://127.0.0.1:9464/metrics".
std::vector<std::string> AddressLines(const Config& config);

// A file that every user may lock: on a Mac /Users/Shared/mpsd-gpu.lock, on
// Linux with a CUDA device /var/tmp/mpsd-gpu.lock. Empty without a GPU.
std::filesystem::path DefaultDeviceLock();
// mpsd-worker in the folder of the running program.
std::filesystem::path DefaultWorker();

// The folders below which jobs may name models and data: those of the
// configuration, and the Hugging Face cache.
jobs::JobFiles::ReadFolders FoldersJobsRead(const Config& config);
// The same in one list: what a worker may read, except that it reads nothing in
// the state folder but its own job's inputs.
std::vector<std::string> FoldersWorkersRead(const Config& config);
// This process' environment without secrets, plus the table [environment].
host::Environment WorkersEnvironment(const Config& config);

}  // namespace mpsd
