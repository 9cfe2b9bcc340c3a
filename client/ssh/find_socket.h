// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_FIND_SOCKET_H_
#define MPSD_CLIENT_SSH_FIND_SOCKET_H_

#include <optional>
#include <string>
#include <vector>

namespace mpsd::ssh {

// The POSIX shell script that the ssh session reads on its standard input. It
// looks for mpsd's socket: at `path` (the socket or its folder), or where
// `path` is empty in $MPSD_STATE_DIR, in the account's default state folders
// and in those that the service files of deploy/install.sh name. It prints a
// line for each place, and "mpsd-socket PATH" for the first socket that the
// account may open and somebody listens at, or else that it may open; then it
// waits until its standard input ends.
std::string FindSocketScript(const std::string& path);

// What the script has said so far.
struct FoundSocket {
  std::optional<std::string> socket;
  bool listens = false;              // the system knows a listener there
  bool none = false;                 // the script looked everywhere
  std::vector<std::string> looked;   // every place, in its order
  std::vector<std::string> refused;  // those that the account may not open
  std::string noise;                 // the first other line, of a login shell
};

// Reads whole lines; what a login shell prints among them counts as noise.
FoundSocket ReadFoundSocket(const std::string& output);

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_FIND_SOCKET_H_
