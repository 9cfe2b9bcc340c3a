// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_WORKER_LEASE_H_
#define MPSD_SERVER_SUPERVISOR_WORKER_LEASE_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"
#include "server/supervisor/unique_fd.h"

namespace mpsd::supervisor {

// The device as a file lock that the worker holds, not the daemon: it inherits
// the descriptor, so that the lock ends with the last process that has it. A
// daemon started after a kill -9 finds it taken while the old worker writes
// its last checkpoint. The file names the worker's pid. One thread at a time.
class WorkerLease {
 public:
  // A worker of an earlier daemon is killed when it still holds the lease
  // `patience` after the first refused Acquire().
  WorkerLease(std::string path, absl::Duration patience,
              const base::Clock& clock);

  // The lock, given up when its last copy is closed. Unavailable while another
  // process has it, naming that process.
  absl::StatusOr<UniqueFd> Acquire();

  // Notes that `pid` has inherited `lease`.
  static absl::Status Record(const UniqueFd& lease, pid_t pid);

 private:
  absl::Status Refuse(int fd);

  const std::string path_;
  const absl::Duration patience_;
  const base::Clock& clock_;
  std::optional<absl::Duration> refused_since_;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_WORKER_LEASE_H_
