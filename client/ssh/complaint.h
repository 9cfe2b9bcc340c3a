// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_COMPLAINT_H_
#define MPSD_CLIENT_SSH_COMPLAINT_H_

#include <string>

#include "absl/status/status.h"
#include "client/ssh/server_url.h"

namespace mpsd::ssh {

// How to run ssh by hand: "ssh -p 2222 ann@studio.local".
std::string ByHand(const ServerUrl& url);

// Why ssh ended before a session began, in words for the user: a line of what
// is wrong, one of what to do, and unless `shown`, what ssh said. Unavailable:
// the host is unknown or out of reach, or broke off. Unauthenticated: the host
// or the account is not the one that the other side knows. Internal: this
// account's ssh. `said`: what ssh wrote to stderr; `may_ask`: whether ssh could
// ask.
absl::Status SessionComplaint(const ServerUrl& url, const std::string& said,
                              bool may_ask, bool shown);

// Why the socket at the host lets nobody through. sshd does not tell the two
// reasons apart: PermissionDenied, where somebody `listens` there: sshd
// forwards no sockets; else Unavailable.
absl::Status ForwardComplaint(const ServerUrl& url, const std::string& socket,
                              bool listens, const std::string& said);

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_COMPLAINT_H_
