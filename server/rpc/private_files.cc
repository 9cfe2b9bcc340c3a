// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/private_files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::pki {
namespace fs = std::filesystem;
namespace {

absl::Status Failed(const fs::path& path) {
  return base::ErrnoStatus(errno, path.string());
}

absl::Status WriteAll(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Failed(path);
    bytes.remove_prefix(n);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteNew(const fs::path& path, std::string_view bytes,
                      mode_t mode) {
  const int fd =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
           kSecretMode);
  if (fd < 0) return Failed(path);
  // The umask does not apply to fchmod.
  absl::Status status =
      fchmod(fd, mode) == 0 ? WriteAll(fd, bytes, path) : Failed(path);
  close(fd);
  if (status.ok()) status = base::SyncPath(path, O_RDONLY);
  if (!status.ok()) unlink(path.c_str());
  return status;
}

absl::Status Replace(const fs::path& path, std::string_view bytes,
                     mode_t mode) {
  const fs::path temporary = base::TemporaryBeside(path);
  absl::Status status = WriteNew(temporary, bytes, mode);
  if (!status.ok()) return status;
  if (rename(temporary.c_str(), path.c_str()) != 0) {
    status = Failed(path);
    unlink(temporary.c_str());
    return status;
  }
  return base::SyncPath(path.parent_path(), O_RDONLY | O_DIRECTORY);
}

absl::Status MakePrivateFolder(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::OkStatus();
  const fs::path above = path.parent_path();
  if (above != path) {
    RETURN_IF_ERROR(MakePrivateFolder(above));
  }
  if (mkdir(path.c_str(), 0700) != 0) return Failed(path);
  return absl::OkStatus();
}

void RemoveUnfinished(const fs::path& folder, std::string_view name) {
  const std::string prefix = absl::StrCat(".", std::string(name), ".");
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const std::string found = entry.path().filename().string();
    if (base::IsUnfinished(entry.path()) && found.starts_with(prefix)) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

AsOwnerOf::AsOwnerOf(fs::path folder) {
  if (geteuid() != 0) return;
  struct stat owner;
  while (stat(folder.c_str(), &owner) != 0) {
    if (!folder.has_relative_path()) return;
    folder = folder.parent_path();
  }
  if (owner.st_uid == 0) return;
  // The group first: another user than root may not change it.
  changed_ = true;
  static_cast<void>(setegid(owner.st_gid) == 0 && seteuid(owner.st_uid) == 0);
}

AsOwnerOf::~AsOwnerOf() {
  if (!changed_) return;
  static_cast<void>(seteuid(0) == 0 && setegid(0) == 0);
}

absl::StatusOr<std::unique_ptr<FolderLock>> FolderLock::Take(
    const fs::path& folder) {
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Failed(folder);
  auto lock = absl::WrapUnique(new FolderLock(fd));
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return Failed(folder);
  return absl::UnavailableError(absl::StrCat(
      folder.string(), ": another `mpsd tls` is running; try again"));
}

FolderLock::~FolderLock() { close(fd_); }

}  // namespace mpsd::pki
