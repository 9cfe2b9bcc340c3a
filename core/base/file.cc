// SPDX-License-Identifier: Apache-2.0
#include "core/base/file.h"

#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/clock.h"
#include "core/base/descriptor.h"
#include "core/base/status_macros.h"

namespace mpsd::base {
namespace fs = std::filesystem;

fs::path HomeFolder() {
  const char* home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return home;
  // As of a program that init starts without an environment.
  passwd entry{};
  passwd* account = nullptr;
  std::string buffer(16 << 10, '\0');
  getpwuid_r(geteuid(), &entry, buffer.data(), buffer.size(), &account);
  return account == nullptr ? "/" : account->pw_dir;
}

fs::path DefaultStateDir() {
#ifdef __APPLE__
  return HomeFolder() / "Library" / "Application Support" / "mpsd";
#else
  return HomeFolder() / ".local" / "state" / "mpsd";
#endif
}

namespace {

constexpr char kPayload[] = "mpsd/errno";

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

int ErrnoOf(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  int error = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &error)) return 0;
  return error;
}

absl::Status WithErrno(absl::Status status, int error) {
  // From a view: compilers mangle Cord's constructor for a string differently,
  // and a Mac's program must find the one that Abseil exports.
  status.SetPayload(kPayload,
                    absl::Cord(absl::string_view(absl::StrCat(error))));
  return status;
}

bool IsMachineFault(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case EIO:
    case EROFS:
    case ENXIO:
    case ENODEV:
    case ESTALE:
      return true;
    default:
      return false;
  }
}

namespace {

// O_PATH and O_SEARCH open a folder that the process may not list.
#if defined(O_PATH)
constexpr int kPass = O_PATH;
#elif defined(O_SEARCH)
constexpr int kPass = O_SEARCH;
#else
constexpr int kPass = O_RDONLY;
#endif

// As many as the kernel follows.
constexpr int kMostLinks = 40;

std::atomic<const ReadRoots*> limit{nullptr};

// What identifies a folder, whatever path leads to it.
std::optional<std::pair<dev_t, ino_t>> IdentityOf(const fs::path& folder) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0) return std::nullopt;
  return std::pair(info.st_dev, info.st_ino);
}

absl::Status Outside(const fs::path& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path.string(),
      ": is outside the folders that jobs may read (model-root and data-root "
      "of mpsd); push the model or upload the data instead"));
}

absl::Status NotRegular(const fs::path& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": not a regular file"));
}

// Opens an absolute path without links part by part (O_NOFOLLOW), so that a
// link put there after the check is an error.
int OpenStepwise(const fs::path& resolved) {
  int folder = open("/", kPass | O_DIRECTORY | O_CLOEXEC);
  const fs::path relative = resolved.relative_path();
  for (auto part = relative.begin(); folder >= 0;) {
    const fs::path name = *part;
    const bool last = ++part == relative.end();
    // O_NONBLOCK: without it open() of a pipe waits for a writer.
    const int flags = last ? O_RDONLY | O_NONBLOCK : kPass | O_DIRECTORY;
    const int next =
        openat(folder, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC);
    const int error = errno;
    close(folder);
    errno = error;
    if (last) return next;
    folder = next;
  }
  return -1;
}

}  // namespace

std::optional<fs::path> ResolveLinks(const fs::path& path) {
  if (path.native().find('\0') != std::string::npos) return std::nullopt;
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return std::nullopt;
  fs::path there = absolute, rest;
  for (int links = 0; links < kMostLinks;) {
    fs::path resolved = fs::canonical(there, error);
    if (!error) {
      return rest.empty() ? resolved : (resolved / rest).lexically_normal();
    }
    if (error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory) {
      return std::nullopt;
    }
    if (const fs::path target = fs::read_symlink(there, error); !error) {
      there = there.parent_path() / target;
      ++links;
      continue;
    }
    rest = rest.empty() ? there.filename() : there.filename() / rest;
    there = there.parent_path();
  }
  return std::nullopt;
}

