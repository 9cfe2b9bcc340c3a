// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_REFUSAL_H_
#define MPSD_CLIENT_REFUSAL_H_

#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/time/time.h"
#include "client/address.h"
#include "client/exit_code.h"
#include "client/tls/host_port.h"
#include "client/tls/probe.h"
#include "client/tls/trust.h"

// Says why no connection to a daemon's port comes about, which gRPC does not.
namespace mpsd::client {

struct Refusal {
  ExitCode code = ExitCode::kUnreachable;
  std::string what;
  std::string next;  // what to do
};

// What is in the way of TLS at `place`; nullopt for Found::kTls.
std::optional<Refusal> WhyNoTls(const HostPort& place, const Probe& probe);

// Why the chain of `place` is not trusted; nullopt for Trust::kTrusted.
// `roots_pem` are those that it was judged by, of the context named `context`
// unless that is empty.
std::optional<Refusal> WhyNoTrust(const HostPort& place, const Chain& chain,
                                  const Verdict& verdict,
                                  const std::string& roots_pem,
                                  const std::string& context);

// Looks at the port again after a call failed with UNAVAILABLE. nullopt where
// `address` is no port, and where nothing is found to be wrong. Takes at most
// 5 s and the look-up of the host's name.
std::optional<Refusal> WhyUnreachable(const Address& address, absl::Time now);

// What to do about UNAUTHENTICATED or PERMISSION_DENIED at `address`.
std::string HowToBeLetIn(const Address& address, grpc::StatusCode code);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_REFUSAL_H_
