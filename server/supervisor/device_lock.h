// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_
#define MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "server/supervisor/unique_fd.h"

namespace mpsd::supervisor {

// Keeps the GPU for one daemon at a time, whichever user runs it: a lock on a
// file in a folder that every user may write. As with WorkerLease, the worker
// holds the lock by a descriptor of its own. The file is empty and is opened
// for reading alone, never through a link. If something else lies at the path,
// the lock logs that once and lets jobs train without it. One thread at a time.
class DeviceLock {
 public:
  // `path`: empty for no lock.
  DeviceLock(std::string path, std::function<void(const std::string&)> log);

  // Returns the lock, which ends when its last copy is closed; an invalid
  // descriptor where there is no path or no usable file. Unavailable while
  // another process has the lock.
  absl::StatusOr<UniqueFd> Acquire();

 private:
  absl::StatusOr<UniqueFd> Open() const;

  const std::string path_;
  const std::function<void(const std::string&)> log_;
  bool said_ = false;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_
