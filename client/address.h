// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_ADDRESS_H_
#define MPSD_CLIENT_ADDRESS_H_

#include <memory>
#include <string>

#include "client/credentials.h"
#include "client/ssh/tunnel.h"

namespace mpsd::client {

// Where mpsctl looks for `mpsd`.
struct Address {
  std::string target;       // in gRPC's form: "unix:/…/mpsd.sock", "host:1"
  std::string socket_path;  // the path of a unix socket, else empty
  // The way to an ssh://… target, which all connections to it share; else null.
  std::shared_ptr<ssh::Tunnel> tunnel = nullptr;
  Credentials credentials = {};
};

// Finds the daemon. `server` (--server) wins over MPSD_SERVER, which wins over
// the socket in `state_dir` (--state-dir), in MPSD_STATE_DIR and in the default
// folder, in this order; but a --state-dir on the command line wins over the
// environment. An empty argument was not given. A `server` that begins with
// "/", "./" or "../" is the path of a socket, one that begins with "ssh://" the
// URL of a daemon behind ssh (client/ssh/tunnel.h); a wrong one is what
// Connection::Connect answers.
Address FindAddress(const std::string& server, const std::string& state_dir);

// Whether `server` is meant to be ssh://[USER@]HOST[:PORT][/PATH].
bool IsBehindSsh(const std::string& server);

// ~/.local/state/mpsd on Linux, ~/Library/Application Support/mpsd on a Mac.
std::string DefaultStateDir();

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_ADDRESS_H_
