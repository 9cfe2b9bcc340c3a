// SPDX-License-Identifier: Apache-2.0
#include "client/daemons/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::client {
namespace fs = std::filesystem;
namespace {

class OwnFd {
 public:
  explicit OwnFd(int fd) : fd_(fd) {}
  ~OwnFd() {
    if (fd_ >= 0) close(fd_);
  }
  OwnFd(const OwnFd&) = delete;
  OwnFd& operator=(const OwnFd&) = delete;
  int get() const { return fd_; }
  int Release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

absl::Status Refused(const fs::path& path, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat(path.string(), ": ", why));
}

// Whether only this account can use the open file.
absl::Status CheckPrivate(int fd, const fs::path& path, const char* mode) {
  struct stat info;
  if (fstat(fd, &info) != 0) return base::ErrnoStatus(errno, path.string());
  if (info.st_uid != geteuid()) {
    return Refused(path,
                   absl::StrCat("belongs to another account (uid ", info.st_uid,
                                "), so its secrets are not trusted"));
  }
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return Refused(path, absl::StrCat("other accounts may use it, and it holds "
                                      "secrets; run: chmod ",
                                      mode, " '", path.string(), "'"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(int fd, const fs::path& path,
                                    size_t max_bytes) {
  std::string bytes;
  char piece[1 << 14];
  while (true) {
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path.string());
    if (n == 0) return bytes;
    bytes.append(piece, static_cast<size_t>(n));
    if (bytes.size() > max_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path.string(), ": longer than ", max_bytes, " bytes"));
    }
  }
}

absl::Status WriteAll(int fd, const fs::path& path, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return base::ErrnoStatus(errno, path.string());
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  if (fsync(fd) != 0) return base::ErrnoStatus(errno, path.string());
  return absl::OkStatus();
}

}  // namespace

PrivateFolder::PrivateFolder(fs::path path, int fd)
    : path_(std::move(path)), fd_(fd) {}

PrivateFolder::~PrivateFolder() { close(fd_); }

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Open(
    const fs::path& path) {
  OwnFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (fd.get() < 0 && (errno == ELOOP || errno == ENOTDIR)) {
    return Refused(path, "expected a folder, not a link");
  }
  if (fd.get() < 0) return base::ErrnoStatus(errno, path.string());
  RETURN_IF_ERROR(CheckPrivate(fd.get(), path, "700"));
  return absl::WrapUnique(new PrivateFolder(path, fd.Release()));
}

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Make(
    const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (error) {
    return base::ErrnoStatus(error.value(), path.parent_path().string());
  }
  if (mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return base::ErrnoStatus(errno, path.string());
  }
  return Open(path);
}

absl::StatusOr<std::vector<std::string>> PrivateFolder::Entries() const {
  OwnFd copy(openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (copy.get() < 0) return base::ErrnoStatus(errno, path_.string());
  DIR* dir = fdopendir(copy.get());
  if (dir == nullptr) return base::ErrnoStatus(errno, path_.string());
  static_cast<void>(copy.Release());  // closedir closes it
  std::vector<std::string> names;
  while (const dirent* entry = readdir(dir)) {
    names.emplace_back(entry->d_name);
  }
  closedir(dir);
  return names;
}

absl::StatusOr<std::vector<std::string>> PrivateFolder::Names() const {
  absl::StatusOr<std::vector<std::string>> names = Entries();
  if (!names.ok()) return names;
  std::erase_if(*names, [](const std::string& name) { return name[0] == '.'; });
  std::sort(names->begin(), names->end());
  return names;
}

absl::StatusOr<std::string> PrivateFolder::Read(const std::string& name,
                                                size_t max_bytes) const {
  const fs::path path = path_ / name;
  // Without O_NONBLOCK opening a pipe waits for its writer.
  const OwnFd fd(openat(fd_, name.c_str(),
                        O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (fd.get() < 0 && errno == ELOOP) {
    return Refused(path, "expected a file, not a link");
  }
  if (fd.get() < 0) return base::ErrnoStatus(errno, path.string());
  struct stat info;
  if (fstat(fd.get(), &info) != 0) {
    return base::ErrnoStatus(errno, path.string());
  }
  if (!S_ISREG(info.st_mode)) return Refused(path, "not a regular file");
  RETURN_IF_ERROR(CheckPrivate(fd.get(), path, "600"));
  return ReadAll(fd.get(), path, max_bytes);
}

absl::Status PrivateFolder::Write(const std::string& name,
                                  std::string_view bytes) const {
  const fs::path path = path_ / name;
  const std::string temporary = base::TemporaryBeside(name).string();
  OwnFd fd(openat(fd_, temporary.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                  S_IRUSR | S_IWUSR));
  if (fd.get() < 0) return base::ErrnoStatus(errno, path.string());
  absl::Status status = WriteAll(fd.get(), path, bytes);
  if (status.ok() && renameat(fd_, temporary.c_str(), fd_, name.c_str()) != 0) {
    status = base::ErrnoStatus(errno, path.string());
  }
  if (!status.ok()) {
    unlinkat(fd_, temporary.c_str(), 0);
    return status;
  }
  if (fsync(fd_) != 0) return base::ErrnoStatus(errno, path_.string());
  return absl::OkStatus();
}

absl::Status PrivateFolder::Remove(const std::string& name) const {
  if (unlinkat(fd_, name.c_str(), 0) != 0 && errno != ENOENT) {
    return base::ErrnoStatus(errno, (path_ / name).string());
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> entries, Entries());
  for (const std::string& entry : entries) {
    if (entry.starts_with(absl::StrCat(".", name, ".")) &&
        base::IsUnfinished(entry)) {
      unlinkat(fd_, entry.c_str(), 0);
    }
  }
  return absl::OkStatus();
}

}  // namespace mpsd::client
