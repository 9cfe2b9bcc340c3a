// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_GATES_RUN_H_
#define MPSD_SERVER_SUPERVISOR_GATES_RUN_H_

#include <functional>
#include <map>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::supervisor {

struct GatesOptions {
  std::string worker_path;
  // The child's whole environment.
  std::map<std::string, std::string> environment;
  // In which the worker gets a folder for its temporary files, as for jobs;
  // "": it gets none.
  std::string temporary_dir;
  absl::Duration limit = absl::Seconds(40);
};

// How `mpsd-worker --gates` ended.
struct GatesRun {
  std::string output;         // what it printed, cut at 256 KiB
  std::optional<int> status;  // as waitpid gives it; nullopt: killed, too slow
};

// Starts the worker, reads what it prints until it ends, and kills it after its
// time, and whatever it started. Without the lock of the device: the worker
// takes some megabytes of it for a moment. Asks `wanted` several times a
// second; where that is not OK, kills the worker and returns it. The errors of
// the start name the program.
absl::StatusOr<GatesRun> RunGates(const GatesOptions& options,
                                  const std::function<absl::Status()>& wanted);

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_GATES_RUN_H_
