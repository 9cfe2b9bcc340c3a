// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_ACCOUNT_NAME_H_
#define MPSD_SERVER_ACCESS_ACCOUNT_NAME_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::access {

// The user that an account of this machine is: the account's name, or
// "uid-1234" where the account has no name or a name that no user may have
// (access::IsUserName). A name of the form "uid-NUMBER" counts as none, so that
// no account can pass for another. Unavailable where the name service fails.
// Blocks for as long as the name service does.
absl::StatusOr<std::string> AccountName(uid_t uid);

// AccountName's answer for an account that the system calls `name`.
std::string UserOf(uid_t uid, const std::string& name);

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_ACCOUNT_NAME_H_