ReadRoots::ReadRoots(const std::vector<fs::path>& folders,
                     const std::vector<fs::path>& closed) {
  const auto put = [this](const fs::path& folder, bool open) {
    const std::optional<fs::path> resolved = ResolveLinks(folder);
    if (!resolved) return;
    // Drops the empty name after a trailing slash.
    folders_[resolved->has_filename() ? *resolved : resolved->parent_path()] =
        open;
  };
  for (const fs::path& folder : closed) {
    put(folder, false);
    if (const auto id = IdentityOf(folder)) closed_.insert(*id);
  }
  for (const fs::path& folder : folders) put(folder, true);
}

bool ReadRoots::Lies(const fs::path& resolved) const {
  for (fs::path at = resolved;; at = at.parent_path()) {
    if (const auto known = folders_.find(at); known != folders_.end()) {
      return known->second;
    }
    // A firmlink of macOS and a bind mount are second names of a folder.
    if (!closed_.empty()) {
      const auto id = IdentityOf(at);
      if (id && closed_.contains(*id)) return false;
    }
    if (!at.has_relative_path()) return false;
  }
}

bool ReadRoots::Contain(const fs::path& path) const {
  const std::optional<fs::path> resolved = ResolveLinks(path);
  return resolved && Lies(*resolved);
}

absl::StatusOr<int> ReadRoots::Open(const fs::path& path) const {
  const std::optional<fs::path> resolved = ResolveLinks(path);
  if (!resolved || !Lies(*resolved)) return Outside(path);
  if (!resolved->has_relative_path()) {
    return NotRegular(path);
  }
  const int fd = OpenStepwise(*resolved);
  if (fd < 0) {
    // A link was put there after the check.
    if (errno == ELOOP || errno == EMLINK) return Outside(path);
    // Sockets, and devices without a driver: EOPNOTSUPP on a Mac. As a machine
    // fault it would hold the queue for all users.
    if (errno == ENXIO || errno == ENODEV || errno == EOPNOTSUPP) {
      return NotRegular(path);
    }
    return ErrnoStatus(errno, path.string());
  }
  struct stat info;
  if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
  close(fd);
  return NotRegular(path);
}

void LimitReads(ReadRoots roots) {
  delete limit.exchange(new ReadRoots(std::move(roots)));
}

absl::Status CheckMayRead(const fs::path& path) {
  const ReadRoots* roots = limit.load();
  return roots == nullptr || roots->Contain(path) ? absl::OkStatus()
                                                  : Outside(path);
}

absl::StatusOr<int> OpenToRead(const fs::path& path, const ReadRoots* within,
                               int flags) {
  const ReadRoots* roots = limit.load();
  if (within != nullptr) {
    if (roots != nullptr && !roots->Contain(path)) return Outside(path);
    return within->Open(path);
  }
  if (roots != nullptr) return roots->Open(path);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return ErrnoStatus(errno, path.string());
  return fd;
}

namespace {

absl::StatusOr<std::string> ReadWhole(const fs::path& path,
                                      const absl::StatusOr<int>& opened) {
  if (!opened.ok()) return opened.status();
  const UniqueFd fd(*opened);
  return ReadAll(fd.get(), std::string().max_size(), path);
}

}  // namespace

absl::StatusOr<std::string> ReadFile(const fs::path& path) {
  return ReadWhole(path, OpenToRead(path));
}

absl::StatusOr<std::string> ReadFile(const fs::path& path,
                                     const ReadRoots& within) {
  return ReadWhole(path, OpenToRead(path, &within));
}

namespace {

absl::StatusOr<std::string> ReadOpen(int fd, const fs::path& path,
                                     size_t max_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, path.string());
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": not a regular file"));
  }
  return ReadAll(fd, max_bytes, path);
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const fs::path& path,
                                          size_t max_bytes,
                                          const ReadRoots* within) {
  // Without O_NONBLOCK the open of a pipe waits for its writer.
  ASSIGN_OR_RETURN(const int opened, OpenToRead(path, within, O_NONBLOCK));
  const UniqueFd fd(opened);
  return ReadOpen(fd.get(), path, max_bytes);
}

