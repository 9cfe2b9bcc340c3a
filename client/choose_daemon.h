// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_CHOOSE_DAEMON_H_
#define MPSD_CLIENT_CHOOSE_DAEMON_H_

#include <string>

#include "absl/status/statusor.h"
#include "client/address.h"
#include "client/contexts/context.h"
#include "client/contexts/context_store.h"

namespace mpsd::client {

// What the command line says about the daemon; empty: nothing.
struct DaemonChoice {
  std::string server;     // --server
  std::string context;    // --context
  std::string state_dir;  // --state-dir
};

// The order of precedence, as `mpsctl --help` prints it.
std::string DaemonChoiceHelp();

// The daemon that a verb talks to, with the credentials for it: --server, else
// --context, --state-dir, MPSD_SERVER, MPSD_CONTEXT, MPSD_STATE_DIR, the
// current context, the socket in the default state folder. HOST:PORT takes the
// credentials of the context that was logged in there, of several the current
// one; where there is none, the token is MPSD_TOKEN, another machine is spoken
// to by TLS with the authorities that the system trusts, and this machine's
// loopback without TLS.
// InvalidArgument for an address that is none; NotFound, InvalidArgument,
// FailedPrecondition for a context that is not there or broken, or whose files
// are.
absl::StatusOr<Address> ChooseDaemon(const DaemonChoice& choice,
                                     const ContextStore& contexts);

// The address of `context` and what it takes to be let in there.
absl::StatusOr<Address> AddressOf(const Context& context);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_CHOOSE_DAEMON_H_
