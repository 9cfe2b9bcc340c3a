// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TLS_PROBE_H_
#define MPSD_CLIENT_TLS_PROBE_H_

#include <string>

#include "absl/time/time.h"
#include "client/tls/host_port.h"
#include "client/tls/trust.h"

namespace mpsd::client {

// What is found at a port.
enum class Found {
  kUnknownHost,  // the name has no address
  kUnreachable,  // nobody answers there
  kSilent,       // somebody answers, but no handshake ended in time
  kNoTls,        // whoever answers does not speak TLS 1.3
  kTls,
};

struct Probe {
  Found found = Found::kUnreachable;
  // The system's or OpenSSL's words, for people; empty for kTls.
  std::string why = {};
  Chain chain = {};  // of kTls; not judged
};

// Connects, shakes hands as gRPC would, and hangs up; sends no secret and
// believes nothing. Takes certificates of at most 100 KB. `patience` is for
// everything but the name.
Probe ProbeServer(const HostPort& place,
                  absl::Duration patience = absl::Seconds(10));

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TLS_PROBE_H_
