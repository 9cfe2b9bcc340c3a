// SPDX-License-Identifier: Apache-2.0
#include "server/supervisor/temporary_folder.h"

#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "core/base/file.h"

namespace mpsd::supervisor {
namespace fs = std::filesystem;
namespace {

// A folder that exists is only taken where it is one, of this user alone.
absl::Status MakePrivate(const fs::path& folder) {
  if (mkdir(folder.c_str(), 0700) == 0) return absl::OkStatus();
  if (errno != EEXIST) return base::ErrnoStatus(errno, folder.string());
  struct stat info;
  if (lstat(folder.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return base::ErrnoStatus(ENOTDIR, folder.string());
  }
  return chmod(folder.c_str(), 0700) == 0
             ? absl::OkStatus()
             : base::ErrnoStatus(errno, folder.string());
}

}  // namespace

absl::StatusOr<std::unique_ptr<TemporaryFolder>> TemporaryFolder::Create(
    const fs::path& parent, const std::string& name) {
  absl::Status made = MakePrivate(parent);
  if (!made.ok()) return made;
  std::unique_ptr<TemporaryFolder> folder(new TemporaryFolder(parent / name));
  folder->Remove();
  made = MakePrivate(folder->path());
  if (!made.ok()) return made;
  return folder;
}

void TemporaryFolder::Remove() {
  std::error_code error;
  fs::remove_all(path_, error);
  if (!error) return;
  // A worker may have closed a folder to its own user.
  std::error_code ignored;
  if (fs::is_directory(fs::symlink_status(path_, ignored))) {
    fs::permissions(path_, fs::perms::owner_all, ignored);
  }
  for (fs::recursive_directory_iterator
           it(path_, fs::directory_options::skip_permission_denied, error),
       end;
       !error && it != end; it.increment(error)) {
    if (it->is_symlink(ignored) || !it->is_directory(ignored)) continue;
    fs::permissions(it->path(), fs::perms::owner_all, ignored);
  }
  fs::remove_all(path_, ignored);
}

void TemporaryFolder::RemoveAll(const fs::path& parent) {
  std::error_code error;
  // A worker could have put a link to somebody's files here.
  if (!fs::is_directory(fs::symlink_status(parent, error))) return;
  for (fs::directory_iterator it(parent, error), end; !error && it != end;
       it.increment(error)) {
    RemoveLeft(it->path());
  }
}

}  // namespace mpsd::supervisor
