// SPDX-License-Identifier: Apache-2.0
#include "core/base/small_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "core/base/file.h"
#include "core/base/read_roots.h"
#include "core/base/status_macros.h"

namespace mpsd::base {
namespace {

absl::Status TooLong(const std::filesystem::path& path, size_t max_bytes) {
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": longer than ", max_bytes,
                   " bytes, the limit for this kind of file"));
}

absl::StatusOr<std::string> ReadOpen(int fd, const std::filesystem::path& path,
                                     size_t max_bytes) {
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, path.string());
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": not a regular file"));
  }
  if (info.st_size > static_cast<off_t>(max_bytes)) {
    return TooLong(path, max_bytes);
  }
  std::string bytes;
  bytes.reserve(info.st_size);
  char piece[1 << 14];
  while (true) {
    const ssize_t n = read(fd, piece, sizeof piece);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return ErrnoStatus(errno, path.string());
    if (n == 0) return bytes;
    if (bytes.size() + n > max_bytes) return TooLong(path, max_bytes);
    bytes.append(piece, n);
  }
}

}  // namespace

absl::StatusOr<std::string> ReadSmallFile(const std::filesystem::path& path,
                                          size_t max_bytes,
                                          const ReadRoots* within) {
  // Without O_NONBLOCK the open of a pipe waits for its writer.
  ASSIGN_OR_RETURN(const int fd, OpenToRead(path, within, O_NONBLOCK));
  absl::StatusOr<std::string> bytes = ReadOpen(fd, path, max_bytes);
  close(fd);
  return bytes;
}

}  // namespace mpsd::base
