// SPDX-License-Identifier: Apache-2.0
#ifndef MPSD_CORE_BASE_FINGERPRINT_H_
#define MPSD_CORE_BASE_FINGERPRINT_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace mpsd::base {

// The fingerprint of a certificate from its DER bytes: "SHA256:" and the digest
// as 32 colon-separated pairs of upper-case hexadecimal digits, as `openssl
// x509 -fingerprint -sha256` prints.
std::string Fingerprint(std::string_view der);

// Normalises a fingerprint that a person typed to the spelling of
// Fingerprint(): upper or lower case, with or without "SHA256:", colons and
// surrounding spaces. InvalidArgument for anything else.
absl::StatusOr<std::string> ParseFingerprint(std::string_view text);

}  // namespace mpsd::base

#endif  // MPSD_CORE_BASE_FINGERPRINT_H_
