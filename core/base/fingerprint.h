// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_FINGERPRINT_H_
#define MPSD_CORE_BASE_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::base {

// The name that people compare a certificate by, of the certificate's DER
// bytes: "SHA256:" and the digest as 32 pairs of upper-case hexadecimal digits
// with colons between them, as `openssl x509 -fingerprint -sha256` prints.
std::string Fingerprint(std::string_view der);

// A fingerprint as a person gives it, in the spelling of Fingerprint(): upper
// or lower case, with or without "SHA256:", the colons, and spaces around it.
// InvalidArgument for anything else.
absl::StatusOr<std::string> ParseFingerprint(std::string_view text);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_FINGERPRINT_H_
