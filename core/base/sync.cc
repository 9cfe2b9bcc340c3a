// SPDX-License-Identifier: Apache-2.0
#include "core/base/sync.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "core/base/atomic_file.h"
#include "core/base/file.h"
#include "core/base/status_macros.h"

namespace mpsd::base {
namespace fs = std::filesystem;
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
