// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_ACCESS_CALLER_H_
#define MPSD_SERVER_ACCESS_CALLER_H_

#include <string>
#include <string_view>

#include "core/report/report.h"

namespace mpsd::access {

// Each role may do what the one before it may. The numbers are stored in the
// database and never reused.
enum class Role {
  kViewer = 1,  // reads
  kUser = 2,    // submits, and changes what is the user's own
  kAdmin = 3,   // changes everything
};
inline constexpr report::EnumName<Role> kRoles[] = {
    {Role::kViewer, "viewer"}, {Role::kUser, "user"}, {Role::kAdmin, "admin"}};
constexpr std::string_view Name(Role role) {
  return report::NameIn(kRoles, role);
}

// How a caller is known. The numbers are stored in the database and never
// reused.
enum class Way {
  kSocket = 1,  // the unix socket: the kernel names the account
  kToken = 2,   // a bearer token
  // 3 was a client certificate; rows of the audit may hold it.
  kPage = 4,  // the web page: nobody in particular
};
inline constexpr report::EnumName<Way> kWays[] = {
    {Way::kSocket, "socket"}, {Way::kToken, "token"}, {Way::kPage, "page"}};
constexpr std::string_view Name(Way way) { return report::NameIn(kWays, way); }

// Who makes a call.
struct Caller {
  std::string user;  // at most limits::kUserBytes; owner of what it submits
  Role role = Role::kViewer;
  Way way = Way::kSocket;
  // The account's number ("uid 501") or the token's id ("token 0a1b2c3d4e5f"):
  // names a credential, but is no secret.
  std::string credential;
  std::string origin;  // the machine's address; "this machine" for the socket

  bool operator==(const Caller&) const = default;
};

// Whether `name` can be a user: 1 to limits::kUserBytes letters, digits and
// "._@+-", the first a letter, a digit or "_".
bool IsUserName(std::string_view name);

}  // namespace mpsd::access

#endif  // MPSD_SERVER_ACCESS_CALLER_H_
