// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_SERVER_TLS_CLIENT_NAME_H_
#define MPSD_SERVER_TLS_CLIENT_NAME_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace mpsd::tls {

// Whom a client's certificate names.
struct ClientName {
  std::string user;    // the only common name, a valid user name
  std::string serial;  // the serial number, hexadecimal digits
  absl::Time expiry;   // notAfter
};

// Reads the certificate in `pem`, whose signatures somebody else has checked.
// InvalidArgument where the subject does not have exactly one common name, or
// one that no user may have (access::IsUserName).
absl::StatusOr<ClientName> ReadClientName(const std::string& pem);

}  // namespace mpsd::tls

#endif  // MPSD_SERVER_TLS_CLIENT_NAME_H_
