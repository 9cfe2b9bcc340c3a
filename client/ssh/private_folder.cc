// SPDX-License-Identifier: Apache-2.0
#include "client/ssh/private_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"

namespace mpsd::ssh {
namespace {

constexpr char kLock[] = "lock";
// The system with the shortest paths of sockets, macOS, has 104 bytes with the
// zero. ssh binds its control socket under a name that is 17 longer, in a
// folder mpsctl-4294967295-XXXXXX.
constexpr size_t kLongestParent = 103 - 17 - 2 - 25;
// A folder without a lock is somebody's who is just making it, unless it is
// older.
constexpr time_t kYoungSeconds = 60;

std::string Prefix() { return absl::StrCat("mpsctl-", geteuid(), "-"); }

bool Fits(std::string_view parent) {
  return !parent.empty() && parent[0] == '/' &&
         parent.size() <= kLongestParent &&
         std::all_of(parent.begin(), parent.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) ||
                  absl::StrContains("/._+-", static_cast<char>(c));
         });
}

std::vector<std::string> Parents() {
  std::vector<std::string> parents;
  for (const char* name : {"XDG_RUNTIME_DIR", "TMPDIR"}) {
    const char* value = getenv(name);
    std::string parent = value == nullptr ? "" : value;
    while (parent.size() > 1 && parent.back() == '/') parent.pop_back();
    if (Fits(parent)) parents.push_back(parent);
  }
  parents.push_back("/tmp");
  return parents;
}

// Opens a folder that is this account's own, and no link to one.
Descriptor OpenOwn(const std::string& path, struct stat* facts) {
  Descriptor folder(
      open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!folder.valid() || fstat(folder.get(), facts) != 0 ||
      facts->st_uid != geteuid()) {
    return Descriptor();
  }
  return folder;
}

std::vector<std::string> NamesIn(int folder) {
  std::vector<std::string> names;
  const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* stream = copy < 0 ? nullptr : fdopendir(copy);
  if (stream == nullptr) {
    if (copy >= 0) close(copy);
    return names;
  }
  while (const dirent* entry = readdir(stream)) names.push_back(entry->d_name);
  closedir(stream);
  return names;
}

// Removes a folder that holds files and sockets alone.
void Remove(const std::string& path) {
  struct stat facts;
  const Descriptor folder = OpenOwn(path, &facts);
  if (!folder.valid()) return;
  for (const std::string& name : NamesIn(folder.get())) {
    unlinkat(folder.get(), name.c_str(), 0);  // fails for "." and ".."
  }
  rmdir(path.c_str());
}

bool IsLeft(const std::string& path) {
  struct stat facts;
  const Descriptor folder = OpenOwn(path, &facts);
  if (!folder.valid()) return false;
  const Descriptor lock(
      openat(folder.get(), kLock, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
  if (!lock.valid()) return time(nullptr) - facts.st_mtime > kYoungSeconds;
  return flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
}

void Sweep(const std::string& parent) {
  const Descriptor folder(
      open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return;
  for (const std::string& name : NamesIn(folder.get())) {
    if (!absl::StartsWith(name, Prefix())) continue;
    const std::string path = absl::StrCat(parent, "/", name);
    if (IsLeft(path)) Remove(path);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateFolder>> PrivateFolder::Make() {
  absl::Status failed;
  for (const std::string& parent : Parents()) {
    Sweep(parent);
    std::string path = absl::StrCat(parent, "/", Prefix(), "XXXXXX");
    if (mkdtemp(path.data()) == nullptr) {
      failed = base::ErrnoStatus(errno, absl::StrCat("a folder in ", parent));
      continue;
    }
    Descriptor lock(open(absl::StrCat(path, "/", kLock).c_str(),
                         O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!lock.valid() || flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
      failed = base::ErrnoStatus(errno, path);
      Remove(path);
      continue;
    }
    return std::unique_ptr<PrivateFolder>(
        new PrivateFolder(std::move(path), std::move(lock)));
  }
  return failed;
}

PrivateFolder::~PrivateFolder() { Remove(path_); }

}  // namespace mpsd::ssh
