// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/host/environment.h"
#include "core/host/host.h"
#include "core/host/machine.h"
#include "core/report/runbook.h"

// What the doctor knows of the daemon's machine. An unknown value is absent, or
// an empty string; no default stands in for a measurement.

namespace mpsd::doctor {

// The most environment variables that are recorded and compared.
inline constexpr size_t kMostVariables = 100;

struct Machine {
  std::string architecture;  // of mpsd
  std::optional<bool> translated;
  std::string system;
  std::string macos_version;  // "": not a Mac
  std::string chip;
  bool nvidia = false;  // has an NVIDIA card
  host::Cores cores;
  std::optional<int> gpu_cores;
  int64_t memory_bytes = 0;  // 0: unknown
};

struct Backend {
  std::string name;
  bool built = false;
  bool available = false;
  std::string device;
  std::string problem;
};

struct Matmul {
  std::string asked_device, result_device;
  bool right = false;
  double seconds = 0;
};

// The output of `mpsd-worker --gates`, and how it ended.
struct WorkerGates {
  enum class End { kNotRun, kDone, kCrashed, kTooSlow, kNoSense };
  End end = End::kNotRun;
  std::string problem;  // why not kDone
  absl::Time time = absl::InfinitePast();
  std::string worker_version;
  int protocol_version = 0;
  std::string torch_version, built_against;
  std::vector<Backend> backends;
  std::optional<Matmul> matmul;
  host::Environment environment;  // of the variables that matter
};

struct Selftest {
  enum class State { kUnknown, kPassed, kFailed, kNothingToTest, kSkipped };
  State state = State::kUnknown;
  bool running = false;
  std::string device;
  std::string summary;  // of a test that did not pass
  std::optional<absl::Time> time;
};

// A measurement and its time.
struct DiskSpeed {
  double write_bytes_per_second = 0;
  double read_bytes_per_second = 0;
  absl::Time time;
};

struct Disk {
  std::optional<int64_t> free_bytes, size_bytes;
  // No job starts with less free space (--min-free-bytes).
  int64_t min_free_bytes = 0;
  std::optional<DiskSpeed> speed;
  std::string speed_problem;  // why there is no measurement
};

// A folder that jobs use, and its volume.
struct FolderMount {
  std::string what;  // "state", "cache", "models", "data"
  std::string folder;
  std::optional<host::Mount> mount;
};

// Another program.
struct OtherProcess {
  int64_t pid = 0;
  std::string name;
  std::optional<int64_t> memory_bytes;
  bool uses_gpu = false;
};

// The file by which a service manager starts mpsd.
struct Service {
  std::string manager;  // "launchd", "systemd"
  std::string file;     // "": none was found
  std::optional<bool> runs_mpsd;
  host::Environment environment;  // all that the file sets
  std::string process_type;       // launchd's
  std::optional<int64_t> descriptors;
  std::optional<double> stop_seconds;
};

struct Facts {
  absl::Time time;  // the daemon's clock
  std::string mpsd_version;
  int protocol_version = 0;
  Machine machine;
  host::Reading host;
  std::string running_job;  // "": the device is free
  WorkerGates worker;
  Selftest selftest;
  Disk disk;
  std::vector<FolderMount> mounts;
  std::optional<std::vector<OtherProcess>> processes;
  std::optional<int64_t> open_descriptors;
  host::ProcessLimits limits;
  Service service;
  double stop_grace_seconds = 0;  // what a worker gets for its checkpoint
  // The table [environment] of mpsd.toml, which overrides the service's file.
  host::Environment configured;
  // The relevant variables of mpsd, and of a worker as mpsd starts it.
  host::Environment daemon_environment, expected_environment;
};

// A text of another program or of a file: one line without terminal control
// characters, of at most 256 bytes.
std::string Foreign(std::string_view text);

using Findings = std::vector<runbook::Finding>;

// What each gate finds, in reading order. A gate without facts is a finding
// "unknown"; one that does not apply to this kind of machine is no finding.
Findings Judge(const Facts& facts, const runbook::Thresholds& thresholds);

// Gathers the facts. Thread-safe.
class Examiner {
 public:
  virtual ~Examiner() = default;

  // Takes seconds: starts a worker to look, unless one did a moment ago. Only
  // one caller at a time has one started; others wait and get the same result.
  // With `deep` the disk is measured, too, and the self-test of the device
  // begins, unless a job has the device or a test runs; its end is not awaited.
  // `wanted` is called from time to time; if it is not OK, its status is the
  // result.
  virtual absl::StatusOr<Facts> Examine(
      bool deep, const std::function<absl::Status()>& wanted) = 0;
};

// One relevant variable, by where its value is from; absent where it is not
// set. A value that may be a secret is "set". Texts are as Foreign.
struct Variable {
  std::string name;
  // `service`: of mpsd.toml if that names the variable, too.
  std::optional<std::string> service, daemon, expected, worker;
  // What drifted, human-readable; empty: nothing did.
  std::string drift;
};

// The relevant variables of the service's file (and mpsd.toml's [environment],
// which overrides it), the daemon and the worker, by name, at most 100: those
// that drifted are never omitted for others. A variable drifted
//
//   - if mpsd is the service, and has another value than the file, or has
//     one that the file does not name (the locale's and the time zone's, which
//     the service manager itself may set, do not count);
//   - if the worker reported its own, and has another value than mpsd gives it.
std::vector<Variable> CompareEnvironments(const Facts& facts);

}  // namespace mpsd::doctor
