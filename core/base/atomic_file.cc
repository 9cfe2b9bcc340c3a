// SPDX-License-Identifier: Apache-2.0
#include "core/base/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/work_count.h"

namespace mpsd::base {
namespace fs = std::filesystem;
namespace {

constexpr char kTemporary[] = ".tmp";
// Bytes per write(): each call counts as work, so that watchers of WorkCount
// see a slow disk make progress.
constexpr size_t kMaxWrite = 16 << 20;

absl::Status SyncFd(int fd, const fs::path& path) {
#ifdef __APPLE__
  // fsync on macOS leaves the bytes in the drive's cache.
  if (fcntl(fd, F_FULLFSYNC) == 0) return absl::OkStatus();
#endif
  if (fsync(fd) != 0) return ErrnoStatus(errno, path.string());
  return absl::OkStatus();
}

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

}  // namespace

absl::Status SyncPath(const fs::path& path, int flags) {
  const int fd = open(path.c_str(), flags | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path.string());
  absl::Status status = SyncFd(fd, path);
  close(fd);
  return status;
}

fs::path TemporaryBeside(const fs::path& path) {
  static std::atomic<int> counter{0};
  return path.parent_path() / absl::StrCat(".", path.filename().string(), ".",
                                           getpid(), ".", ++counter,
                                           kTemporary);
}

bool IsUnfinished(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.starts_with(".") && name.ends_with(kTemporary);
}

absl::StatusOr<std::unique_ptr<AtomicFile>> AtomicFile::Create(
    const fs::path& path) {
  fs::path temporary = TemporaryBeside(path);
  const int fd =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  // The user gave `path` and does not know the temporary file.
  if (fd < 0) return ErrnoStatus(errno, path.string());
  return absl::WrapUnique(new AtomicFile(path, std::move(temporary), fd));
}

AtomicFile::AtomicFile(fs::path path, fs::path temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

AtomicFile::~AtomicFile() {
  Close();
  if (!committed_) unlink(temporary_.c_str());
}

void AtomicFile::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

absl::Status AtomicFile::Append(std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t size = std::min(bytes.size(), kMaxWrite);
    const ssize_t n = write(fd_, bytes.data(), size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path_.string());
    bytes.remove_prefix(n);
    CountWork();
  }
  return absl::OkStatus();
}

absl::Status AtomicFile::Commit() {
  absl::Status status = SyncFd(fd_, path_);
  if (status.ok()) status = CommitUnsynced();
  return status.ok() ? SyncPath(ParentOf(path_), O_RDONLY | O_DIRECTORY)
                     : status;
}

absl::Status AtomicFile::CommitUnsynced() {
  Close();
  if (rename(temporary_.c_str(), path_.c_str()) != 0) {
    return ErrnoStatus(errno, path_.string());
  }
  committed_ = true;
  return absl::OkStatus();
}

}  // namespace mpsd::base
