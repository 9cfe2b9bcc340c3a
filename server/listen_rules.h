// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_LISTEN_RULES_H_
#define MPSD_SERVER_LISTEN_RULES_H_

#include <string>

#include "absl/status/status.h"
#include "server/config.h"

namespace mpsd {

// Whether other machines or other accounts of this machine can connect to
// `address`: everything but a unix socket.
bool IsPort(const std::string& address);

// Who may be served on which address. InvalidArgument, naming the option:
//   --listen           a port beyond loopback only with a certificate;
//   --tls-*            the certificate and its key come together;
//   --http-listen      a unix socket or a loopback host alone: the page has
//                      neither TLS nor tokens, and shows specs and logs;
//   --metrics-tls-*    the certificate and its key come together;
//   --metrics-token-file  on a port beyond loopback only with TLS, since others
//                      could read the token. Metrics without a token stay
//                      allowed there: they show names and numbers of jobs and
//                      change nothing.
absl::Status CheckAddresses(const Config& config);

}  // namespace mpsd

#endif  // MPSD_SERVER_LISTEN_RULES_H_