absl::StatusOr<std::string> ReadSecretFile(const fs::path& path,
                                           size_t max_bytes) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0) {
    return ErrnoStatus(errno, path.string());
  }
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), ": other users may read or change this secret; run: ",
        "chmod 600 ", path.string()));
  }
  return ReadSmallFile(path, max_bytes);
}

absl::StatusOr<std::unique_ptr<MappedFile>> MappedFile::Open(
    const fs::path& path) {
  ASSIGN_OR_RETURN(const int opened, OpenToRead(path));
  const UniqueFd fd(opened);
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

namespace {

fs::path ParentOf(const fs::path& path) {
  return path.has_parent_path() ? path.parent_path() : fs::path(".");
}

constexpr char kTemporary[] = ".tmp";

absl::Status SyncFd(int fd, const fs::path& path) {
#ifdef __APPLE__
  // fsync on macOS leaves the bytes in the drive's cache.
  if (fcntl(fd, F_FULLFSYNC) == 0) return absl::OkStatus();
#endif
  if (fsync(fd) != 0) return ErrnoStatus(errno, path.string());
  return absl::OkStatus();
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
  return WriteAll(fd_, bytes, path_);
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

namespace {

// Returns 0 or errno.
int ExchangeAtOnce(const fs::path& a, const fs::path& b) {
#ifdef __APPLE__
  const int result = renamex_np(a.c_str(), b.c_str(), RENAME_SWAP);
#else
  const int result =
      renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE);
#endif
  return result == 0 ? 0 : errno;
}

int Rename(const fs::path& from, const fs::path& to) {
  return rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

// `b` is moved away first, so that a failing second rename can be undone.
int ExchangeByAThird(const fs::path& a, const fs::path& b) {
  const fs::path aside = TemporaryBeside(b);
  if (int error = Rename(b, aside); error != 0) return error;
  if (int error = Rename(a, b); error != 0) {
    Rename(aside, b);
    return error;
  }
  return Rename(aside, a);
}

bool CannotExchange(int error) {
  return error == EINVAL || error == ENOSYS || error == ENOTSUP ||
         error == EOPNOTSUPP;
}

}  // namespace

absl::Status ExchangePaths(const fs::path& a, const fs::path& b) {
  int error = ExchangeAtOnce(a, b);
  if (CannotExchange(error)) error = ExchangeByAThird(a, b);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, b.string());
}

namespace {

using Flush = int (*)(int fd);

absl::Status FlushBy(Flush flush, const fs::path& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, path.string());
  const int error = flush(fd) == 0 ? 0 : errno;
  close(fd);
  return error == 0 ? absl::OkStatus() : ErrnoStatus(error, path.string());
}

#ifdef __APPLE__

// fsync writes the bytes to the drive; one F_FULLFSYNC then flushes the drive's
// whole cache, including the bytes of all these files.
absl::Status SyncMany(const std::vector<fs::path>& paths) {
  for (const fs::path& path : paths) {
    RETURN_IF_ERROR(FlushBy(fsync, path));
  }
  return SyncPath(paths.back(), O_RDONLY);
}

#else

absl::Status SyncMany(const std::vector<fs::path>& paths) {
  return FlushBy(syncfs, paths.front());
}

#endif

// Up to this many paths, waiting for each is cheaper than a flush of the whole
// file system, which writes the data of other processes too.
constexpr size_t kFew = 8;

}  // namespace

absl::Status SyncAll(const std::vector<fs::path>& paths) {
  if (paths.size() > kFew) return SyncMany(paths);
  for (const fs::path& path : paths) {
    RETURN_IF_ERROR(SyncPath(path, O_RDONLY));
  }
  return absl::OkStatus();
}

}  // namespace mpsd::base
