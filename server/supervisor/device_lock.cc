// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/file.h"

namespace mpsd::supervisor {

namespace {

// O_NONBLOCK: opening a pipe without a writer would block.
constexpr int kFlags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

}  // namespace

DeviceLock::DeviceLock(std::string path,
                       std::function<void(const std::string&)> log)
    : path_(std::move(path)), log_(std::move(log)) {}

absl::StatusOr<UniqueFd> DeviceLock::Acquire() {
  if (path_.empty()) return UniqueFd();
  absl::StatusOr<UniqueFd> fd = Open();
  if (!fd.ok()) {
    if (!std::exchange(said_, true)) {
      log_(absl::StrCat(
          "nothing keeps other daemons off the GPU: ", fd.status().message(),
          "; name another file with --device-lock, or off"));
    }
    return UniqueFd();
  }
  said_ = false;
  if (flock(fd->get(), LOCK_EX | LOCK_NB) == 0) return fd;
  if (errno != EWOULDBLOCK) return base::ErrnoStatus(errno, path_);
  return absl::UnavailableError(absl::StrCat(
      "another mpsd uses the GPU (it holds ", path_,
      "; for another device of this machine name another --device-lock)"));
}

absl::StatusOr<UniqueFd> DeviceLock::Open() const {
  // Without O_CREAT at first: in a sticky folder Linux refuses O_CREAT for
  // another user's file.
  UniqueFd fd(open(path_.c_str(), kFlags));
  if (!fd.valid() && errno == ENOENT) {
    fd.reset(open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0444));
    // Lets every user open and lock the file, whatever the umask.
    if (fd.valid()) fchmod(fd.get(), 0444);
    if (!fd.valid() && errno == EEXIST) fd.reset(open(path_.c_str(), kFlags));
  }
  if (!fd.valid()) return base::ErrnoStatus(errno, path_);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return base::ErrnoStatus(errno, path_);
  if (S_ISREG(info.st_mode)) return fd;
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": not a regular file"));
}

namespace {

// The pid in the file; 0 if the file contains none.
pid_t RecordedPid(int fd) {
  char text[32] = {};
  const ssize_t n = pread(fd, text, sizeof text - 1, 0);
  int32_t pid = 0;
  if (n <= 0 || !absl::SimpleAtoi(text, &pid) || pid <= 1) return 0;
  return pid;
}

}  // namespace

WorkerLease::WorkerLease(std::string path, absl::Duration patience,
                         const base::Clock& clock)
    : path_(std::move(path)), patience_(patience), clock_(clock) {}

absl::StatusOr<UniqueFd> WorkerLease::Acquire() {
  UniqueFd fd(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!fd.valid()) return base::ErrnoStatus(errno, path_);
  if (flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return base::ErrnoStatus(errno, path_);
    return Refuse(fd.get());
  }
  refused_since_.reset();
  if (ftruncate(fd.get(), 0) != 0) return base::ErrnoStatus(errno, path_);
  return fd;
}

absl::Status WorkerLease::Refuse(int fd) {
  const absl::Duration now = clock_.Monotonic();
  if (!refused_since_) refused_since_ = now;
  const pid_t pid = RecordedPid(fd);
  std::string message = "a worker of an earlier mpsd still runs";
  if (pid > 0) absl::StrAppend(&message, ", pid ", pid);
  if (pid > 0 && now - *refused_since_ >= patience_) {
    // The pid cannot have been reused: the process that holds the lock is
    // alive, and the file names that process.
    kill(-pid, SIGKILL);
    absl::StrAppend(&message, "; it took too long and was killed");
  }
  return absl::UnavailableError(message);
}

absl::Status WorkerLease::Record(const UniqueFd& lease, pid_t pid) {
  base::Check(lease.valid() && pid > 0, "a running worker has the lease");
  const std::string text = absl::StrCat(pid, "\n");
  if (pwrite(lease.get(), text.data(), text.size(), 0) < 0) {
    return base::ErrnoStatus(errno, "the worker lease");
  }
  return absl::OkStatus();
}

}  // namespace mpsd::supervisor
