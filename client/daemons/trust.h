// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "core/base/certificates.h"

namespace mpsd::client {

// The certificates of the authorities that this machine trusts, PEM: the file
// that SSL_CERT_FILE names, else the first of OpenSSL's own and the systems'
// usual files. NotFound if there is none.
absl::StatusOr<std::string> SystemRoots();

struct HostPort {
  std::string host;  // a name, or an address without brackets
  std::string port;  // "7433"

  // "studio:7433", "[::1]:7433".
  std::string Text() const;
};

// InvalidArgument, with the expected form, for anything but HOST:PORT and
// [IPV6]:PORT.
absl::StatusOr<HostPort> ParseHostPort(std::string_view text);

// Whether `host` is an address, not a name.
bool IsIpAddress(const std::string& host);

// Whether `host` names this machine: localhost, 127.0.0.0/8, ::1.
bool IsLoopback(std::string_view host);

// The certificates that a server sends, its own first, its authority's last.
using Chain = std::vector<certificates::Certificate>;

enum class Trust {
  kTrusted,
  kOtherAuthority,  // none of the roots has signed it
  kExpired,         // one of the chain, or the root itself
  kNotYetValid,
  kWrongName,  // the server's certificate does not name the host
  kBroken,     // any other fault
};

struct Verdict {
  Trust trust = Trust::kBroken;
  // OpenSSL's words, human-readable; empty if it is trusted.
  std::string why = {};
};

// Whether `chain`, not empty, is of a server named `host` (a name or an
// address), and leads to one of `roots`; as in gRPC, any certificate of the
// chain may be a root.
Verdict Judge(const Chain& chain, const std::vector<X509*>& roots,
              const std::string& host, absl::Time now);
// The same with roots in PEM. kBroken if the text contains none.
Verdict Judge(const Chain& chain, const std::string& roots_pem,
              const std::string& host, absl::Time now);

// What is found at a port.
enum class Found {
  kUnknownHost,  // the name has no address
  kUnreachable,  // nothing answers there
  kSilent,       // something answers, but no handshake ended in time
  kNoTls,        // the server does not speak TLS 1.3
  kTls,
};

struct Probe {
  Found found = Found::kUnreachable;
  // The system's or OpenSSL's words, human-readable; empty for kTls.
  std::string why = {};
  Chain chain = {};  // of kTls; not judged
};

// Connects, performs the handshake as gRPC would, and disconnects; sends no
// secret and trusts nothing. Accepts certificates of at most 100 KB. `patience`
// does not include the name's look-up.
Probe ProbeServer(const HostPort& place,
                  absl::Duration patience = absl::Seconds(10));

}  // namespace mpsd::client
