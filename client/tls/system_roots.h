// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CLIENT_TLS_SYSTEM_ROOTS_H_
#define MPSD_CLIENT_TLS_SYSTEM_ROOTS_H_

#include <string>

#include "absl/status/statusor.h"

namespace mpsd::client {

// The certificates of the authorities that this machine trusts, PEM: the file
// that SSL_CERT_FILE names, else the first of OpenSSL's own and the systems'
// usual files. NotFound where there is none.
absl::StatusOr<std::string> SystemRoots();

}  // namespace mpsd::client

#endif  // MPSD_CLIENT_TLS_SYSTEM_ROOTS_H_
