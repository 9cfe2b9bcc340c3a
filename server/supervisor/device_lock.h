// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_
#define MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/clock.h"

namespace mpsd::supervisor {

// An open descriptor with one owner, or none (-1).
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(other.release()) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

// Keeps the GPU for one daemon at a time, whichever user runs it: a lock on a
// file in a folder that every user may write. As with WorkerLease, the worker
// holds the lock through its own descriptor. The file is empty and is opened
// only for reading, never through a link. If something else is at the path, the
// lock logs that once and lets jobs train without it. One thread at a time.
class DeviceLock {
 public:
  // `path`: empty for no lock.
  DeviceLock(std::string path, std::function<void(const std::string&)> log);

  // Returns the lock, which ends when its last copy is closed; an invalid
  // descriptor if there is no path or no usable file. Unavailable while another
  // process has the lock.
  absl::StatusOr<UniqueFd> Acquire();

 private:
  absl::StatusOr<UniqueFd> Open() const;

  const std::string path_;
  const std::function<void(const std::string&)> log_;
  bool said_ = false;
};

// The right to the device, as a file lock that the worker holds, not the
// daemon: the worker inherits the descriptor, so the lock ends with the last
// process that has it. A daemon that starts after a kill -9 finds the lock
// taken while the old worker writes its last checkpoint. The file contains the
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

  // Records that `pid` has inherited `lease`.
  static absl::Status Record(const UniqueFd& lease, pid_t pid);

 private:
  absl::Status Refuse(int fd);

  const std::string path_;
  const absl::Duration patience_;
  const base::Clock& clock_;
  std::optional<absl::Duration> refused_since_;
};

}  // namespace mpsd::supervisor

#endif  // MPSD_SERVER_SUPERVISOR_DEVICE_LOCK_H_
