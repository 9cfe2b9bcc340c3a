// SPDX-License-Identifier: Apache-2.0
#include "server/access/account_name.h"

#include <pwd.h>

#include <cerrno>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/access/caller.h"

namespace mpsd::access {
namespace {

constexpr char kNameless[] = "uid-";
constexpr size_t kMostBytes = 1 << 20;  // of an account's entry

}  // namespace

std::string UserOf(uid_t uid, const std::string& name) {
  const bool is_own = IsUserName(name) && !name.starts_with(kNameless);
  return is_own ? name : absl::StrCat(kNameless, uid);
}

absl::StatusOr<std::string> AccountName(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(4096);
  int error = 0;
  while (true) {
    error = getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found);
    if (error == EINTR) continue;
    if (error != ERANGE || buffer.size() >= kMostBytes) break;
    buffer.resize(buffer.size() * 2);
  }
  if (found != nullptr) return UserOf(uid, found->pw_name);
  // getpwuid(3) lists these numbers beside 0 for an account without a name.
  if (error == 0 || error == ENOENT || error == ESRCH || error == EBADF ||
      error == EPERM) {
    return UserOf(uid, "");
  }
  return absl::UnavailableError(
      absl::StrCat("the name of the account ", uid,
                   " is not known: ", std::generic_category().message(error)));
}

}  // namespace mpsd::access
