// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_ROLE_POLICY_H_
#define MPSD_SERVER_ACCESS_ROLE_POLICY_H_

#include <sys/types.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "server/access/caller.h"

namespace mpsd::access {

// The roles of this machine's accounts. No user is in both lists.
struct RolePolicy {
  uid_t owner = geteuid();  // the daemon's own account
  std::vector<std::string> admins;
  std::vector<std::string> viewers;

  // The role of an account of this machine, whose name is `user`: admin for the
  // daemon's own and for root, whatever the lists say, since both can read and
  // change the daemon's files; else as the lists say, else user.
  Role OfAccount(uid_t uid, const std::string& user) const;
};

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_ROLE_POLICY_H_
