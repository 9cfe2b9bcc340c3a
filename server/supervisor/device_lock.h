// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_
#define MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/supervisor/unique_fd.h"

namespace mpsd::supervisor {

// The GPU among all daemons of a machine, whoever runs them: a lock on a file
// in a folder that every user may write. As with WorkerLease the worker holds
// it, by a descriptor of its own. The file is opened for reading alone, never
// through a link, and holds nothing. What somebody else put there that is no
// such file is said once and does not keep jobs from training. One thread at a
// time.
class DeviceLock {
 public:
  // `path`: empty for none.
  DeviceLock(std::string path, std::function<void(const std::string&)> log);

  // The lock, given up when its last copy is closed; none where there is no
  // path or no such file to be had. Unavailable while another has it.
  absl::StatusOr<UniqueFd> Acquire();

 private:
  absl::StatusOr<UniqueFd> Open() const;

  const std::string path_;
  const std::function<void(const std::string&)> log_;
  bool said_ = false;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_
