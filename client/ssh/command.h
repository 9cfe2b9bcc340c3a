// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_SSH_COMMAND_H_
#define MPSD_CLIENT_SSH_COMMAND_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ssh/server_url.h"

namespace mpsd::ssh {

// MPSD_SSH, else "ssh".
std::string SshProgram();

// The ssh that holds the tunnel: it reads a shell script on its standard input
// and answers to others at `control`. `may_ask`: for a passphrase, a password,
// whether a host is the right one.
std::vector<std::string> SessionCommand(const ServerUrl& url,
                                        const std::string& control,
                                        bool may_ask);

// The ssh that tells the one at `control` to listen at `local` and to forward
// to the socket `remote` at the host. InvalidArgument for a `remote` that no
// ssh can be told: too long, or with characters that ssh would replace. A host
// chooses `remote`, and "${NAME}" in it would send that host this account's
// environment.
absl::StatusOr<std::vector<std::string>> ForwardCommand(
    const std::string& control, const std::string& local,
    const std::string& remote);

}  // namespace mpsd::ssh

#endif  // MPSD_CLIENT_SSH_COMMAND_H_
