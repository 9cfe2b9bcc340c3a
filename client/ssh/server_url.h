// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_SERVER_URL_H_
#define MPSD_CLIENT_SSH_SERVER_URL_H_

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::ssh {

// A daemon behind ssh: ssh://[user@]host[:port][/path/to/mpsd.sock].
struct ServerUrl {
  std::string user;  // empty: as ssh's own configuration says
  std::string host;  // a name, an alias of ssh's configuration, an address
  std::string port;  // empty: as ssh's own configuration says
  std::string path;  // absolute; the socket or its folder; empty: to be found
};

// Whether `server` is meant to be such an URL.
bool IsServerUrl(const std::string& server);

// InvalidArgument, with the form that was expected. No host and no user can
// pass for an option of ssh, nor hold a character that a shell reads, because
// ssh's configuration may hand both to one. In the path "%20" is a space and
// "%25" a percent sign.
absl::StatusOr<ServerUrl> ParseServerUrl(const std::string& text);

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_SERVER_URL_H_
