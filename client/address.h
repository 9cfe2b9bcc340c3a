// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_ADDRESS_H_
#define MPSD_CLIENT_ADDRESS_H_

#include <string>

namespace mpsd::client {

// Where mpsctl looks for `mpsd`.
struct Address {
  std::string target;       // in gRPC's form: "unix:/…/mpsd.sock", "host:1"
  std::string socket_path;  // the path of a unix socket, else empty
};

// Finds the daemon. `server` (--server) wins over MPSD_SERVER, which wins over
// the socket in `state_dir` (--state-dir), in MPSD_STATE_DIR and in the default
// folder, in this order; but a --state-dir on the command line wins over the
// environment. An empty argument was not given. A `server` that begins with
// "/", "./" or "../" is the path of a socket.
Address FindAddress(const std::string& server, const std::string& state_dir);

// ~/.local/state/mpsd on Linux, ~/Library/Application Support/mpsd on a Mac.
std::string DefaultStateDir();

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_ADDRESS_H_
