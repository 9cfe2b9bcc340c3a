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

// The right to the device, as a file lock that the worker holds, not the
// daemon: the worker inherits the descriptor, so the lock ends with the last
// process that has it. A daemon that starts after a kill -9 finds the lock
// taken while the old worker writes its last checkpoint. The file names the
// worker's pid. One thread at a time.
class WorkerLease {
 public:
  // Acquire() kills a worker of an earlier daemon that still holds the lease
  // `patience` after the first refused Acquire().
  WorkerLease(std::string path, absl::Duration patience,
              const base::Clock& clock);

  // Returns the lock, which ends when its last copy is closed. Unavailable,
  // naming the other process, while another process has the lock.
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
