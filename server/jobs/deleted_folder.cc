// SPDX-License-Identifier: Apache-2.0
#include "server/jobs/deleted_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/atomic_file.h"
#include "core/base/file.h"

namespace mpsd::jobs {
namespace fs = std::filesystem;
namespace {

constexpr char kMark[] = ".delete";

// The bytes of the files that have no other hard link.
int64_t OwnBytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  if (fs::is_symlink(folder, error)) return 0;
  for (fs::recursive_directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error)) {
    std::error_code unreadable;
    if (it->is_symlink(unreadable) || !it->is_regular_file(unreadable)) {
      continue;
    }
    if (it->hard_link_count(unreadable) == 1 && !unreadable) {
      const auto size = static_cast<int64_t>(it->file_size(unreadable));
      if (!unreadable) bytes += size;
    }
  }
  return bytes;
}

}  // namespace

fs::path DeletionMark(const fs::path& folder) {
  return folder.parent_path() /
         absl::StrCat(".", folder.filename().string(), kMark);
}

fs::path MarkedFolder(const fs::path& path) {
  const std::string name = path.filename().string();
  // The name is a dot, an id and the mark.
  if (name.size() <= sizeof kMark || !name.starts_with(".") ||
      !name.ends_with(kMark)) {
    return {};
  }
  return path.parent_path() / name.substr(1, name.size() - sizeof kMark);
}

absl::Status MarkForDeletion(const fs::path& folder) {
  const fs::path mark = DeletionMark(folder);
  absl::Status status = base::WriteFileAtomic(mark, "");
  if (!absl::IsResourceExhausted(status)) return status;
  // A deletion has to make room on a full disk: the mark is a second name of an
  // existing file, which takes no room.
  std::error_code error;
  fs::create_hard_link(folder / "job.json", mark, error);
  return error ? status
               : base::SyncPath(folder.parent_path(), O_RDONLY | O_DIRECTORY);
}

void UnmarkForDeletion(const fs::path& folder) {
  std::error_code ignored;
  fs::remove(DeletionMark(folder), ignored);
}

int64_t RemoveMarkedFolder(const fs::path& folder) {
  // Renames the folder first, so that a reader finds all of it or nothing.
  const fs::path aside = base::TemporaryBeside(folder);
  std::error_code error;
  fs::rename(folder, aside, error);
  const fs::path removed = error ? folder : aside;
  const int64_t bytes = OwnBytes(removed);
  fs::remove_all(removed, error);
  if (!error) UnmarkForDeletion(folder);
  return bytes;
}

absl::StatusOr<int64_t> RemoveCheckpointsOf(const fs::path& folder) {
  const fs::path out = folder / "out";
  const int fd =
      open(out.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0 && errno == ENOENT) return 0;
  if (fd < 0) return base::ErrnoStatus(errno, out.string());
  const fs::path aside = base::TemporaryBeside(folder);
  const int renamed = renameat(fd, "checkpoints", AT_FDCWD, aside.c_str());
  const int error = errno;
  close(fd);
  if (renamed != 0 && error == ENOENT) return 0;
  if (renamed != 0) {
    return base::ErrnoStatus(error, (out / "checkpoints").string());
  }
  const int64_t bytes = OwnBytes(aside);
  std::error_code failure;
  fs::remove_all(aside, failure);
  if (failure) return base::ErrnoStatus(failure.value(), aside.string());
  return bytes;
}

}  // namespace mpsd::jobs
