// SPDX-License-Identifier: Apache-2.0
#include "core/base/read_roots.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"

namespace mpsd::base {
namespace fs = std::filesystem;
namespace {

// O_PATH and O_SEARCH open a folder that the process may not list.
#if defined(O_PATH)
constexpr int kPass = O_PATH;
#elif defined(O_SEARCH)
constexpr int kPass = O_SEARCH;
#else
constexpr int kPass = O_RDONLY;
#endif

std::atomic<const ReadRoots*> limit{nullptr};

// `path` with every link resolved; the part that does not exist is appended as
// written. nullopt if the target is unknown: a dangling link, a folder that may
// not be searched.
std::optional<fs::path> Resolve(const fs::path& path) {
  if (path.native().find('\0') != std::string::npos) return std::nullopt;
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  if (error) return std::nullopt;
  fs::path there = absolute, rest;
  while (true) {
    fs::path resolved = fs::canonical(there, error);
    if (!error) {
      return rest.empty() ? resolved : (resolved / rest).lexically_normal();
    }
    if (error != std::errc::no_such_file_or_directory &&
        error != std::errc::not_a_directory) {
      return std::nullopt;
    }
    std::error_code ignored;
    if (fs::is_symlink(fs::symlink_status(there, ignored))) {
      return std::nullopt;
    }
    rest = rest.empty() ? there.filename() : there.filename() / rest;
    there = there.parent_path();
  }
}

absl::Status Outside(const fs::path& path) {
  return absl::FailedPreconditionError(absl::StrCat(
      path.string(), ": is outside the folders that jobs may read"));
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

ReadRoots::ReadRoots(const std::vector<fs::path>& folders) {
  for (const fs::path& folder : folders) {
    if (std::optional<fs::path> resolved = Resolve(folder)) {
      // Drops the empty name after a trailing slash.
      resolved_.push_back(resolved->has_filename() ? *resolved
                                                   : resolved->parent_path());
    }
  }
}

bool ReadRoots::Lies(const fs::path& resolved) const {
  return std::any_of(
      resolved_.begin(), resolved_.end(), [&](const fs::path& root) {
        const auto [at, _] = std::mismatch(root.begin(), root.end(),
                                           resolved.begin(), resolved.end());
        return at == root.end();
      });
}

bool ReadRoots::Contain(const fs::path& path) const {
  const std::optional<fs::path> resolved = Resolve(path);
  return resolved && Lies(*resolved);
}

absl::StatusOr<int> ReadRoots::Open(const fs::path& path) const {
  const std::optional<fs::path> resolved = Resolve(path);
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

}  // namespace mpsd::base
