// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TLS_TRUST_H_
#define MPSD_CLIENT_TLS_TRUST_H_

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "core/certificates/openssl.h"

namespace mpsd::client {

// The certificates that a server shows, its own first, its authority's last.
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
  // OpenSSL's words, for people; empty where it is trusted.
  std::string why = {};
};

// Whether `chain`, not empty, is a server's called `host` (a name or an
// address), and leads to one of `roots`; a root may be any certificate of the
// chain, as gRPC has it too.
Verdict Judge(const Chain& chain, const std::vector<X509*>& roots,
              const std::string& host, absl::Time now);
// The same with roots in PEM. kBroken where the text holds none.
Verdict Judge(const Chain& chain, const std::string& roots_pem,
              const std::string& host, absl::Time now);

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TLS_TRUST_H_
