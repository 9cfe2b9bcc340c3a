// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/machine_fault.h"
#include "core/base/read_roots.h"
#include "core/base/status_macros.h"
#include "core/base/work_count.h"

namespace mpsd::base {
namespace fs = std::filesystem;
namespace {

// An open descriptor, closed at the end of its scope.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::StatusOr<std::string> ReadWhole(const fs::path& path,
                                      const absl::StatusOr<int>& opened) {
  if (!opened.ok()) return opened.status();
  const Fd fd(*opened);
  std::string bytes;
  char piece[1 << 16];
  while (true) {
    ssize_t n = read(fd.get(), piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path.string());
    CountWork();
    if (n == 0) return bytes;
    bytes.append(piece, n);
  }
}

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

absl::StatusCode CodeFor(int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return absl::StatusCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return absl::StatusCode::kPermissionDenied;
    case EEXIST:
      return absl::StatusCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return absl::StatusCode::kResourceExhausted;
    case EPIPE:
    case ECONNRESET:
    case ECONNREFUSED:
      return absl::StatusCode::kUnavailable;
    default:
      return absl::StatusCode::kInternal;
  }
}

}  // namespace

absl::Status ErrnoStatus(int error, std::string_view what) {
  const std::string text = absl::StrCat(std::string(what), ": ",
                                        std::generic_category().message(error));
  return WithErrno(absl::Status(CodeFor(error), text), error);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(
    const fs::path& path) {
  ASSIGN_OR_RETURN(const int opened, OpenToRead(path));
  const Fd fd(opened);
  struct stat info;
  if (fstat(fd.get(), &info) != 0) return ErrnoStatus(errno, path.string());
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": not a regular file"));
  }
  CountWork();
  const size_t size = info.st_size;
  if (size == 0) return std::unique_ptr<MappedFile>(new MappedFile(nullptr, 0));
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) return ErrnoStatus(errno, path.string());
  return std::unique_ptr<MappedFile>(
      new MappedFile(static_cast<const char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

void MappedFile::DropPages(size_t offset, size_t length) const {
  const size_t page = sysconf(_SC_PAGESIZE);
  const size_t begin = (offset + page - 1) / page * page;
  const size_t end = (offset + length) / page * page;
  if (data_ == nullptr || begin >= end) return;
  madvise(const_cast<char*>(data_) + begin, end - begin, MADV_DONTNEED);
}

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  return ReadWhole(path, OpenToRead(path));
}

absl::StatusOr<std::string> ReadFile(const fs::path& path,
                                     const ReadRoots& within) {
  return ReadWhole(path, OpenToRead(path, &within));
}

absl::Status WriteFileAtomic(const fs::path& path, std::string_view bytes) {
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(bytes));
  return file->Commit();
}

absl::Status SyncTree(const fs::path& dir) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(dir, error), end;
       !error && it != end; it.increment(error)) {
    if (it->is_symlink()) continue;
    const int flags = it->is_directory() ? O_RDONLY | O_DIRECTORY : O_RDONLY;
    RETURN_IF_ERROR(SyncPath(it->path(), flags));
    CountWork();
  }
  if (error) return ErrnoStatus(error.value(), dir.string());
  return SyncPath(dir, O_RDONLY | O_DIRECTORY);
}

absl::StatusOr<StagedFolder> StagedFolder::Create(fs::path final_path) {
  fs::path staging = TemporaryBeside(final_path);
  std::error_code error;
  fs::create_directories(staging, error);
  if (error) return ErrnoStatus(error.value(), staging.string());
  return StagedFolder(std::move(final_path), std::move(staging));
}

StagedFolder::StagedFolder(StagedFolder&& other) noexcept
    : final_(std::move(other.final_)),
      staging_(std::exchange(other.staging_, fs::path())) {}

StagedFolder::~StagedFolder() {
  std::error_code ignored;
  if (!staging_.empty()) fs::remove_all(staging_, ignored);
}

absl::Status StagedFolder::Commit() {
  RETURN_IF_ERROR(SyncTree(staging_));
  // A folder cannot be renamed over another one: the old one is moved away
  // first and removed last.
  fs::path old;
  std::error_code error;
  if (fs::exists(final_, error)) {
    old = TemporaryBeside(final_);
    fs::rename(final_, old, error);
    if (error) return ErrnoStatus(error.value(), final_.string());
  }
  fs::rename(staging_, final_, error);
  if (error) {
    std::error_code ignored;
    if (!old.empty()) fs::rename(old, final_, ignored);
    return ErrnoStatus(error.value(), final_.string());
  }
  staging_.clear();
  if (!old.empty()) fs::remove_all(old, error);
  return SyncPath(ParentOf(final_), O_RDONLY | O_DIRECTORY);
}

}  // namespace mpsd::base
