// SPDX-License-Identifier: Apache-2.0
#include "server/socket_group.h"

#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "core/base/file.h"

namespace mpsd {
namespace {

constexpr size_t kMostBytes = 16 << 20;  // of a group's entry: its members

}  // namespace

absl::StatusOr<gid_t> GroupNamed(const std::string& name) {
  gid_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  group entry{};
  group* found = nullptr;
  std::vector<char> buffer(16 << 10);
  int error = 0;
  while (true) {
    error =
        getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
    if (error == EINTR) continue;
    if (error != ERANGE || buffer.size() >= kMostBytes) break;
    buffer.resize(buffer.size() * 2);
  }
  if (found != nullptr) return found->gr_gid;
  // getgrnam(3) lists these numbers next to 0 for a name that no group has.
  if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF ||
      error == EPERM) {
    return absl::NotFoundError(
        absl::StrCat("this machine has no group '", name, "'"));
  }
  return absl::UnavailableError(absl::StrCat(
      "the group '", name,
      "' cannot be looked up: ", std::generic_category().message(error)));
}

absl::Status LetThrough(const std::filesystem::path& folder, gid_t group) {
  struct stat info;
  if (stat(folder.c_str(), &info) != 0 ||
      (info.st_gid != group &&
       chown(folder.c_str(), static_cast<uid_t>(-1), group) != 0) ||
      chmod(folder.c_str(), (info.st_mode & 07707) | S_IXGRP) != 0) {
    return base::ErrnoStatus(errno, folder.string());
  }
  return absl::OkStatus();
}

}  // namespace mpsd
