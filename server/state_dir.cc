// SPDX-License-Identifier: Apache-2.0
#include "server/state_dir.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd {
namespace fs = std::filesystem;
namespace {

absl::Status MakePrivate(const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) return base::ErrnoStatus(error.value(), path.string());
  if (mkdir(path.c_str(), 0700) == 0) return absl::OkStatus();
  const int mkdir_error = errno;
  if (mkdir_error == EEXIST && fs::is_directory(path, error)) {
    return absl::OkStatus();
  }
  return base::ErrnoStatus(mkdir_error, path.string());
}

absl::Status InUse(const fs::path& path) {
  const absl::StatusOr<std::string> pid = base::ReadFile(path / "lock");
  return absl::UnavailableError(absl::StrCat(
      "another mpsd (pid ",
      pid.ok() ? std::string(absl::StripAsciiWhitespace(*pid)) : "unknown",
      ") uses ", path.string(),
      ": stop it, or choose another folder with --state-dir"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDir>> StateDir::Open(const fs::path& path) {
  RETURN_IF_ERROR(MakePrivate(path));
  const std::string file = path / "lock";
  const int fd = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return base::ErrnoStatus(errno, file);
  std::unique_ptr<StateDir> dir(new StateDir(path, fd));
  if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return InUse(path);
    return base::ErrnoStatus(errno, file);
  }
  const std::string pid = absl::StrCat(getpid(), "\n");
  if (ftruncate(fd, 0) != 0 || pwrite(fd, pid.data(), pid.size(), 0) !=
                                   static_cast<ssize_t>(pid.size())) {
    return base::ErrnoStatus(errno, file);
  }
  return dir;
}

StateDir::~StateDir() { close(fd_); }

}  // namespace mpsd
