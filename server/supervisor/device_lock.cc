// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/device_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"

namespace mpsd::supervisor {
namespace {

// O_NONBLOCK: opening a pipe that nobody writes to would block.
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
  // Without O_CREAT at first: in a sticky folder Linux refuses O_CREAT for a
  // file that another user made.
  UniqueFd fd(open(path_.c_str(), kFlags));
  if (!fd.valid() && errno == ENOENT) {
    fd.reset(open(path_.c_str(), kFlags | O_CREAT | O_EXCL, 0444));
    // Lets everybody open and lock the file, whatever the umask.
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

}  // namespace mpsd::supervisor
